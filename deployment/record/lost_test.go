package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// States without a record are refused, since their VMs would be forgotten; a folder
// without states has no instances.
func TestLost(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x-state")
	for _, name := range []string{"", "notes.json", "lock", "web-6ba7b810.json.lock"} {
		if name != "" {
			write(t, dir, name, "{}")
		}
		if r, err := Load(dir); err != nil || len(r.Instances) > 0 {
			t.Errorf("with %q: %+v, %v", name, r, err)
		}
	}
	write(t, dir, "web-6ba7b810.json", "{}")
	fails(t, dir, "is missing", "web-6ba7b810.json", "bootstrap delete --state FILE")
}

// A damaged record is refused with what to do.
func TestDamaged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x-state")
	one := `{"id": "6ba7b810-9dad", "group": "web", "state": "web-6ba7b810.json"}`
	for content, word := range map[string]string{
		"":                                   "unexpected end",
		"null":                               "it has no format",
		`{"instances": null}`:                "it has no format",
		`{"format": 1, "instances": [`:       "unexpected end",
		`{"format": 1, "instances": [null]}`: "has no id, group or state",
		`{"format": 1, "instances": [` + one + `, ` + one + `]}`:                                                                          "twice",
		`{"format": 1, "instances": [` + one + `, ` + strings.Replace(strings.Replace(one, `"6ba`, `"7ba`, 1), `"web"`, `"db"`, 1) + `]}`: `has the state "web-6ba7b810.json" of another`,
		`{"format": 1, "instances": [` + strings.Replace(one, "web-", "../../x", 1) + `]}`:                                                "not in its folder",
		`{"format": 1, "instances": [` + strings.Replace(one, `"web"`, `"../../x"`, 1) + `]}`:                                             "is not a name",
		`{"format": 1, "instances": [` + strings.Replace(one, `-9dad`, `/../../x`, 1) + `]}`:                                              "is not a name",
	} {
		write(t, dir, FileName, content)
		fails(t, dir, word, "put a copy of it back", "bootstrap delete --state FILE")
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fails expects that the record in the folder is refused with the words.
func fails(t *testing.T, dir string, words ...string) {
	t.Helper()
	_, err := Load(dir)
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in: %v", word, err)
		}
	}
}

// A record of another user is not damaged: nothing is to be deleted.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x-state")
	write(t, dir, FileName, "{}")
	path := filepath.Join(dir, FileName)
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if file, err := os.Open(path); err == nil {
		_ = file.Close()
		t.Skip("this user, such as root, or this system may read each file")
	}
	fails(t, dir, "as its owner")
	if _, err := Load(dir); strings.Contains(err.Error(), "bootstrap delete") {
		t.Error(err)
	}
}
