package document

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	yaml2 "go.yaml.in/yaml/v2"

	"bootstrap/manifest/gen"
)

const variablesManifest = `
name: v
variables:
- name: leaf
  type: certificate
  options: {ca: middle, common_name: ((ip)), alternative_names: [((ip))], key_type: ecdsa, duration: 20}
- name: password
  type: password
- name: middle
  type: certificate
  options: {ca: root, is_ca: true, common_name: middle, key_type: ecdsa, duration: 300}
- name: root
  type: certificate
  options: {is_ca: true, common_name: root, key_type: ecdsa}
- name: fixed
`

// inStore evaluates a document with a new vars store, and returns the path of the store.
func inStore(t *testing.T, text string, vars ...string) (path string, opts Options) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "m.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts = Options{Vars: vars, VarsStore: filepath.Join(dir, "store.yml"), Generate: Write}
	if _, err := Evaluate(t.Context(), path, opts); err != nil {
		t.Fatal(err)
	}
	return path, opts
}

func storeOf(t *testing.T, opts Options) map[string]string {
	t.Helper()
	data, err := os.ReadFile(opts.VarsStore)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml2.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for name, value := range values {
		list[name] = fmt.Sprint(value)
	}
	return list
}

func rotatedNames(list []Rotated) string {
	var words []string
	for _, r := range list {
		words = append(words, r.Name+" ("+r.Why+")")
	}
	return strings.Join(words, ", ")
}

func TestRotate(t *testing.T) {
	t.Parallel()
	date := regexp.MustCompile(`expires on [-0-9]+ [0-9:]+ UTC`)
	for name, c := range map[string]struct {
		rotation Rotation
		vars     []string // variables in addition to ip
		want     string
	}{
		"password":  {Rotation{Names: []string{"password"}}, nil, "password (named)"},
		"root":      {Rotation{Names: []string{"root"}}, nil, "root (named), middle (signed by root), leaf (signed by middle)"},
		"expiring":  {Rotation{ExpiringWithin: 30 * 24 * time.Hour}, nil, "leaf (expires on DATE)"},
		"more":      {Rotation{ExpiringWithin: 301 * 24 * time.Hour}, nil, ""},
		"none":      {Rotation{ExpiringWithin: 24 * time.Hour}, nil, ""},
		"given":     {Rotation{Names: []string{"root"}}, []string{"middle=5"}, "root (named)"},
		"dry":       {Rotation{Names: []string{"root"}, DryRun: true}, nil, "root (named), middle (signed by root), leaf (signed by middle)"},
		"two named": {Rotation{Names: []string{"leaf", "password", "leaf"}}, nil, "leaf (named), password (named)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, opts := inStore(t, variablesManifest, "ip=10.0.0.6")
			before := storeOf(t, opts)
			opts.Vars = append(opts.Vars, c.vars...)
			rotated, err := Rotate(t.Context(), path, opts, c.rotation)
			if err != nil {
				t.Fatal(err)
			}
			if got := date.ReplaceAllString(rotatedNames(rotated), "expires on DATE"); got != c.want && name != "more" {
				t.Errorf("rotated %s, want %s", got, c.want)
			}
			if name == "more" && len(rotated) != 2 {
				t.Errorf("rotated %s", rotatedNames(rotated))
			}
			after := storeOf(t, opts)
			for name, value := range before {
				isRotated := strings.Contains(", "+rotatedNames(rotated), ", "+name+" (")
				if changed := after[name] != value; changed != (isRotated && !c.rotation.DryRun) {
					t.Errorf("%s: changed is %v", name, changed)
				}
			}
			if len(after) != len(before) {
				t.Errorf("%d values after, %d before", len(after), len(before))
			}
			if info, err := os.Stat(opts.VarsStore); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v %v", info.Mode(), err)
			}
			opts.Vars, opts.ExpiryWarning = opts.Vars[:1], time.Hour
			list, err := Variables(t.Context(), path, opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range list {
				if len(v.Findings) > 0 && name != "given" {
					t.Error(v.Findings)
				}
			}
		})
	}
}

// After an error the vars store is unchanged.
func TestRotateErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit, by string // edit changes the manifest
		vars     []string
		names    []string
		want     string
	}{
		"unknown":    {names: []string{"rot"}, want: `cannot rotate "rot": the manifest has no such variable with a type; it has leaf, middle, password, root`},
		"untyped":    {names: []string{"fixed"}, want: `cannot rotate "fixed"`},
		"given":      {names: []string{"password"}, vars: []string{"ip=1", "password=secret"}, want: `cannot rotate "password": its value comes from --var, which takes precedence over the vars store; change it there`},
		"no value":   {names: []string{"root"}, vars: []string{"x=1"}, want: `m.yml:6:38: variables[0].options.common_name: the variable ((ip)) has no value (it is used in 2 places)`},
		"bad option": {names: []string{"root"}, vars: []string{"ip=1"}, edit: "duration: 20", by: "duration: x", want: `m.yml:6:102: variables[0].options.duration: the variable "leaf" cannot be generated: must be a whole number, not text`},
		"cycle":      {names: []string{"root"}, vars: []string{"ip=1"}, edit: "{is_ca: true, common_name: root", by: "{ca: middle, is_ca: true, common_name: root", want: "cannot rotate"},
	} {
		for _, dry := range []bool{false, true} {
			t.Run(fmt.Sprint(name, dry), func(t *testing.T) {
				t.Parallel()
				path, opts := inStore(t, variablesManifest, "ip=10.0.0.6")
				before := storeOf(t, opts)
				if c.edit != "" {
					text := strings.Replace(variablesManifest, c.edit, c.by, 1)
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if c.vars != nil {
					opts.Vars = c.vars
				}
				rotated, err := Rotate(t.Context(), path, opts, Rotation{Names: c.names, DryRun: dry})
				if err == nil || !strings.Contains(err.Error(), c.want) || rotated != nil {
					t.Errorf("error is %v, want %s", err, c.want)
				}
				for name, value := range storeOf(t, opts) {
					if value != before[name] {
						t.Errorf("%s was changed", name)
					}
				}
			})
		}
	}
	if _, err := Rotate(t.Context(), "m.yml", Options{}, Rotation{}); err == nil || !strings.Contains(err.Error(), "--vars-store") {
		t.Errorf("error is %v", err)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	path, opts := inStore(t, variablesManifest, "ip=10.0.0.6")
	if _, err := Rotate(t.Context(), path, opts, Rotation{Names: []string{"middle"}}); err != nil {
		t.Fatal(err)
	}
	text := variablesManifest + "- {name: new, type: ssh}\n- {name: lost, type: certificate, options: {ca: ((gone)), is_ca: true}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts.Vars = []string{"ip=10.0.0.7", "password=secret"}
	list, err := Variables(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range list {
		line := v.Name + " " + v.Type + " " + string(v.Origin)
		if !v.NotAfter.IsZero() {
			line += " dated"
		}
		for _, f := range v.Findings {
			line += " " + string(f.Kind) + "/" + f.Option
		}
		got = append(got, line)
	}
	want := `leaf certificate stored dated expiring/ mismatch/common_name mismatch/alternative_names
password password given
middle certificate stored dated
root certificate stored dated
fixed  missing
new ssh to be generated
lost certificate missing`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("variables are\n%s\nwant\n%s", text, want)
	}
	opts.VarsStore, opts.Vars = "", nil
	if list, err = Variables(t.Context(), path, opts); err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if v.Origin != Missing {
			t.Errorf("%s is %s without a store", v.Name, v.Origin)
		}
	}
}

// If a CA was replaced by hand in the store, certificates that it did not sign are
// reported.
func TestVariablesOfAnotherCA(t *testing.T) {
	t.Parallel()
	path, opts := inStore(t, variablesManifest, "ip=10.0.0.6")
	opts.ExpiryWarning = time.Hour
	other, err := new(gen.Keys).Generate(gen.Definition{Name: "root", Type: "certificate", Options: map[string]any{"is_ca": true, "common_name": "root", "key_type": "ecdsa"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	data, err := os.ReadFile(opts.VarsStore)
	if err == nil {
		err = yaml2.Unmarshal(data, &values)
	}
	values["root"] = other
	if err == nil {
		data, err = yaml2.Marshal(values)
	}
	if err == nil {
		err = os.WriteFile(opts.VarsStore, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	list, err := Variables(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if wrong := len(v.Findings) > 0; wrong != (v.Name == "middle") {
			t.Errorf("%s: %v", v.Name, v.Findings)
		}
	}
}

// Rotations at the same time wait for each other: at the end, the stored CA has signed
// every certificate.
func TestRotateTogether(t *testing.T) {
	t.Parallel()
	path, opts := inStore(t, variablesManifest, "ip=10.0.0.6")
	var wait sync.WaitGroup
	for _, name := range []string{"root", "middle", "leaf", "root", "password", "middle"} {
		wait.Go(func() {
			if _, err := Rotate(t.Context(), path, opts, Rotation{Names: []string{name}}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	opts.ExpiryWarning = time.Hour
	list, err := Variables(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if len(v.Findings) > 0 {
			t.Error(v.Findings)
		}
	}
}

// A store that cannot be written stays as it is.
func TestRotateUnwritable(t *testing.T) {
	t.Parallel()
	path, opts := inStore(t, variablesManifest, "ip=10.0.0.6")
	before := storeOf(t, opts)
	// A folder has the name of the store's copy.
	if err := os.Mkdir(opts.VarsStore+".previous", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Rotate(t.Context(), path, opts, Rotation{Names: []string{"root"}}); err == nil || !strings.Contains(err.Error(), "cannot keep a copy of the vars store") {
		t.Errorf("error is %v", err)
	}
	for name, value := range storeOf(t, opts) {
		if before[name] != value {
			t.Errorf("%s was changed", name)
		}
	}
}

// A variable is generated again if a variable in its options is.
func TestRotateWhatIsUsed(t *testing.T) {
	t.Parallel()
	path, opts := inStore(t, `
variables:
- {name: tls, type: certificate, options: {ca: root, alternative_names: [((host)), fixed], key_type: ecdsa}}
- {name: host, type: password}
- {name: root, type: certificate, options: {is_ca: true, common_name: "root of ((admin.username))", key_type: ecdsa}}
- {name: admin, type: user, options: {username: ((host))}}
- {name: other, type: certificate, options: {is_ca: true, common_name: ((static)), key_type: ecdsa}}
`, "static=x")
	before := storeOf(t, opts)
	const want = "host (named), admin (uses host), root (uses admin), tls (signed by root)"
	for _, dry := range []bool{true, false} {
		rotated, err := Rotate(t.Context(), path, opts, Rotation{Names: []string{"host"}, DryRun: dry})
		if err != nil || len(rotated) != 4 {
			t.Fatalf("%v, %v", rotated, err)
		}
		for _, r := range strings.Split(want, ", ") {
			if !strings.Contains(rotatedNames(rotated), r) {
				t.Errorf("dry %v: rotated %s, not %s", dry, rotatedNames(rotated), r)
			}
		}
	}
	after := storeOf(t, opts)
	for name := range before {
		if changed := after[name] != before[name]; changed != (name != "other") {
			t.Errorf("%s: changed is %v", name, changed)
		}
	}
	opts.ExpiryWarning = time.Hour
	list, err := Variables(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if len(v.Findings) > 0 {
			t.Error(v.Findings)
		}
	}
	rotated, err := Rotate(t.Context(), path, opts, Rotation{Names: []string{"tls"}})
	if got := rotatedNames(rotated); err != nil || got != "tls (named)" {
		t.Errorf("rotated %s, %v", got, err)
	}
}
