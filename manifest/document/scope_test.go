package document

import (
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// scopes is a document with values for each of three instances.
const scopes = `instance_groups: [{name: web, instances: 3}]
own: {pw: ((pw)), url: "https://u:((pw))@h", ((key)): x, list: [((leaf.certificate))]}
all: ((shared))
variables:
- {name: shared, type: password}
- {name: pw, type: password, scope: instance}
- {name: key, scope: instance}
- {name: root, type: certificate, scope: instance, options: {is_ca: true, common_name: ca, key_type: ecdsa}}
- {name: leaf, type: certificate, scope: instance, options: {ca: root, common_name: leaf, key_type: ecdsa}}
`

// instances are those of the document scopes. The first one has plain names.
func instances() []Instance {
	return []Instance{
		{Group: "web", ID: "id-a", Name: "web/0", Plain: true, Hosts: []string{"10.0.0.1"}},
		{Group: "web", ID: "id-b", Name: "web/1", Hosts: []string{"10.0.0.2"}},
		{Group: "web", ID: "id-c", Name: "web/2", Hosts: []string{"10.0.0.3"}},
	}
}

// readScopes reads a document with a store for all instances.
func readScopes(t *testing.T, text string, opts Options) (*Document, error) {
	t.Helper()
	return Read(t.Context(), write(t, text), opts, func(Value) {})
}

// ownValues returns the values that an instance sees.
func ownValues(t *testing.T, d *Document, in Instance) map[string]any {
	t.Helper()
	var own map[string]any
	got, err := d.For(t.Context(), in, func(top Value) { own, _ = top.Get("own").Plain().(map[string]any) })
	if err != nil {
		t.Fatal(err)
	}
	if got.Scoped(got.root.find("own").value.find("url").value.value.(string)) != "" {
		t.Errorf("%s: a variable is not filled in: %v", in.Name, own)
	}
	return own
}

func TestScopeInstance(t *testing.T) {
	t.Parallel()
	opts := Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml"), Generate: Write, Vars: []string{"key=k"}} // a given value is that of all instances
	d, err := readScopes(t, scopes, opts)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Generated; !slices.Equal(got, []string{"shared"}) || !d.HasScopes() {
		t.Fatalf("generated %q", got)
	}
	planned := ownValues(t, d, instances()[1])
	if planned["pw"] != "<generated password pw>" {
		t.Errorf("planned %v", planned)
	}
	names, of, err := d.GenerateFor(t.Context(), instances())
	if err != nil || !slices.Equal(names, []string{"leaf", "pw", "root"}) || len(of) != 3 {
		t.Fatal(names, of, err)
	}
	values := stored(t, opts.VarsStore)
	seen := map[any]bool{}
	for _, in := range instances() {
		own := ownValues(t, d, in)
		key := "pw/web/" + in.ID
		if in.Plain {
			key = "pw"
		}
		if own["pw"] != values[key] || seen[own["pw"]] || own["k"] != "x" || own["url"] != "https://u:"+values[key].(string)+"@h" {
			t.Errorf("%s: %v", in.Name, own)
		}
		seen[own["pw"]] = true
		block, _ := pem.Decode([]byte(own["list"].([]any)[0].(string)))
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || cert.VerifyHostname(in.Hosts[0]) != nil {
			t.Errorf("%s: the certificate is for %v, %v", in.Name, cert.IPAddresses, err)
		}
	}
	// The document itself is not changed, and a second run generates nothing.
	if d.root.find("own").value.find("pw").value.value != "((pw))" {
		t.Error("the document was filled in")
	}
	d, err = readScopes(t, scopes, opts)
	if err != nil {
		t.Fatal(err)
	}
	if names, _, err := d.GenerateFor(t.Context(), instances()); err != nil || names != nil {
		t.Error(names, err)
	}
	if err := d.Forget(t.Context(), instances()[1]); err != nil {
		t.Fatal(err)
	}
	if err := d.Forget(t.Context(), instances()[0]); err != nil { // its names are those of the variables
		t.Fatal(err)
	}
	left := stored(t, opts.VarsStore)
	if len(left) != len(values)-3 || left["pw"] != values["pw"] || left["pw/web/id-c"] != values["pw/web/id-c"] {
		t.Errorf("%d of %d values are left", len(left), len(values))
	}
}

// A group with another name keeps the values of its instances.
func TestScopeRenamedGroup(t *testing.T) {
	t.Parallel()
	opts := Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml"), Generate: Write, Vars: []string{"key=k"}}
	d, err := readScopes(t, scopes, opts)
	if err != nil {
		t.Fatal(err)
	}
	in := instances()[2]
	if _, _, err := d.GenerateFor(t.Context(), []Instance{in}); err != nil {
		t.Fatal(err)
	}
	before := ownValues(t, d, in)
	in.Group = "renamed"
	if after := ownValues(t, d, in); after["pw"] != before["pw"] {
		t.Errorf("%v and then %v", before["pw"], after["pw"])
	}
}

// Names with slashes, as CredHub has them, are not taken for those of other variables.
func TestScopeNamesWithSlashes(t *testing.T) {
	t.Parallel()
	const own = "own: {pw: ((pw)), url: ((pw)), abs: ((/dep/pw)), long: ((pw/x))}\n"
	text := "instance_groups: [{name: web, instances: 2}]\n" + own + "variables:\n- {name: pw/x, type: password, scope: instance}\n- {name: /dep/pw, type: password, scope: instance}\n"
	opts := Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml"), Generate: Write}
	in := instances()[1:2]
	for i, more := range []string{"- {name: pw}\n", "- {name: pw, type: password, scope: instance}\n"} {
		opts.Vars = []string{"pw=x"}[i:]
		d, err := readScopes(t, text+more, opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.GenerateFor(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if d, err = readScopes(t, text+more, opts); err != nil || len(d.Unused) > 0 {
			t.Errorf("%q are not used, %v", d.Unused, err)
		}
		got := ownValues(t, d, in[0])
		if got["pw"] == got["long"] || got["pw"] == got["abs"] || got["abs"] == got["long"] {
			t.Errorf("%v", got)
		}
	}
}

func TestScopeErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"unknown": {"variables: [{name: a, type: password, scope: group}]", `variables[0].scope: must be deployment (one value for all instances, the default) or instance (a value of its own for each instance), but is "group"`},
		"uses":    {"instance_groups: [{instances: 2}]\nvariables: [{name: a, type: certificate, options: {is_ca: true, common_name: ((b))}}, {name: b, type: password, scope: instance}]", `but its options use "b", which has a value of its own for each instance: add scope: instance`},
		"ca":      {"instance_groups: [{instances: 2}]\nvariables: [{name: a, type: certificate, options: {ca: b, common_name: x}}, {name: b, type: certificate, scope: instance, options: {is_ca: true, common_name: x}}]", `the variable "a" has one value for all instances`},
	} {
		_, err := readScopes(t, c.text, Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml"), Generate: Plan})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A document with one instance has the value of the variable.
	d, err := readScopes(t, "a: ((pw))\ninstance_groups: [{instances: 1}]\nvariables: [{name: pw, type: password, scope: instance}]", Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml"), Generate: Write})
	if err != nil || d.HasScopes() || !slices.Equal(d.Generated, []string{"pw"}) {
		t.Error(err)
	}
	// A value that nothing generates is missing.
	d, err = readScopes(t, scopes, Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml"), Generate: Plan})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.For(t.Context(), instances()[1], func(Value) {}); err == nil || !strings.Contains(err.Error(), "((key)) has no value") {
		t.Error(err)
	}
}

func TestRotateInstances(t *testing.T) {
	t.Parallel()
	path := write(t, scopes)
	opts := Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml"), Generate: Write, Vars: []string{"key=k"}, Instances: instances()}
	d, err := Read(t.Context(), path, opts, func(Value) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.GenerateFor(t.Context(), instances()); err != nil {
		t.Fatal(err)
	}
	rotate := func(r Rotation) (changed []string) {
		t.Helper()
		before := stored(t, opts.VarsStore)
		list, err := Rotate(t.Context(), path, opts, r)
		if err != nil {
			t.Fatal(err)
		}
		after := stored(t, opts.VarsStore)
		for name, value := range after {
			if !reflect.DeepEqual(value, before[name]) {
				changed = append(changed, name)
			}
		}
		slices.Sort(changed)
		if len(changed) != len(list) || len(after) != len(before) {
			t.Errorf("%d values changed, but %d were reported", len(changed), len(list))
		}
		return changed
	}
	second := func(in Instance) bool { return in.ID == "id-b" }
	for _, c := range []struct {
		r    Rotation
		want []string
	}{
		{Rotation{Names: []string{"pw"}}, []string{"pw", "pw/web/id-b", "pw/web/id-c"}},
		{Rotation{Names: []string{"pw"}, Selected: second}, []string{"pw/web/id-b"}},
		{Rotation{Names: []string{"root"}, Selected: second}, []string{"leaf/web/id-b", "root/web/id-b"}},
		{Rotation{Names: []string{"pw/web/id-c", "shared"}}, []string{"pw/web/id-c", "shared"}},
		{Rotation{ExpiringWithin: 400 * 24 * 3600e9, Selected: second}, []string{"leaf/web/id-b", "root/web/id-b"}},
	} {
		if got := rotate(c.r); !slices.Equal(got, c.want) {
			t.Errorf("%+v changed %q, not %q", c.r.Names, got, c.want)
		}
	}
	for _, c := range []struct {
		r    Rotation
		want string
	}{
		{Rotation{Names: []string{"shared"}, Selected: second}, "leave --instance out"},
		{Rotation{Names: []string{"pw"}, Selected: func(Instance) bool { return false }}, "no such instance"},
		{Rotation{Names: []string{"other"}}, "it has leaf, pw, root, shared"},
		{Rotation{Names: []string{"pw/web/id-c", "other"}}, `"other"`},
	} {
		if _, err := Rotate(t.Context(), path, opts, c.r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v", err)
		}
	}
	list, err := Variables(t.Context(), path, opts)
	if err != nil || len(list) != 1+3*3+1 {
		t.Errorf("%d variables, %v", len(list), err)
	}
	for _, v := range list {
		if len(v.Findings) > 0 || v.Name != "key" && v.Origin != Stored {
			t.Errorf("%s of %s: %s, %v", v.Name, v.Instance, v.Origin, v.Findings)
		}
	}
}

// With update_mode: converge, a value of an instance is generated again if it does not match
// its options, its addresses, or the CA that all share; other instances keep theirs.
func TestScopeConverge(t *testing.T) {
	t.Parallel()
	const text = `instance_groups: [{name: web, instances: 3}]
own: {url: "((pw))", kept: ((kept.certificate)), tls: ((tls.certificate))}
variables:
- {name: ca, type: certificate, update_mode: converge, options: {is_ca: true, common_name: CA, key_type: ecdsa}}
- {name: pw, type: password, scope: instance, update_mode: converge}
- {name: tls, type: certificate, scope: instance, update_mode: converge, options: {ca: ca, common_name: x, alternative_names: [NAME], key_type: ecdsa}}
- {name: kept, type: certificate, scope: instance, options: {ca: ca, common_name: x, alternative_names: [NAME], key_type: ecdsa}}
`
	opts := Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml")}
	list := instances()
	read := func(mode Mode, ca, name string) *Document {
		t.Helper()
		opts.Generate = mode
		d, err := readScopes(t, strings.NewReplacer("CA", ca, "NAME", name).Replace(text), opts)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if names, _, err := read(Write, "one", "a").GenerateFor(t.Context(), list); err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	moved := instances()
	moved[2].Hosts = []string{"10.0.0.9"}
	for _, c := range []struct {
		ca, name string
		list     []Instance
		names    []string
		of       []string
	}{
		{"one", "a", list, nil, nil},
		{"one", "b", list, []string{"tls"}, []string{"web/0", "web/1", "web/2"}},
		{"one", "b", moved, []string{"tls"}, []string{"web/2"}},
		{"two", "b", moved, []string{"tls"}, []string{"web/0", "web/1", "web/2"}},
		{"two", "b", moved, nil, nil},
	} {
		before := stored(t, opts.VarsStore)
		planned, err := read(Plan, c.ca, c.name).For(t.Context(), c.list[2], func(Value) {})
		if err != nil || !slices.Equal(planned.Generated, c.names) {
			t.Errorf("%s %s: planned %v, %v", c.ca, c.name, planned.Generated, err)
		}
		if after := stored(t, opts.VarsStore); !reflect.DeepEqual(before, after) {
			t.Errorf("%s %s: the plan has changed the store", c.ca, c.name)
		}
		d := read(Write, c.ca, c.name)
		names, of, err := d.GenerateFor(t.Context(), c.list)
		if err != nil || !slices.Equal(names, c.names) || !slices.Equal(of, c.of) {
			t.Errorf("%s %s: generated %v of %v, %v", c.ca, c.name, names, of, err)
		}
		for _, in := range c.list {
			own, err := d.For(t.Context(), in, func(Value) {})
			if err != nil || len(own.Generated) > 0 {
				t.Errorf("%s: %v, %v", in.Name, own.Generated, err)
			}
		}
	}
	opts.Generate = Refuse
	if d, err := readScopes(t, strings.NewReplacer("CA", "three", "NAME", "c").Replace(text), opts); err != nil {
		t.Fatal(err)
	} else if own, err := d.For(t.Context(), list[0], func(Value) {}); err != nil || len(own.Generated) > 0 {
		t.Errorf("%v, %v", own, err)
	}
}
