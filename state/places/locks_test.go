package places

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"bootstrap/internal/lockfile"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// heldBy returns who holds the lock because of which a run was refused; empty: it was not.
func heldBy(err error) string {
	if held, ok := errors.AsType[*team.HeldError](err); ok {
		return held.Holder.User
	}
	if locked, ok := errors.AsType[*file.LockedError](err); ok {
		return locked.Holder.User
	}
	return ""
}

func respectsLock(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	s := ann.open()
	if _, err := bob.try(); heldBy(err) != "ann" {
		t.Fatalf("bob opens what ann has open: %v", err)
	}
	check(t, s.Confirm(t.Context()))
	ann.set(s, "vm-1")
	s.Close()
	bob.expect("vm-1")
}

func waits(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	s := ann.open()
	ann.set(s, "vm-1")
	bob.wait = time.Minute
	opts := bob.options()
	done := make(chan error, 1)
	go func() {
		next, err := file.Open(t.Context(), bob.path(), opts)
		if err == nil {
			if got := next.Get().CurrentVMCID; got != "vm-2" {
				err = errors.New("bob has " + got)
			}
			next.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("bob did not wait: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	ann.set(s, "vm-2")
	s.Close()
	check(t, <-done)
}

// child runs in a process of its own.
func child(what string) int {
	opts := file.Options{Home: os.Getenv("PLACES_HOME")}
	opts.Holder = (&machine{who: "ann", pid: os.Getpid()}).holder()
	if address := os.Getenv("PLACES_ADDRESS"); address != "" {
		s, err := team.Open(context.Background(), address, team.Config{Holder: opts.Holder, Getenv: os.Getenv, Renew: time.Hour, Given: key(1)})
		if err != nil {
			os.Stdout.WriteString(err.Error())
			return 1
		}
		opts.Team = team.CopyOf(opts.Home, s)
	}
	s, err := file.Open(context.Background(), os.Getenv("PLACES_PATH"), opts)
	if err != nil {
		os.Stdout.WriteString(err.Error())
		return 1
	}
	if what == "full" {
		return writeFull(s)
	}
	os.Stdout.WriteString("held\n")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test ends
	return 0
}

// start starts a process on the machine.
func (m *machine) start(t *testing.T, what string) (cmd *exec.Cmd, out io.Reader) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$") // #nosec G204 -- this test
	cmd.Env = append(os.Environ(), "PLACES_CHILD="+what, "PLACES_HOME="+m.home, "PLACES_ADDRESS="+m.address, "PLACES_PATH="+m.path())
	stdin, err := cmd.StdinPipe()
	check(t, err)
	t.Cleanup(func() { _ = stdin.Close() })
	out, err = cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	return cmd, out
}

// The lock of a killed process keeps nobody of the same machine away.
func killedHolder(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	ann.deploy("vm-1")
	cmd, out := ann.start(t, "hold")
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := bob.try(); heldBy(err) != "ann" {
		t.Errorf("bob opens what a process of ann has open: %v", err)
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	bob.expect("vm-1")
	bob.deploy("vm-2")
	ann.expect("vm-2")
}

// A run whose lock somebody took cannot begin a step, and none of its writes arrives.
func lostLock(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	s := ann.open()
	ann.set(s, "vm-1")
	opts := bob.options()
	held, err := opts.Team.Holder(t.Context())
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	check(t, opts.Team.Break(t.Context(), held.Fence))
	next := bob.open()
	for range 2 { // each time
		lost, ok := errors.AsType[*team.LostError](s.Confirm(t.Context()))
		if !ok || lost.By == nil || lost.By.User != "bob" {
			t.Fatalf("ann confirms: %v", lost)
		}
	}
	check(t, s.Update(toVM("vm-late"))) // the record of what the run has made stays on its machine
	if s.Unsent() == nil {
		t.Error("a write without the lock has arrived")
	}
	if err := s.Remove(); err == nil {
		t.Error("ann removes the state without the lock")
	}
	if got := next.Get().CurrentVMCID; got != "vm-1" {
		t.Errorf("bob has %s", got)
	}
	bob.set(next, "vm-2")
	s.Close()
	bob.set(next, "vm-3")
	next.Close()
	w.machine("cid").expect("vm-3")
}

func expiredLease(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	ann.pid, ann.ttl = 0, time.Second // other runs cannot see whether its process is running
	s := ann.open()
	ann.set(s, "vm-1")
	bob.wait = time.Minute
	next := bob.open()
	if err := s.Update(toVM("vm-late")); err != nil {
		t.Fatal(err)
	}
	lost, ok := errors.AsType[*team.LostError](s.Unsent())
	if !ok || lost.By == nil || lost.By.User != "bob" {
		t.Errorf("ann writes: %v", s.Unsent())
	}
	bob.set(next, "vm-2")
	s.Close()
	bob.set(next, "vm-3")
	next.Close()
	w.machine("cid").expect("vm-3")
}

// olderLock uses a lock as earlier versions wrote it, without the machine and the birth of
// the process.
func olderLock(t *testing.T, w *world) {
	w.machine("cid").deploy("vm-1")
	bob := w.machine("bob")
	if w.kind == "folder" {
		lock, err := lockfile.Try(bob.path() + ".lock")
		if err != nil || lock == nil {
			t.Fatal(lock, err)
		}
		check(t, lock.Write([]byte(`{"user":"ann","host":"there","pid":7,"command":"deploy page.yml","since":"2026-01-02T03:04:05Z"}`+"\n")))
		if _, err := bob.try(); heldBy(err) != "ann" {
			t.Errorf("bob opens what ann has open: %v", err)
		}
		lock.Close()
		bob.expect("vm-1")
		return
	}
	const lock = `{
    "fence": 7,
    "holder": {"user": "ann", "host": "there", "pid": 1073741824, "command": "deploy page.yml", "since": "2026-01-02T03:04:05Z"},
    "renewed": 3,
    "seconds": 60`
	w.raw.put(t, "lock.json", []byte(lock+"}\n"))
	if _, err := bob.try(); heldBy(err) != "ann" {
		t.Errorf("bob opens what ann has open: %v", err)
	}
	w.raw.put(t, "lock.json", []byte(lock+`, "released": true}`+"\n"))
	bob.expect("vm-1")
}

// A damaged lock refuses runs until somebody takes it away; in a folder, the kernel has
// the lock, and the file only names its holder.
func damagedLock(t *testing.T, w *world) {
	ann := w.machine("ann")
	ann.deploy("vm-1")
	if w.kind == "folder" {
		check(t, os.WriteFile(ann.path()+".lock", []byte("{"), 0o600))
		ann.expect("vm-1")
		return
	}
	w.raw.put(t, "lock.json", []byte("{"))
	if _, err := ann.try(); err == nil || !strings.Contains(err.Error(), "lock.json is damaged") {
		t.Fatalf("%v", err)
	}
	store := ann.options().Team
	held, err := store.Holder(t.Context())
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	check(t, store.Break(t.Context(), held.Fence))
	ann.expect("vm-1")
}

// clocksJump moves the clock of a server, and times of files in a folder.
func clocksJump(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	switch w.kind {
	case "folder":
		for i, by := range []time.Duration{8760 * time.Hour, -8760 * time.Hour} {
			ann.deploy("vm-" + strings.Repeat("x", i+1))
			for _, name := range w.raw.names(t) {
				check(t, os.Chtimes(w.dir+"/"+name, time.Now().Add(by), time.Now().Add(by)))
			}
			bob.expect("vm-" + strings.Repeat("x", i+1))
		}
		list := ann.readVersions(t)
		for i := range list {
			if i > 0 && list[i].Serial >= list[i-1].Serial {
				t.Errorf("versions %+v", list)
			}
		}
	case "https", locking:
		for i, skew := range []time.Duration{time.Hour, -time.Hour, 0} {
			w.web.Skew = skew
			vm := "vm-" + strings.Repeat("x", i+1)
			s := ann.open()
			if _, err := bob.try(); heldBy(err) != "ann" {
				t.Errorf("with a clock that is %v off: %v", skew, err)
			}
			ann.set(s, vm)
			s.Close()
			bob.expect(vm)
		}
	default: // the clock of these servers is that of this machine: the age of a lock jumps
		s := ann.open()
		ann.set(s, "vm-1")
		_, err := bob.try()
		held, ok := errors.AsType[*team.HeldError](err)
		if !ok || held.Left <= 0 || held.Left > team.TTL {
			t.Errorf("%v: %+v", err, held)
		}
		s.Close()
		bob.expect("vm-1")
	}
}
