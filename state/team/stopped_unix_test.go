//go:build unix

package team_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// stoppedStore is the variable that makes this test program a run that holds the lock of
// the store at that address.
const stoppedStore = "BOOTSTRAP_TEST_STOPPED_STORE"

// A process that was stopped for longer than its lease lasts, such as on a laptop that
// sleeps, cannot write any more.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&teamtest.Web{})
	t.Cleanup(server.Close)
	address := server.URL + "/stopped"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHoldsStore$")
	cmd.Env = append(os.Environ(), stoppedStore+"="+address, "GORACE=atexit_sleep_ms=0")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || lines.Text() != "locked" {
		t.Fatalf("the run says %q", lines.Text())
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	cfg := config("bob")
	cfg.Wait = time.Minute
	b := open(t, address, cfg)
	if taken := lock(t, b); !taken {
		t.Error("the lock was not taken from the process that is stopped")
	}
	d := expectState(t, b, "one")
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(stdin, "go on"); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "lost to bob" {
		t.Errorf("the run says %q", lines.Text())
	}
	save(t, b, "of bob", d.Version)
	unlock(t, b)
}

// TestHoldsStore is the run of TestStoppedProcess in the other process.
func TestHoldsStore(t *testing.T) {
	address := os.Getenv(stoppedStore)
	if address == "" {
		t.Skip("this is a part of TestStoppedProcess")
	}
	cfg := config("ann")
	cfg.TTL, cfg.Renew = 2*time.Second, 100*time.Millisecond
	s := open(t, address, cfg)
	lock(t, s)
	version := save(t, s, "one", "")
	fmt.Println("locked")
	bufio.NewScanner(os.Stdin).Scan()
	_, err := s.Save(t.Context(), []byte("two"), version)
	if lost, ok := errors.AsType[*team.LostError](err); ok && lost.By != nil {
		fmt.Println("lost to", lost.By.User)
		return
	}
	fmt.Println("no lock was lost:", err)
}
