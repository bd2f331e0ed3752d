package document

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	yaml2 "go.yaml.in/yaml/v2"
)

// generating is a manifest with generated variables; the CA is the last one.
const generating = `a: ((pw))
b: ((leaf.certificate))
c: ((leaf.ca))
d: ((root.certificate))
variables:
- {name: pw, type: password}
- {name: leaf, type: certificate, options: {ca: root, common_name: ((name)), key_type: ecdsa}}
- {name: root, type: certificate, options: {is_ca: true, common_name: ca, key_type: ecdsa}}
- {name: given}
`

// write writes a document into a new folder.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "document.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// stored reads a vars store in the way of create-env.
func stored(t *testing.T, path string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml2.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	file := write(t, generating)
	store := filepath.Join(t.TempDir(), "creds.yml")
	opts := Options{VarsStore: store, Generate: Write, Vars: []string{"name=a.example", "given=1"}}
	d, err := Evaluate(t.Context(), file, opts)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Generated, []string{"pw", "root", "leaf"}) || len(d.Missing) > 0 {
		t.Errorf("generated %q, missing %v", d.Generated, d.Missing)
	}
	values := stored(t, store)
	leaf, _ := values["leaf"].(map[any]any)
	root, _ := values["root"].(map[any]any)
	find := func(path string) string {
		found, err := d.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		return found.Scalar()
	}
	if len(values) != 3 || find("/a") != values["pw"] || find("/b") != leaf["certificate"] || find("/c") != root["certificate"] || find("/d") != root["certificate"] {
		t.Errorf("stored %v", values)
	}
	first, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(store); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	text, err := d.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "variables: []\n") {
		t.Errorf("definitions are left:\n%s", text)
	}

	// Evaluated again, in any mode: nothing is generated or written.
	for _, mode := range []Mode{Refuse, Plan, Write} {
		opts.Generate = mode
		again, err := Evaluate(t.Context(), file, opts)
		if err != nil {
			t.Fatal(err)
		}
		same, err := again.YAML()
		if err != nil || string(same) != string(text) || len(again.Generated) > 0 {
			t.Errorf("mode %v: %v, generated %q", mode, err, again.Generated)
		}
	}
	if data, err := os.ReadFile(store); err != nil || string(data) != string(first) {
		t.Errorf("the store was written again: %v", err)
	}
	if _, err := os.Stat(store + ".previous"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a previous store: %v", err)
	}
}

// Existing values are kept, in the file and in a copy of it.
func TestStoreKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real.yml"), filepath.Join(dir, "link.yml")
	const before = "# mine\nother: {a: [1, yes, ~, 1.5]}\npw: mine\n0755: octal\nyes: word\n"
	if err := os.WriteFile(target, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err)
	}
	_, err := Evaluate(t.Context(), write(t, generating), Options{VarsStore: link, Generate: Write, Vars: []string{"name=x", "given=1"}})
	if err != nil {
		t.Fatal(err)
	}
	values := stored(t, target)
	data, err := yaml2.Marshal(values["other"])
	if err != nil || string(data) != "a:\n- 1\n- true\n- null\n- 1.5\n" || values["pw"] != "mine" || values["0755"] != "octal" || values["yes"] != "word" || len(values) != 6 {
		t.Errorf("stored %v", values)
	}
	if previous, err := os.ReadFile(target + ".previous"); err != nil || string(previous) != before {
		t.Errorf("previous %q, %v", previous, err)
	}
	for _, name := range []string{target, target + ".previous", target + ".lock"} {
		if info, err := os.Lstat(name); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
}

// Processes that start at the same time use the same generated values.
func TestStoreIsLocked(t *testing.T) {
	t.Parallel()
	file := write(t, generating)
	store := filepath.Join(t.TempDir(), "creds.yml")
	texts := make([]string, 8)
	var group sync.WaitGroup
	for i := range texts {
		group.Go(func() {
			d, err := Evaluate(t.Context(), file, Options{VarsStore: store, Generate: Write, Vars: []string{"name=x", "given=1"}})
			if err != nil {
				t.Error(err)
				return
			}
			data, err := d.YAML()
			if err != nil {
				t.Error(err)
			}
			texts[i] = string(data)
		})
	}
	group.Wait()
	if len(slices.Compact(texts)) != 1 {
		t.Error("they differ")
	}
}

// A store that cannot be written stays as it is, and the command fails.
func TestStoreThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("this user may write everywhere")
	}
	dir := t.TempDir()
	store := filepath.Join(dir, "creds.yml")
	if err := os.WriteFile(store, []byte("x: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	_, err := Evaluate(t.Context(), write(t, generating), Options{VarsStore: store, Generate: Write, Vars: []string{"name=x", "given=1"}})
	if err == nil || !strings.Contains(err.Error(), "cannot lock the vars store") {
		t.Error(err)
	}
	if len(stored(t, store)) != 1 {
		t.Error("the store changed")
	}
}

// A folder has the name of the store's copy: nothing may be lost.
func TestStoreWithoutACopy(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "creds.yml")
	if err := os.WriteFile(store, []byte("x: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(store+".previous", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Evaluate(t.Context(), write(t, generating), Options{VarsStore: store, Generate: Write, Vars: []string{"name=x", "given=1"}})
	if err == nil || !strings.Contains(err.Error(), "cannot keep a copy of the vars store") {
		t.Error(err)
	}
	if len(stored(t, store)) != 1 {
		t.Error("the store changed")
	}
}

func TestDefinitionsThatCannotBeGenerated(t *testing.T) {
	t.Parallel()
	for definitions, want := range map[string]string{
		"[{name: a, type: pasword}]":                                       "variables[0]",
		"[{name: a, type: password, options: {lenght: 5}}]":                `variables[0].options.lenght: the variable "a" cannot be generated: the type password has no such option`,
		"[{name: a, type: password, options: [5]}]":                        `variables[0].options: must be a map`,
		"[{name: a, type: certificate, options: {ca: b, common_name: x}}]": `variables[0].options.ca: the variable "a" cannot be generated: there is no variable "b"`,
		"[{name: a, type: certificate, options: {ca: b}}, {name: b}]":      `the variable "b" has no value and no type`,
		"[{name: a, type: certificate, options: {ca: a}}]":                 "its options depend on itself: a -> a",
		"[{name: a, type: certificate, options: {ca: b, common_name: x}}, {name: b, type: certificate, options: {is_ca: true, ca: c}}, {name: c, type: certificate, options: {is_ca: true, ca: b}}]": "b -> c -> b",
		"[{name: a, type: user, options: {username: ((a.username))}}]": "a -> a",
		"[{name: a, type: password}, {name: a, type: password}]":       `variables[1]: the variable "a" is defined twice, first in`,
		"[{type: password}]": "must have a name",
		"[a]":                "variables[0]: must be a map",
		"{name: a}":          "variables: must be a list",
	} {
		for _, mode := range []Mode{Plan, Write} {
			store := filepath.Join(t.TempDir(), "creds.yml")
			_, err := Evaluate(t.Context(), write(t, "variables: "+definitions+"\n"), Options{VarsStore: store, Generate: mode})
			if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("%s, mode %v: got %v; want %s", definitions, mode, err, want)
			}
			if _, err := os.Stat(store); !errors.Is(err, fs.ErrNotExist) {
				t.Error("a store was written")
			}
		}
	}
}

// Options may use other variables, in any order; the options of a given variable are
// ignored.
func TestOptionsWithVariables(t *testing.T) {
	t.Parallel()
	const text = `x: ((u.username))
variables:
- {name: u, type: user, options: {username: ((pw))}}
- {name: pw, type: password}
- {name: cert, type: certificate, options: {ca: nobody, common_name: ((nothing))}}
`
	d, err := Evaluate(t.Context(), write(t, text), Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml"), Generate: Write, Vars: []string{"cert=5"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Missing) != 1 || !strings.Contains(d.Missing[0].Message, "((nothing))") || !slices.Equal(d.Generated, []string{"pw", "u"}) {
		t.Errorf("missing %v, generated %q", d.Missing, d.Generated)
	}
}
