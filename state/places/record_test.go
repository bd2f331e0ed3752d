package places

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"bootstrap/internal/atomicfile"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// run is a run of a deployment with several instances on a machine, which holds its lock.
type run struct {
	*machine
	opts file.Options
	lock *file.RecordLock
}

func (m *machine) tryDeployment() (*run, error) {
	m.t.Helper()
	r := &run{machine: m, opts: m.options()}
	path := filepath.Join(r.opts.Team.RecordFolder(), "lock")
	var err error
	r.lock, err = file.LockRecord(m.t.Context(), r.opts.Team, path, r.opts)
	return r, err
}

func (m *machine) deployment() *run {
	m.t.Helper()
	r, err := m.tryDeployment()
	if err != nil {
		m.t.Fatalf("%s: %v", m.who, err)
	}
	return r
}

// write writes a record with this serial number.
func (r *run) write(serial int) error {
	r.t.Helper()
	text := fmt.Sprintf(`{"serial": %d, "by": %q}`, serial, r.who)
	check(r.t, atomicfile.Write(r.record(), []byte(text)))
	return file.PushRecord(r.t.Context(), r.opts.Team)
}

// record returns the path of the machine's copy of the record.
func (r *run) record() string { return r.opts.Team.Record().StatePath() }

func (r *run) end() {
	r.t.Helper()
	r.lock.Unlock(context.WithoutCancel(r.t.Context()), func(err error) { r.t.Errorf("%s: %v", r.who, err) })
}

// expectRecord checks the record that the next run on the machine finds.
func (m *machine) expectRecord(serial int, by string) {
	m.t.Helper()
	r := m.deployment()
	defer r.end()
	data, err := os.ReadFile(r.record())
	if want := fmt.Sprintf(`{"serial": %d, "by": %q}`, serial, by); err != nil || string(data) != want {
		m.t.Fatalf("%s has the record %s, want %s: %v", m.who, data, want, err)
	}
}

// recordHandOver has a deployment with several instances on two machines in turn.
func recordHandOver(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	r := ann.deployment()
	check(t, r.write(1))
	if _, err := bob.tryDeployment(); heldBy(err) != "ann" {
		t.Errorf("bob locks what ann has locked: %v", err)
	}
	check(t, r.lock.Confirm(t.Context()))
	r.end()
	bob.expectRecord(1, "ann")
	next := bob.deployment()
	check(t, next.write(2))
	next.end()
	ann.expectRecord(2, "bob")
	// The state of an instance has a lock of its own.
	one := w.machine("cid")
	instance, err := one.options().Team.Instance(team.InstanceState("web-1"))
	check(t, err)
	opts := one.options()
	opts.Team = instance
	other := ann.deployment()
	s, err := file.Open(t.Context(), instance.StatePath(), opts)
	check(t, err)
	check(t, errors.Join(s.Update(toVM("vm-1")), s.Unsent()))
	s.Close()
	other.end()
	ann.expectRecord(2, "bob")
}

// recordLostLock takes the lock of a deployment: the run cannot begin a step, and its
// record does not arrive.
func recordLostLock(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	r := ann.deployment()
	check(t, r.write(1))
	store := bob.options().Team.Record()
	held, err := store.Holder(t.Context())
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	check(t, store.Break(t.Context(), held.Fence))
	next := bob.deployment()
	lost, ok := errors.AsType[*team.LostError](r.lock.Confirm(t.Context()))
	if !ok || lost.By == nil || lost.By.User != "bob" {
		t.Fatalf("ann confirms: %v", lost)
	}
	if err := r.write(2); err == nil {
		t.Error("a record without the lock has arrived")
	}
	r.end()
	check(t, next.write(3))
	next.end()
	if _, err := ann.tryDeployment(); !isConflict(err) {
		t.Errorf("ann continues: %v", err)
	}
	w.machine("cid").expectRecord(3, "bob")
}

// recordMissing removes the record from the place of a machine that has a copy.
func recordMissing(t *testing.T, w *world) {
	ann := w.machine("ann")
	r := ann.deployment()
	check(t, r.write(1))
	r.end()
	w.raw.remove(t, "deployment/deployment.json")
	if err := file.RefreshPart(t.Context(), ann.options().Team.Record()); err == nil {
		t.Error("a command that only reads finds nothing wrong")
	}
	if _, err := os.Stat(r.record()); err != nil {
		t.Fatalf("after a command that only reads: %v", err)
	}
	if next, err := ann.tryDeployment(); err == nil {
		t.Error("a run begins without the record")
		next.end()
	}
	if _, err := os.Stat(r.record()); err != nil {
		t.Fatalf("after a run: %v", err)
	}
	opts := ann.options()
	opts.Team = opts.Team.Record()
	if did, err := file.Push(t.Context(), true, opts); err != nil || !did {
		t.Fatalf("the way back: %v, %v", did, err)
	}
	ann.expectRecord(1, "ann")
	w.machine("bob").expectRecord(1, "ann")
}

// recordOutage ends a store while a deployment runs: the next run on the machine sends the
// record.
func recordOutage(t *testing.T, w *world) {
	ann := w.machine("ann")
	ann.pid = 1 << 30 // so that nobody waits for the lock that it could not give up
	r := ann.deployment()
	check(t, r.write(1))
	w.faulty(func(request) verdict { return refuse })
	if err := r.write(2); err == nil {
		t.Fatal("a refused write has arrived")
	}
	r.lock.Unlock(t.Context(), nil)
	w.faulty(nil)
	ann.expectRecord(2, "ann")
	w.machine("bob").expectRecord(2, "ann")
}
