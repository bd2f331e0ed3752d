package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every input changes the digest; the path of an input does not.
func TestInputsDigest(t *testing.T) {
	t.Parallel()
	inputs := func(change string) (string, Options) {
		dir := t.TempDir()
		for _, name := range []string{"m.yml", "ops.yml", "vars.yml", "value.txt", "creds.yml"} {
			text := "a: 1\n"
			if name == change {
				text = "a: 2\n"
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file := func(name string) string { return filepath.Join(dir, name) }
		return file("m.yml"), Options{
			Ops: []string{file("ops.yml")}, Vars: []string{"x=1"}, VarFiles: []string{"y=" + file("value.txt")}, VarsFiles: []string{file("vars.yml")},
			VarsEnv: []string{"MY"}, Environ: []string{"MY_a=1", "OTHER=1", "MY_b=2"}, VarsStore: file("creds.yml"),
		}
	}
	digest := func(path string, opts Options, salt string) string {
		t.Helper()
		sum, err := InputsDigest(t.Context(), path, opts, salt)
		if err != nil || len(sum) != 64 {
			t.Fatalf("%q, %v", sum, err)
		}
		return sum
	}
	path, opts := inputs("")
	want := digest(path, opts, "salt")
	path, opts = inputs("")
	opts.Environ = []string{"MY_b=2", "MY_a=1", "PATH=/"}
	opts.Generate, opts.Lenient = Plan, true
	if got := digest(path, opts, "salt"); got != want {
		t.Error("the same inputs elsewhere have another digest")
	}
	seen := map[string]string{want: "nothing", digest(path, opts, "other"): "salt"}
	try := func(what string, path string, opts Options) {
		t.Helper()
		got := digest(path, opts, "salt")
		if before := seen[got]; before != "" {
			t.Errorf("%s: the same digest as with another %s", what, before)
		}
		seen[got] = what
	}
	for _, name := range []string{"m.yml", "ops.yml", "vars.yml", "value.txt", "creds.yml"} {
		path, opts := inputs(name)
		try(name, path, opts)
	}
	for what, change := range map[string]func(*Options){
		"value":       func(o *Options) { o.Vars[0] = "x=2" },
		"values":      func(o *Options) { o.Vars = append(o.Vars, "x=2") },
		"name":        func(o *Options) { o.VarFiles[0] = "z" + o.VarFiles[0][1:] },
		"environment": func(o *Options) { o.Environ[0] = "MY_a=2" },
		"prefix":      func(o *Options) { o.VarsEnv = []string{"OTHER"} },
		"no store":    func(o *Options) { o.VarsStore = "" },
		"store away":  func(o *Options) { o.VarsStore += ".absent" },
		"kind":        func(o *Options) { o.VarsFiles, o.Ops = o.Ops, o.VarsFiles[:0] },
	} {
		path, opts := inputs("")
		change(&opts)
		try(what, path, opts)
	}
	opts.VarsFiles = []string{os.DevNull}
	try("a pipe", path, opts)
	try("a pipe again", path, opts)
	opts.VarsFiles = []string{path + ".absent"}
	if _, err := InputsDigest(t.Context(), path, opts, ""); err == nil || !strings.Contains(err.Error(), "cannot read the variables file") {
		t.Error(err)
	}
	if _, err := InputsDigest(t.Context(), "-", Options{}, ""); err == nil {
		t.Error("a manifest on standard input has a digest")
	}
}
