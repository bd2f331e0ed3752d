//go:build unix

package rollout

import (
	"strings"
	"testing"

	"bootstrap/fleet"
)

// Members that are no longer in the file are deleted at the end, if all others have ended
// well; flags of deploy are not for them. A copy of a living member's state is none of them.
func TestPruneRemovedMembers(t *testing.T) {
	t.Parallel()
	s := newSite(t, "abcd", "max_in_flight: 2", map[string]string{"deploy b": "end 1 'b is broken'"})
	for _, name := range []string{"a", "b", "c"} {
		s.deployedAs(t, name, nil)
	}
	s.write(t, "d-state.json", s.file("a-state.json"))
	if _, err := Deploy(t.Context(), s.options(t)); err == nil {
		t.Fatal("no error")
	}
	s.write(t, "fleet.yml", "members:\n- manifest: a.yml\n- manifest: b.yml\nupdate: {max_in_flight: 2}\n")
	opts := s.options(t)
	opts.Prune = true
	opts.Program.Flags, opts.Program.DeleteFlags = []string{"--fix"}, []string{"--yes"}
	if r, err := Deploy(t.Context(), opts); err == nil || verdicts(r) != "a done, b failed, c not started" || s.calls("delete") != "" {
		t.Fatalf("%v: %s; deleted: %q", err, verdicts(r), s.calls("delete"))
	}
	s.does(t, "deploy b", "")
	r, err := Deploy(t.Context(), opts)
	if err != nil || verdicts(r) != "a done, b done, c done" || s.calls("delete") != "c" || r.Numbers.ToDelete != 1 || r.Numbers.Members != 2 {
		t.Fatalf("%v: %s, %+v; deleted: %q", err, verdicts(r), r.Numbers, s.calls("delete"))
	}
	if args := s.file("arguments-delete-c"); strings.Contains(args, "--fix") || !strings.Contains(args, "--yes") {
		t.Errorf("%q", args)
	}
}

// A removed member may be an old copy of one whose state cannot be read: it is not deleted.
func TestDeleteRemovedUnreadable(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ab", "", nil)
	s.deployedAs(t, "a", nil)
	s.deployedAs(t, "b", nil)
	if _, err := Deploy(t.Context(), s.options(t)); err != nil {
		t.Fatal(err)
	}
	s.write(t, "fleet.yml", "members:\n- manifest: a.yml\n")
	state := s.file("a-state.json")
	s.write(t, "a-state.json", "{")
	opts := s.options(t)
	opts.Action, opts.Choice.Removed = fleet.DeleteStrategy, true
	if _, err := Deploy(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "whether b is an old copy of the member a") || s.calls("delete") != "" {
		t.Fatalf("%v; deleted: %q", err, s.calls("delete"))
	}
	s.write(t, "a-state.json", state)
	if _, err := Deploy(t.Context(), opts); err != nil || s.calls("delete") != "b" {
		t.Fatalf("%v; deleted: %q", err, s.calls("delete"))
	}
}

// It may also be an old copy of a blocked member, whose plan would report that its state
// cannot be read.
func TestPruneUnreadable(t *testing.T) {
	t.Parallel()
	s := newSite(t, "abc", "", nil)
	for _, name := range []string{"a", "b", "c"} {
		s.deployedAs(t, name, nil)
	}
	if _, err := Deploy(t.Context(), s.options(t)); err != nil {
		t.Fatal(err)
	}
	s.write(t, "fleet.yml", "members:\n- manifest: a.yml\n  blocked: {why: an audit, by: anna}\n- manifest: b.yml\n")
	state := s.file("a-state.json")
	s.write(t, "a-state.json", "{")
	opts := s.options(t)
	opts.Prune = true
	if _, err := Deploy(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "whether c is an old copy of the member a") || s.calls("delete") != "" {
		t.Fatalf("%v; deleted: %q", err, s.calls("delete"))
	}
	s.write(t, "a-state.json", state)
	if r, err := Deploy(t.Context(), opts); err != nil || s.calls("delete") != "c" {
		t.Fatalf("%v: %s; deleted: %q", err, verdicts(r), s.calls("delete"))
	}
}
