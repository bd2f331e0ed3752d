package manifest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"gotest.tools/v3/golden"

	"bootstrap/manifest/document"
)

// Each file of testdata/mistakes has the flags, the files of a beginner, and the
// messages of Load.
func TestMistakes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/mistakes/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			want := ""
			for i, part := range archive.Files {
				if part.Name == "messages" {
					want = string(part.Data)
					archive.Files = archive.Files[:i]
					break
				}
				if err := os.WriteFile(filepath.Join(dir, part.Name), part.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			flags, _, _ := strings.Cut(string(archive.Comment), "\n")
			_, err = Load(filepath.Join(dir, "manifest.yml"), mistakenOptions(t, dir, strings.Fields(flags)))
			if err == nil {
				t.Fatal("accepted")
			}
			got := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "") + "\n"
			if golden.FlagUpdate() {
				archive.Files = append(archive.Files, txtar.File{Name: "messages", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if regexp.MustCompile("hidden").MatchString(got) {
				t.Error("the messages contain a secret")
			}
		})
	}
}

// mistakenOptions reads the flags that a file begins with.
func mistakenOptions(t *testing.T, dir string, flags []string) document.Options {
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
