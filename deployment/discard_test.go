package deployment

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"bootstrap/state/file"
)

// state rm removes nothing that records a VM, unless it is forced: then it removes all states,
// also those of compilation VMs, and a version with all is kept.
func TestDiscardAll(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one folder", "one store", "several folder", "several store"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			several, in, _ := strings.Cut(name, " ")
			s := newSite(t)
			s.fill(s.place(in), several == "several")
			if in == "store" {
				s.seal(s.place(in), several == "several")
			}
			vms := s.vms(s.place(in))
			before := s.documents(in)
			owns, refused := errors.AsType[*file.OwnsError](Discard(t.Context(), s.place(in), nil))
			if !refused || len(owns.Owned) < len(vms) {
				t.Fatalf("states with VMs were removed: %v", owns)
			}
			if got := s.vms(s.place(in)); !slices.Equal(got, vms) || !slices.Equal(before, s.documents(in)) {
				t.Errorf("after that: %q, %q", got, s.documents(in))
			}
			var asked []string
			agree := func(owned []string) error { asked = owned; return nil }
			if err := Discard(t.Context(), s.place(in), agree); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(asked, owns.Owned) {
				t.Errorf("the person was told %q", asked)
			}
			if got := s.vms(s.place(in)); len(got) > 0 {
				t.Errorf("left: %q", got)
			}
			if got := s.documents(in); slices.ContainsFunc(got, func(name string) bool {
				return name != "vars.yml.age" && name != "key.age" && !strings.HasSuffix(name, "deleted.json")
			}) {
				t.Errorf("left in the store: %q", got)
			}
			if several != "several" {
				return
			}
			list, err := s.place(in).Versions(t.Context())
			if err != nil || len(list) != 1 || len(list[0].Only) != len(owns.Owned) {
				t.Fatalf("%d versions, %v", len(list), err)
			}
			if _, err := Restore(t.Context(), s.place(in), list[0].Serial, true); err != nil {
				t.Fatal(err)
			}
			if got := s.vms(s.place(in)); len(got) != 3 {
				t.Errorf("restored: %q", got)
			}
		})
	}
}
