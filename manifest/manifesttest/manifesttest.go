// Package manifesttest contains functions for tests of manifests and of fleet files.
package manifesttest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gotest.tools/v3/golden"

	"bootstrap/manifest/document"
)

// Schema returns a compiled JSON Schema; part is empty, or names a part of it, such as
// #/$defs/cloud.
func Schema(t *testing.T, schema func() ([]byte, error), part string) *jsonschema.Schema {
	t.Helper()
	text, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	const name = "schema.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(name, parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile(name + part)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// Instance converts a YAML text to the types that JSON Schema checks.
func Instance(t *testing.T, text string) any {
	t.Helper()
	d, err := document.Evaluate(t.Context(), "-", document.Options{Stdin: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	top, err := d.Find("")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(top.Plain())
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// Unpack writes the files of an archive, and returns their folder without links.
func Unpack(t testing.TB, archive *txtar.Archive) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range archive.Files {
		path := filepath.Join(dir, filepath.FromSlash(part.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, part.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Mistakes checks the messages of read. Each file of testdata/mistakes has flags, files
// of a beginner, of which read gets the named one, and the expected messages.
func Mistakes(t *testing.T, name string, read func(path string, opts document.Options) error) {
	t.Parallel()
	files, err := filepath.Glob("testdata/mistakes/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			const mark = "-- messages --\n"
			given, want, _ := strings.Cut(string(text), mark)
			archive := txtar.Parse([]byte(given))
			dir := Unpack(t, archive)
			flags, _, _ := strings.Cut(string(archive.Comment), "\n")
			err = read(filepath.Join(dir, name), options(t, dir, strings.Fields(flags)))
			if err == nil {
				t.Fatal("accepted")
			}
			got := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "") + "\n"
			if golden.FlagUpdate() {
				if err := os.WriteFile(file, []byte(given+mark+got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if strings.Contains(got, "hidden") {
				t.Error("the messages contain a secret")
			}
		})
	}
}

// options reads the flags of a file of testdata/mistakes.
func options(t *testing.T, dir string, flags []string) document.Options {
	t.Helper()
	opts := document.Options{Generate: document.Plan}
	for i := 0; i < len(flags); i++ {
		if flags[i] == "--vars-store" {
			opts.VarsStore = filepath.Join(dir, "store.yml")
			continue
		}
		value := flags[i+1]
		switch flags[i] {
		case "-v":
			opts.Vars = append(opts.Vars, value)
		case "-l":
			opts.VarsFiles = append(opts.VarsFiles, filepath.Join(dir, value))
		case "-o":
			opts.Ops = append(opts.Ops, filepath.Join(dir, value))
		case "--cloud-config":
			opts.CloudConfigs = append(opts.CloudConfigs, filepath.Join(dir, value))
		case "--var-file":
			opts.VarFiles = append(opts.VarFiles, strings.Replace(value, "=", "="+dir+string(filepath.Separator), 1))
		default:
			t.Fatalf("unknown flag %s", flags[i])
		}
		i++
	}
	return opts
}
