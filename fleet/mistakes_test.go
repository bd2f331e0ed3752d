package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"gotest.tools/v3/golden"

	"bootstrap/manifest/document"
)

// Each file of testdata/mistakes has the flags, the files of a beginner, and the
// messages of Read.
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
			want := ""
			if last := len(archive.Files) - 1; archive.Files[last].Name == "messages" {
				want = string(archive.Files[last].Data)
				archive.Files = archive.Files[:last]
			}
			var opts document.Options
			flags, _, _ := strings.Cut(string(archive.Comment), "\n")
			for i, word := range strings.Fields(flags) {
				if i%2 == 1 {
					opts.Vars = append(opts.Vars, word)
				} else if word != "-v" {
					t.Fatalf("unknown flag %s", word)
				}
			}
			dir := unpacked(t, string(txtar.Format(archive)))
			_, err = Read(filepath.Join(dir, "fleet.yml"), opts)
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
			if strings.Contains(got, "hidden") {
				t.Error("the messages contain a secret")
			}
		})
	}
}
