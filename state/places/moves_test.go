package places

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"bootstrap/state"
	"bootstrap/state/file"
)

// name returns the place of the machine's state for people.
func (m *machine) name(opts file.Options) string {
	if opts.Team == nil {
		return m.path()
	}
	return opts.Team.Place()
}

// TestMoves moves a state between any two places, and back: the state and its versions
// arrive, and the old place refuses runs.
func TestMoves(t *testing.T) {
	var s servers
	for _, kind := range placeNames {
		s.start(t, kind)
	}
	for _, from := range placeNames {
		for _, to := range placeNames {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				one := s.world(t, from, "from-"+from+"-"+to)
				two := s.world(t, to, "to-"+from+"-"+to)
				moves(t, one, two)
			})
		}
	}
}

func moves(t *testing.T, one, two *world) {
	ann := one.machine("ann")
	for _, vm := range []string{"vm-1", "vm-2", "vm-3"} {
		ann.deploy(vm)
	}
	there := two.machine("ann")
	there.home = ann.home // of the same person
	move := func(from, to *machine) error {
		fromOpts, toOpts := from.options(), to.options()
		return file.Move(t.Context(), from.path(), to.path(), to.name(toOpts), fromOpts, toOpts)
	}
	before := ann.readVersions(t)
	check(t, move(ann, there))
	there.expect("vm-3")
	s, err := ann.try()
	if _, moved := errors.AsType[*state.MovedError](err); !moved {
		t.Fatalf("the old place: %v, %v", s, err)
	}

	// Another machine has the versions, too, where the place has room for them.
	bob := two.machine("bob")
	if two.address != "" {
		bob.readVersions(t)
	}
	var vms []string
	for _, v := range bob.readVersions(t) {
		vms = append(vms, v.State.CurrentVMCID)
		if len(v.Only) > 0 {
			t.Errorf("version %d alone records %v", v.Serial, v.Only)
		}
	}
	for _, v := range before {
		if v.Err == nil && !slices.Contains(vms, v.State.CurrentVMCID) {
			t.Errorf("the version with %s did not arrive: %v", v.State.CurrentVMCID, vms)
		}
	}
	there.deploy("vm-4")
	bob.expect("vm-4")
	if errs := slices.Concat(ann.warned, there.warned, bob.warned); len(errs) > 0 {
		t.Errorf("warnings: %v", errs)
	}

	check(t, move(there, ann))
	ann.expect("vm-4")
	one.machine("bob").expect("vm-4")
	if s, err := bob.try(); err == nil {
		t.Errorf("both places have the state: %+v", s.Get())
		s.Close()
	}
	// Nothing else is overwritten.
	other := two.machine("cid")
	if _, err := other.try(); err == nil {
		t.Error("the place from which the state was moved back is used")
	}
}

// killEverywhere ends a run at each request, or at each write of a folder, and continues on
// the same machine and on another one.
func killEverywhere(t *testing.T, w *world) {
	if w.address == "" {
		killAtWrites(t, w)
		return
	}
	every := int64(1)
	if os.Getenv("PLACES") != "all" {
		every = 7
	}
	for _, applied := range []bool{false, true} {
		for at := int64(1); ; at += every {
			if !killAtRequest(t, w, at, applied) {
				break
			}
			if at > 300 {
				t.Fatal("a run has more than 300 requests")
			}
		}
	}
}

// progress is what a run has recorded when it was killed.
type progress struct{ begun, sent, removed int }

// whole is the life of a deployment: five VMs, in two runs, and their removal.
func (p *progress) whole(open func() (*file.Store, error)) error {
	for run := range 2 {
		s, err := open()
		if err != nil {
			return err
		}
		for range 2 + run {
			p.begun++
			if err := errors.Join(s.Update(toVM(fmt.Sprintf("vm-%d", p.begun))), s.Unsent()); err != nil {
				s.Close()
				return err
			}
			p.sent = p.begun
		}
		s.Close()
	}
	s, err := open()
	if err != nil {
		return err
	}
	defer s.Close()
	p.begun++
	if err := errors.Join(s.Update(toVM("")), s.Unsent()); err != nil {
		return err
	}
	p.sent, p.removed = p.begun, 1
	if err := s.Remove(); err != nil {
		return err
	}
	p.removed = 2
	return nil
}

// fits reports whether a state can be what is left of a run.
func (p progress) fits(st state.State, found bool) bool {
	n := 0
	switch {
	case !found:
		return p.removed > 0 || p.sent == 0
	case st.CurrentVMCID == "": // not yet written, or the last one before the removal
		return p.sent == 0 || p.begun == 6
	}
	_, err := fmt.Sscanf(st.CurrentVMCID, "vm-%d", &n)
	return err == nil && n >= p.sent && n <= p.begun
}

func killAtRequest(t *testing.T, w *world, at int64, applied bool) (killed bool) {
	t.Helper()
	for _, name := range append(w.raw.names(t), "lock.json") {
		w.raw.remove(t, name)
	}
	ann := w.machine("ann")
	ann.pid = 1 << 30 // it does not run
	var left *machine // ann's machine after the kill
	var p, then progress
	n := int64(0)
	w.faulty(func(request) verdict {
		n++
		switch {
		case n < at:
			return pass
		case n == at:
			left, then = ann.copyOfHome(t), p
			if applied {
				return lose
			}
			return cut
		}
		return refuse
	})
	err := p.whole(func() (*file.Store, error) {
		opts, err := ann.connect()
		if err != nil {
			return nil, err
		}
		opts.Warn = nil
		return file.Open(t.Context(), ann.path(), opts)
	})
	w.faulty(nil)
	if left == nil {
		check(t, err)
		if names := stateLeft(t, w.raw); len(names) > 0 {
			t.Errorf("left: %v", names)
		}
		return false
	}
	then.begun = p.begun
	if applied { // the request may have been the last one of the step
		then.removed = p.removed
	}
	what := fmt.Sprintf("killed at request %d, applied %v, after %+v", at, applied, then)
	machines := []*machine{w.machine("bob"), left}
	if at%2 == 0 {
		slices.Reverse(machines)
	}
	for i, m := range machines {
		m.pid = os.Getpid()
		s, err := m.try()
		if err != nil {
			if i == 1 && isConflict(err) { // both machines have changed it: a person decides
				continue
			}
			t.Fatalf("%s: %s: %v", what, m.who, err)
		}
		if i == 0 && !then.fits(s.Get(), s.Found()) {
			t.Errorf("%s: %s has %q (%v)", what, m.who, s.Get().CurrentVMCID, s.Found())
		}
		m.set(s, fmt.Sprintf("vm-of-%s-%d", m.who, i))
		s.Close()
		for _, v := range m.readVersions(t) {
			if v.Err != nil {
				t.Errorf("%s: version %d: %v", what, v.Serial, v.Err)
			}
		}
	}
	return true
}

// killAtWrites takes the files as they are at each moment before and after a write, which
// is what a run leaves that is killed there.
func killAtWrites(t *testing.T, w *world) {
	type moment struct {
		what string
		dir  string
		home *machine
		progress
	}
	ann := w.machine("ann")
	var p progress
	var moments []moment
	err := p.whole(func() (*file.Store, error) {
		opts := ann.options()
		opts.Trace = func(what string) {
			m := moment{what: fmt.Sprintf("%d %s", len(moments), what), dir: t.TempDir() + "/dir", home: ann.copyOfHome(t), progress: p}
			check(t, os.CopyFS(m.dir, os.DirFS(w.dir)))
			moments = append(moments, m)
		}
		return file.Open(t.Context(), ann.path(), opts)
	})
	check(t, err)
	if len(moments) < 10 {
		t.Fatalf("only %d moments", len(moments))
	}
	if left := stateLeft(t, w.raw); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, at := range moments {
		in := &world{t: t, kind: w.kind, dir: at.dir, raw: files{at.dir}}
		for i, m := range []*machine{in.machine("bob"), at.home} {
			m.world = in
			s, err := m.try()
			if err != nil {
				t.Fatalf("killed at %s: %s: %v", at.what, m.who, err)
			}
			if i == 0 && !at.fits(s.Get(), s.Found()) {
				t.Errorf("killed at %s, after %+v: %s has %q (%v)", at.what, at.progress, m.who, s.Get().CurrentVMCID, s.Found())
			}
			m.set(s, cmp.Or(strings.Repeat("vm", i), "vm-of-bob"))
			s.Close()
			for _, v := range m.readVersions(t) {
				if v.Err != nil {
					t.Errorf("killed at %s: version %d: %v", at.what, v.Serial, v.Err)
				}
			}
		}
	}
}
