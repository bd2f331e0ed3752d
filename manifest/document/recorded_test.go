package document

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Values that are recorded have the same type and the same spelling when they are read.
func TestExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := trees(3).Draw(t, "value")
		text, err := n.exact()
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseValue(text)
		if err != nil || show(t, got) != show(t, n) {
			t.Fatalf("%q became\n%v, want\n%v, %v", text, show(t, got), show(t, n), err)
		}
	})
	const written = "a: 1.10\nb: 0755\nc: 1_000\nd: !!int \"7\"\ne: yes\nf: ~\ng:\nh: \"yes\"\ni: 1e3\nj: !!float 1\nk: .nan\n5: 6\n2.0: x\n<<: {m: 1}\n\"<<\": 2\n"
	first := parse("m.yml", []byte(written)).root
	text, err := first.exact()
	if err != nil {
		t.Fatal(err)
	}
	second := parse("m.yml", []byte(text)).root
	for i, e := range first.entries {
		of := second.entries[i]
		same := reflect.DeepEqual(e.value.value, of.value.value) || e.value.value != e.value.value // NaN
		spelled := e.value.value == nil || e.key == "j" || (Value{node: e.value}).raw() == (Value{node: of.value}).raw()
		if e.key != of.key || !same || !spelled {
			t.Errorf("%v: %#v (%q) became %#v (%q)", e.key, e.value.value, (Value{node: e.value}).raw(), of.value.value, (Value{node: of.value}).raw())
		}
	}
}

// recordedOf returns a record as it is read from a file.
func recordedOf(t *testing.T, d *Document) *Recorded {
	t.Helper()
	r, err := d.Record()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	again := &Recorded{Name: "version 3"}
	if err := json.Unmarshal(data, again); err != nil {
		t.Fatal(err)
	}
	return again
}

// A recorded document is the same again, whatever the files, flags and the vars store have
// become since. Only operations, configs and values of that time count.
func TestRecordedDocument(t *testing.T) {
	inFolder(t, twoClouds+`-- m.yml --
name: lab
size: ((size))
version: 1.10
login: "u:((pw))@h"
variables: [{name: pw, type: password}]
`)
	opts := Options{CloudConfigs: []string{"net.yml", "types.yml"}, VarsFiles: []string{"vars.yml"}, Ops: []string{"ops.yml"}, VarsStore: "creds.yml", Generate: Write}
	first, err := readCloud(t, "m.yml", opts, "default", "large")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := first.Digest()
	if err != nil {
		t.Fatal(err)
	}
	sketch, _ := first.Sketch()
	password := stored(t, "creds.yml")["pw"].(string)
	opts.Recorded = recordedOf(t, first)
	for _, file := range []string{"m.yml", "net.yml", "types.yml", "ops.yml", "vars.yml"} {
		if err := os.WriteFile(file, []byte("[wrong"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("creds.yml", []byte("pw: changed-since\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also what was recorded of the second one
		again, err := readCloud(t, "m.yml", opts, "default", "large")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.Digest(); err != nil || got != digest {
			t.Errorf("another digest: %v", err)
		}
		if got, _ := again.Sketch(); string(got) != string(sketch) {
			t.Errorf("the sketch\n%s became\n%s", sketch, got)
		}
		if got := again.top().Get("login").Scalar(); got != "u:"+password+"@h" {
			t.Errorf("the login is %q", got)
		}
		if list := Problems(again.Warnings).sorted(); len(list) != 1 || !strings.Contains(list.Error(), "the vars store has newer values of pw: they stay there") || strings.Contains(list.Error(), password) {
			t.Errorf("warnings: %v", list)
		}
		if !again.Secrets()[password] || again.Secrets()["10.0.0.1"] {
			t.Errorf("the secrets are %v", again.Secrets().Sorted())
		}
		opts.Recorded = recordedOf(t, again)
	}
	if got := stored(t, "creds.yml"); !reflect.DeepEqual(got, map[string]any{"pw": "changed-since"}) {
		t.Errorf("the vars store was changed: %v", got)
	}
	one, err := InputsDigest(t.Context(), "m.yml", opts, "salt")
	if err != nil {
		t.Fatal(err)
	}
	opts.Recorded.Document += "\n"
	if two, err := InputsDigest(t.Context(), "m.yml", opts, "salt"); err != nil || one == two {
		t.Errorf("the digest of inputs does not depend on the record: %v", err)
	}
}

// Instances have their own values of that time; one that did not exist then has those of the
// vars store, or new ones.
func TestRecordedInstances(t *testing.T) {
	t.Parallel()
	opts := Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml"), Generate: Write, Vars: []string{"key=k"}}
	first, err := readScopes(t, scopes, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := first.GenerateFor(t.Context(), instances()[:2]); err != nil {
		t.Fatal(err)
	}
	var want []map[string]any
	for _, in := range instances()[:2] {
		want = append(want, ownValues(t, first, in))
	}
	opts.Recorded, opts.Vars = recordedOf(t, first), nil
	if err := os.WriteFile(opts.VarsStore, []byte("shared: changed\npw: changed\npw/web/id-b: changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := readScopes(t, "[wrong", opts)
	if err != nil {
		t.Fatal(err)
	}
	for i, in := range instances()[:2] {
		in.Group = "renamed"
		if got := ownValues(t, again, in); !reflect.DeepEqual(got, want[i]) {
			t.Errorf("%s: %v, want %v", in.Name, got, want[i])
		}
	}
	if _, of, err := again.GenerateFor(t.Context(), instances()); err != nil || !reflect.DeepEqual(of, []string{"web/2"}) {
		t.Errorf("generated for %v, %v", of, err)
	}
	if got := stored(t, opts.VarsStore); got["shared"] != "changed" || got["pw/web/id-b"] != "changed" || got["pw/web/id-c"] == nil {
		t.Errorf("the vars store is %v", got)
	}
}

// What a lock file or a source had for a release is recorded.
func TestRecordedFound(t *testing.T) {
	t.Parallel()
	opts := Options{Find: func(_ context.Context, top Value, _ bool) error {
		item := top.Get("releases").Items()[1]
		item.Put("url", "https://host/b.tgz", Position{File: "m.lock.yml", Line: 4, Column: 1})
		item.Put("sha1", "", Position{})
		return nil
	}}
	const text = "releases:\n- {name: a}\n- {name: b, sha1: old}\n"
	first, err := readScopes(t, text, opts)
	if err != nil {
		t.Fatal(err)
	}
	digest, _ := first.Digest()
	opts.Find = func(context.Context, Value, bool) error {
		t.Error("it is looked for again")
		return nil
	}
	opts.Recorded = recordedOf(t, first)
	again, err := readScopes(t, text, opts)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := again.Digest(); got != digest {
		t.Error("another digest")
	}
	if at := again.top().Get("releases").Items()[1].Get("url").Position(); at.File != "m.lock.yml" || at.Line != 4 {
		t.Errorf("the URL is from %v", at)
	}
}
