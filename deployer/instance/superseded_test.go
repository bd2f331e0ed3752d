//go:build unix

package instance

import (
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// A process that a killed run has started for an instance does nothing while another run
// holds the lease of the deployment in the store, also from another machine.
func TestSupersededInStore(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&teamtest.Web{})
	t.Cleanup(server.Close)
	key, err := team.ParseGiven(team.Key{1, 2, 3}.Text())
	if err != nil {
		t.Fatal(err)
	}
	open := func(home, user string, pid int) *team.Copy {
		s, err := team.Open(t.Context(), server.URL+"/prod", team.Config{
			Holder: state.Holder{User: user, Host: "here", PID: pid, Command: "deploy", Since: time.Now()},
			Getenv: func(string) string { return "" }, Given: key,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return team.CopyOf(home, s)
	}
	lock := func(home, user string, pid int) *file.RecordLock {
		c := open(home, user, pid)
		l, err := file.LockRecord(t.Context(), c, record.LockPath(c.RecordFolder()), file.Options{Holder: state.Holder{PID: pid}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	home := t.TempDir()
	try := func() error {
		c := open(home, "ann", os.Getpid())
		one, err := c.Instance(team.InstanceState("web-6ba7b810"))
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, Options{RecordDir: c.RecordFolder(), Team: one}, nil)
		w.StatePath = one.StatePath()
		defer w.Close()
		return w.Lock(t.Context())
	}

	own := lock(home, "ann", os.Getppid())
	if err := try(); err != nil {
		t.Errorf("while the run that started it holds the lease: %v", err)
	}
	own.Unlock(t.Context(), func(err error) { t.Error(err) })

	killed := exec.Command("true")
	if err := killed.Run(); err != nil {
		t.Skip(err)
	}
	lock(t.TempDir(), "ann", killed.Process.Pid) // its lease is not given up
	if err := try(); err != nil {
		t.Errorf("while no other run has begun: %v", err)
	}

	other := lock(t.TempDir(), "bob", 1)
	if held, ok := errors.AsType[*team.HeldError](try()); !ok || held.Holder.User != "bob" {
		t.Errorf("while bob's run holds the lease: %v", held)
	}
	other.Unlock(t.Context(), func(err error) { t.Error(err) })
	if err := try(); err != nil {
		t.Errorf("after bob's run: %v", err)
	}
}
