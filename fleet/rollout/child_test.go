//go:build unix

package rollout

import (
	"os"
	"path/filepath"
	"testing"

	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/programtest"
)

// If a process is asked to end before it can catch the signal, it counts as interrupted:
// it has done nothing, and the member did not fail.
func TestInterruptOfAProcessThatBegins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self := filepath.Join(dir, "program")
	programtest.Write(t, self, "#!/bin/sh\nexec sleep 600\n")
	progress := make(chan Progress)
	here := NewHere(Program{Self: self, Env: os.Environ()}, 1, func(p Progress) { progress <- p })
	if err := here.Start(t.Context(), Task{Member: fleet.Member{Name: "m1"}, Logs: dir}); err != nil {
		t.Fatal(err)
	}
	if p := <-progress; p.Process == 0 {
		t.Fatalf("%+v", p)
	}
	here.Interrupt("")
	if p := <-progress; p.Ended == nil || p.Ended.Verdict != schedule.Interrupted || p.Ended.Killed {
		t.Errorf("%+v", p.Ended)
	}
}
