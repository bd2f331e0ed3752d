package cpi

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestCheckCID(t *testing.T) {
	t.Parallel()
	for cid, want := range map[string]string{
		"vm-1":                            "",
		"projects/p/zones/z/disks/d":      "",
		"VM 1 (lab)":                      "",
		"käse-ディスク":                       "",
		strings.Repeat("c", maxCID):       "",
		"":                                "it is blank",
		" \t\n":                           "it is blank",
		"vm\n1":                           "it has control characters",
		"vm\x00":                          "it has control characters",
		"vm\x1b[31m":                      "it has control characters",
		"vm\u202e1":                       "it has control characters",
		strings.Repeat("c", maxCID+1):     "it is 4097 bytes long, more than the limit of 4096 for a CID",
		strings.Repeat("\n", 1<<20) + "c": "it is 1048577 bytes long, more than the limit of 4096 for a CID",
	} {
		got := ""
		if err := CheckCID(cid); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.40q: %q, want %q", cid, got, want)
		}
	}
}

// FuzzCID uses one text as the CID of every result that contains one: all
// methods accept it or all refuse it, and an accepted CID is printable and
// short.
func FuzzCID(f *testing.F) {
	for _, seed := range []string{"vm-1", "", "  ", "\x00", "a\u2028b", "\xff", strings.Repeat("x", 5000)} {
		f.Add(seed)
	}
	c := New(Config{})
	f.Fuzz(func(t *testing.T, text string) {
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Skip()
		}
		list := json.RawMessage("[" + string(encoded) + ",{}]")
		cid, err := c.decodeCID("create_disk", encoded)
		vm, vmErr := c.decodeVM("create_vm", encoded)
		both, bothErr := c.decodeVM("create_vm", list)
		many, manyErr := c.decodeCIDs("get_disks", json.RawMessage("["+string(encoded)+"]"))
		if (err == nil) != (vmErr == nil) || (err == nil) != (bothErr == nil) || (err == nil) != (manyErr == nil) {
			t.Fatalf("%q: %v, %v, %v, %v", text, err, vmErr, bothErr, manyErr)
		}
		if now, err := c.decodeNewCID("update_disk", encoded); text != "" && now != cid || text == "" && err != nil {
			t.Fatalf("%q: %q, %v", text, now, err)
		}
		if err != nil {
			if len(err.Error()) > 1000 || strings.ContainsFunc(err.Error(), func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }) {
				t.Fatalf("an error that cannot be shown: %q", err)
			}
			return
		}
		if vm.CID != cid || both.CID != cid || many[0] != cid || strings.TrimSpace(cid) == "" || len(cid) > 4096 || strings.ContainsFunc(cid, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Fatalf("%q: %q, %q, %q, %q", text, cid, vm.CID, both.CID, many)
		}
	})
}
