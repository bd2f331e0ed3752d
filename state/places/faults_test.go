package places

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"bootstrap/state"
	"bootstrap/state/file"
)

// faultAt makes the server do something with one request, counted from 1, and returns the
// number of requests.
func (w *world) faultAt(at int64, what verdict) *atomic.Int64 {
	n := &atomic.Int64{}
	w.faulty(func(request) verdict {
		if n.Add(1) == at {
			return what
		}
		return pass
	})
	return n
}

// lostAnswers loses the answer of each request of a run in turn: the run goes on, and the
// place has what it wrote.
func lostAnswers(t *testing.T, w *world) { eachRequest(t, w, lose) }

// cutRequests is like lostAnswers, for requests that are not carried out.
func cutRequests(t *testing.T, w *world) { eachRequest(t, w, cut) }

// failedAnswers is like lostAnswers, for a server that answers that it has failed.
func failedAnswers(t *testing.T, w *world) { eachRequest(t, w, fail) }

func eachRequest(t *testing.T, w *world, what verdict) {
	ann, bob := w.machine("ann"), w.machine("bob")
	ann.deploy("vm-0") // the first run also checks the server, and fails if it cannot
	every := int64(1)  // each costs the pause before the next attempt
	if w.web == nil && os.Getenv("PLACES") != "all" {
		every = 3
	}
	for at := every; ; at += every {
		vm := fmt.Sprintf("vm-%d", at)
		opts := ann.options() // a run that cannot connect has done nothing
		n := w.faultAt(at, what)
		s, err := file.Open(t.Context(), ann.path(), opts)
		if err != nil {
			t.Fatalf("request %d: %v", at, err)
		}
		check(t, s.Update(toVM(vm)))
		check(t, s.Update(toVM(vm+"-b")))
		s.Close()
		w.faulty(nil)
		if s.Unsent() != nil {
			t.Errorf("request %d: %v", at, s.Unsent())
		}
		bob.expect(vm + "-b")
		if n.Load() < at {
			return
		}
		if at > 200 {
			t.Fatal("a run has more than 200 requests")
		}
	}
}

// outage ends a store in the middle of a run: nothing is lost, and the next run on the
// same machine sends it.
func outage(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	s := ann.open()
	ann.set(s, "vm-1")
	w.faulty(func(request) verdict { return unavailable })
	if err := s.Confirm(t.Context()); err != nil {
		t.Errorf("an outage ends the lock: %v", err)
	}
	check(t, s.Update(toVM("vm-2")))
	unsent, ok := errors.AsType[*file.UnsentError](s.Unsent())
	if !ok || !strings.Contains(unsent.Error(), unsent.Path) {
		t.Fatalf("%v", s.Unsent())
	}
	if err := s.Confirm(t.Context()); err == nil {
		t.Error("the next step would begin")
	}
	s.Close()
	w.faulty(nil)
	if _, err := bob.try(); heldBy(err) != "ann" { // it is the same process, which has not ended
		t.Fatalf("bob opens what ann has not sent: %v", err)
	}
	store := bob.options().Team
	held, err := store.Holder(t.Context())
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	check(t, store.Break(t.Context(), held.Fence))
	if did, err := file.Push(t.Context(), false, ann.options()); err != nil || !did {
		t.Fatal(did, err)
	}
	bob.expect("vm-2")
}

func slowServer(t *testing.T, w *world) {
	w.faulty(func(request) verdict { return slow })
	ann, bob := w.machine("ann"), w.machine("bob")
	ann.deploy("vm-1")
	bob.expect("vm-1")
}

// lyingServer says that it has stored what it has not. The machine that knows better
// never goes back to what the server has.
func lyingServer(t *testing.T, w *world) {
	ann := w.machine("ann")
	ann.deploy("vm-1")
	s := ann.open()
	w.faulty(func(r request) verdict {
		if r.write && r.name == "state.json" {
			return lie
		}
		return pass
	})
	check(t, s.Update(toVM("vm-2")))
	s.Close()
	w.faulty(nil)
	next, err := ann.try()
	if err == nil {
		defer next.Close()
		if got := next.Get().CurrentVMCID; got != "vm-2" {
			t.Errorf("ann has %s without a word", got)
		}
		return
	}
	if !isDoubt(err) {
		t.Errorf("%v", err)
	}
	did, err := file.Push(t.Context(), true, ann.options())
	if err != nil || !did {
		t.Fatalf("the way back: %v, %v", did, err)
	}
	ann.expect("vm-2")
	w.machine("bob").expect("vm-2")
}

func carelessServer(t *testing.T, w *world) {
	w.faulty(func(request) verdict { return careless })
	if _, err := w.machine("ann").try(); err == nil || !strings.Contains(err.Error(), "ignores the conditions of a write") {
		t.Errorf("%v", err)
	}
	if names := w.raw.names(t); len(names) > 0 {
		t.Errorf("it still has %v", names)
	}
}

// fullDisk lets a process write whose files cannot grow, as on a full file system.
func fullDisk(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	ann.deploy("vm-1")
	before, err := os.ReadFile(ann.path())
	check(t, err)
	cmd, out := ann.start(t, "full")
	text, err := io.ReadAll(out)
	check(t, err)
	if err := cmd.Wait(); err != nil || !strings.Contains(string(text), "file too large; the file is as it was before") {
		t.Fatalf("%v: %s", err, text)
	}
	if after, err := os.ReadFile(ann.path()); err != nil || string(after) != string(before) {
		t.Errorf("the file changed: %s, %v", after, err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(ann.path()), ".state.json*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	bob.expect("vm-1")
	ann.deploy("vm-2")
	bob.expect("vm-2")
}

// failingMove lets each request of a move be refused in turn: the state is in one of the
// two places, and the same move goes on.
func failingMove(t *testing.T, w *world) {
	var ended bool
	for at := int64(1); !ended; at += 2 {
		from := filepath.Join(t.TempDir(), "state.json")
		cid := &machine{world: &world{t: t, kind: "folder", dir: filepath.Dir(from), raw: files{filepath.Dir(from)}}, home: t.TempDir(), who: "cid", pid: os.Getpid()}
		cid.deploy("vm-1")
		ann := w.machine("ann")
		ann.pid = 1 << 30 // so that nobody waits for a lock that it could not give up
		move := func() error {
			opts, err := ann.connect()
			if err != nil {
				return err
			}
			return file.Move(t.Context(), cid.path(), ann.path(), opts.Team.Place(), cid.options(), opts)
		}
		n := w.faultAt(at, refuse)
		err := move()
		w.faulty(nil)
		ended = n.Load() < at
		if err != nil {
			if s, opened := cid.try(); opened == nil {
				s.Close()
			} else if _, moved := errors.AsType[*state.MovedError](opened); !moved {
				t.Fatalf("request %d: %v", at, opened)
			}
			if err := move(); err != nil {
				if _, moved := errors.AsType[*state.MovedError](err); !moved {
					t.Fatalf("request %d: again: %v", at, err)
				}
			}
		}
		ann.expect("vm-1")
		if _, opened := cid.try(); opened == nil {
			t.Errorf("request %d: both places have the state", at)
		}
		s := ann.open()
		check(t, s.Update(toVM("")))
		check(t, s.Remove())
		s.Close()
		if at > 200 {
			t.Fatal("a move has more than 200 requests")
		}
	}
}

// lostThenDown ends the network after the server has carried out a request of a write and
// before it answers. The next write of this machine does not conflict with its own, but
// does with what another machine has made from it.
func lostThenDown(t *testing.T, w *world) {
	for _, next := range []string{"the same run", "another run", "another machine"} {
		for at := int64(1); at < 20; at++ {
			ann, bob := w.machine("ann"), w.machine("bob")
			ann.pid = 1 << 30 // so that nobody waits for the lock that it could not give up
			ann.deploy("vm-1")
			s := ann.open()
			n := int64(0)
			w.faulty(func(request) verdict {
				n++
				switch {
				case n < at:
					return pass
				case n == at:
					return lose
				}
				return refuse
			})
			check(t, s.Update(toVM("vm-2")))
			ended := s.Unsent() == nil
			if next != "the same run" {
				check(t, s.Update(toVM("vm-3")))
				s.Close()
			}
			w.faulty(nil)
			switch next {
			case "the same run":
				ann.set(s, "vm-3")
				s.Close()
				bob.expect("vm-3")
			case "another run":
				ann.expect("vm-3")
				bob.expect("vm-3")
			case "another machine":
				bob.deploy("vm-of-bob")
				if next, err := ann.try(); !isConflict(err) {
					t.Errorf("request %d: ann continues: %v, %v", at, next, err)
				}
				bob.expect("vm-of-bob")
			}
			if ended {
				break
			}
		}
	}
}
