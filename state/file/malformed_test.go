package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/golden"
)

// testdata/malformed.golden contains the error for each malformed state file; go test
// -update writes it. No state file is changed.
func TestMalformedStates(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	refused := func(what, path string, err error) {
		if err == nil {
			t.Errorf("%s is accepted", what)
		}
		fmt.Fprintf(&got, "%s\n  %s\n", what, strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(err), filepath.Dir(path)+"/", ""), "\n", "\n  "))
	}
	const id = `"installation_id": "5f9b7c7e-5d5d-4b0e-6d52-2f0d5f7f2a10"`
	for _, text := range []string{
		"", " \n", "null", "[]", `"x"`, "5", "{", "{\n\n\"current_vm_cid\": \"vm", "{} {}", "{,}", "{\n\"a\": 'b'\n}", "a: b\n", "<html>", "\xef\xbb\xbf{}", "\xff\xfe{\x00}\x00", "\x00\x00",
		`{"bootstrap": {"format": 99}}`, `{"bootstrap": {"format": -1}}`, `{"bootstrap": {"format": "1"}}`, `{"bootstrap": []}`, `{"bootstrap": {"format": 1, "serial": "x"}}`,
		`{"disks": {}}`, `{"disks": [null]}`, `{"disks": ["disk-1"]}`, `{"disks": [{"id": "a", "cid": ""}]}`, `{"disks": [{"id": "a", "cid": "x", "size": -1}, {"id": "a", "cid": "x"}]}`,
		`{"current_vm_cid": 5}`, `{"current_vm_cid": " "}`, `{"installation_id": "../../x"}`, `{"installation_id": "x"}`,
		`{"stemcells": [{"id": "a"}]}`, `{"releases": [{"id": "a"}]}`, `{"current_manifest_sha1": 3}`, `{"current_release_ids": "a"}`,
		`{` + id + `, "bootstrap": {"format": 1, "intents": [{}]}}`,
		`{` + id + `, "bootstrap": {"format": 1, "intents": [{"id": "i", "method": "delete_vm"}]}}`,
		`{` + id + `, "bootstrap": {"format": 1, "leftovers": [{"intent": {"id": "i", "method": "create_stemcell"}}]}}`,
		`{` + id + `, "bootstrap": {"format": 1, "orphans": [{"cid": ""}]}}`,
		`{` + id + `, "current_vm_cid": "vm-1", "bootstrap": {"format": 1, "swap": {"cid": "vm-1"}}}`,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "state.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), path, Options{})
		refused(fmt.Sprintf("%.120q", text), path, err)
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("%q was changed to %q, %v", text, now, err)
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) > 2 { // the second file is the lock
			t.Errorf("%q: made %v, %v", text, files, err)
		}
	}

	folder := filepath.Join(t.TempDir(), "state.json")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := OpenReadOnly(folder, Options{})
	refused("a folder", folder, err)
	large := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<40); err != nil {
		t.Fatal(err)
	}
	_, err = OpenReadOnly(large, Options{})
	refused("a terabyte", large, err)

	golden.Assert(t, got.String(), "malformed.golden")
}
