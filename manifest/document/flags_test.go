package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Variables in the file with flags can have any type. They replace those in files of
// variables, and single values replace them. Of that file, only variables change the
// digest of the inputs.
func TestFlagsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	manifest := file("m.yml", "a: ((a))\nb: ((b))\nc: ((c))\nd: ((d.e))\npassword: ((password))\n")
	flags := "ops_files: []\nvars:\n  a: [1, '0755']\n  b: '{\"it''s\": \"text\"}'\n  c: file\n  d.e: deep\n  password: s3cret-of-file\n"
	opts := Options{FlagsFile: file("flags.yml", flags), VarsFiles: []string{file("vars.yml", "a: 0\nd: {}\n")}, Vars: []string{"c=line"}}
	doc, err := Evaluate(t.Context(), manifest, opts)
	if err != nil {
		t.Fatal(err)
	}
	got, err := doc.top().YAML()
	const want = "a:\n- 1\n- \"0755\"\nb: '{\"it''s\": \"text\"}'\nc: line\nd: deep\npassword: s3cret-of-file\n"
	if err != nil || string(got) != want {
		t.Errorf("%s%v", got, err)
	}
	if !strings.Contains(strings.Join(doc.Secrets().Sorted(), " "), "s3cret-of-file") {
		t.Error("a password of the file is not secret")
	}
	digest := func() string {
		t.Helper()
		sum, err := InputsDigest(t.Context(), manifest, opts, "salt")
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	before := digest()
	file("flags.yml", "# other flags\nstate: s.json\n"+flags)
	if digest() != before {
		t.Error("other flags change the digest")
	}
	file("flags.yml", strings.Replace(flags, "deep", "deeper", 1))
	if digest() == before {
		t.Error("a variable does not change the digest")
	}
	opts.FlagsFile = file("flags.yml", "state: s.json\n")
	without := digest()
	if opts.FlagsFile = ""; digest() != without {
		t.Error("a file without variables changes the digest")
	}
}
