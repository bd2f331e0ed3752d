package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bootstrap/internal/wait"
)

// child starts a shell in its own group.
func child(t *testing.T, script string, env ...string) *exec.Cmd {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no shell here")
	}
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
	OwnGroup(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { KillGroup(cmd.Process.Pid); _ = cmd.Wait() })
	return cmd
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	id, ok := Identify(os.Getpid())
	if !ok || !id.Alive() || !Lives(os.Getpid()) {
		t.Fatal("this process is not found")
	}
	if at := id.Started(); !at.IsZero() && (time.Until(at) > 2*time.Second || time.Since(at) > time.Hour) {
		t.Errorf("started %v", at)
	}
	if u, ok := Usages()[os.Getpid()]; !ok || u.MemoryKB < 1000 || u.Parent != os.Getppid() {
		t.Errorf("%+v", u)
	}
	if Lives(1 << 30) {
		t.Error("found a process that cannot be")
	}
}

// A family is a process and all its descendants, and nothing else.
func TestFamily(t *testing.T) {
	t.Parallel()
	cmd := child(t, `sleep 1000 & sh -c 'sleep 1000 & wait' & wait`)
	pid := cmd.Process.Pid
	var family map[int]Usage
	err := wait.Poll(t.Context(), time.Millisecond, func() (bool, error) {
		family = Family(pid, Usages)
		return len(family) >= 4, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for member, u := range Usages() {
		_, in := family[member]
		if _, parent := family[u.Parent]; in != (parent || member == pid) && runtime.GOOS == "linux" {
			t.Errorf("process %d of %d is in the family: %v", member, u.Parent, in)
		}
	}
	if runtime.GOOS == "linux" && len(family) != 4 {
		t.Errorf("%d members", len(family))
	}
	if family[pid].Parent != os.Getpid() {
		t.Errorf("%+v", family[pid])
	}
	if none := Family(1<<30, func() map[int]Usage { return nil }); len(none) != 0 {
		t.Errorf("%v", none)
	}
}

func BenchmarkFamily(b *testing.B) {
	for name, read := range map[string]func(){
		"family": func() { Family(os.Getpid(), Usages) },
		"all":    func() { Usages() },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				read()
			}
		})
	}
}

// A process that has ended is not alive, even as a zombie.
func TestEndedProcessIsNone(t *testing.T) {
	t.Parallel()
	cmd := child(t, "exec sleep 1000")
	birth := Birth(cmd.Process.Pid)
	if birth == "" || birth != Birth(cmd.Process.Pid) {
		t.Errorf("birth %q", birth)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := wait.Poll(t.Context(), time.Millisecond, func() (bool, error) { return !Lives(cmd.Process.Pid), nil }); err != nil {
		t.Fatal(err)
	}
	if got := Birth(cmd.Process.Pid); got != "" {
		t.Errorf("birth %q after the end", got)
	}
}

// A signal for a process that has ended never reaches another one with its id.
func TestSignalsByHandle(t *testing.T) {
	t.Parallel()
	cmd := child(t, "exec sleep 1000")
	id, ok := Identify(cmd.Process.Pid)
	if !ok {
		t.Fatal("the process is not found")
	}
	earlier := Identity{PID: id.PID, start: id.start - 1}
	earlier.Kill()
	earlier.Terminate()
	// One of these signals would have ended the process, as the next one does.
	ended := make(chan error, 1)
	id.Terminate()
	go func() { ended <- cmd.Wait() }()
	err := <-ended
	var exit *exec.ExitError
	if !errors.As(err, &exit) || ExitCode(exit.ProcessState) != 128+int(syscall.SIGTERM) {
		t.Errorf("got %v", err)
	}
	Terminate(cmd.Process) // which has an id that no process, or another process, has
}

// The processes that a command leaves are ended before the id of its group can be used
// for another one.
func TestWaitEndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	const mark = "TEST_WAIT_LEFT=1"
	cmd := child(t, `trap 'exit 0' TERM; (trap '' TERM; exec sleep 1000) & wait`, mark)
	find := func(n int) {
		t.Helper()
		err := wait.Poll(t.Context(), time.Millisecond, func() (bool, error) {
			pids, err := WithVariable(t.Context(), mark)
			return len(pids) == n, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	find(2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ended, err := Wait(ctx, cmd, func() time.Duration { return time.Hour }); !ended || err != nil {
		t.Errorf("got %v, %v", ended, err)
	}
	find(0)
}

func TestWaitEndsTheGroup(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"asked":  "sleep 1000 & wait",
		"killed": "trap '' TERM; while :; do sleep 1; done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := child(t, script)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			ended, err := Wait(ctx, cmd, func() time.Duration { return 100 * time.Millisecond })
			if !ended || err == nil || Lives(cmd.Process.Pid) {
				t.Errorf("got %v, %v", ended, err)
			}
		})
	}
	cmd := child(t, "exit 3")
	var exit *exec.ExitError
	if ended, err := Wait(t.Context(), cmd, nil); ended || !errors.As(err, &exit) || ExitCode(exit.ProcessState) != 3 {
		t.Errorf("got %v, %v", ended, err)
	}
}

func TestEndAllByVariable(t *testing.T) {
	t.Parallel()
	const mark = "TEST_END_ALL=this one"
	list := func() ([]int, error) { return WithVariable(t.Context(), mark) }
	gentle, stubborn, other := child(t, "exec sleep 1000", mark), child(t, "trap '' TERM; while :; do sleep 1; done", mark), child(t, "exec sleep 1000", mark+"x")
	err := wait.Poll(t.Context(), time.Millisecond, func() (bool, error) {
		pids, err := list()
		return slices.Contains(pids, gentle.Process.Pid) && slices.Contains(pids, stubborn.Process.Pid), err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := EndAll(t.Context(), 100*time.Millisecond, list); err != nil {
		t.Fatal(err)
	}
	if Lives(gentle.Process.Pid) || Lives(stubborn.Process.Pid) || !Lives(other.Process.Pid) {
		t.Error("the wrong ones ended")
	}
	// A process that is ending may not be listed any more.
	ending, listed := child(t, "trap '' TERM; while :; do sleep 1; done"), false
	err = EndAll(t.Context(), 100*time.Millisecond, func() ([]int, error) {
		if listed {
			return nil, nil
		}
		listed = true
		return []int{ending.Process.Pid}, nil
	})
	if err != nil || Lives(ending.Process.Pid) {
		t.Errorf("it still runs, and the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := EndAll(ctx, time.Hour, func() ([]int, error) { return []int{1 << 30}, nil }); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "do not end") {
		t.Errorf("got %v", err)
	}
}

func TestTiedEndsWhatItLeaves(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("nothing is tied here")
	}
	const mark = "TEST_TIED=1"
	out, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	status, err := Tied{Args: []string{"/bin/sh", "-c", "sleep 1000 & exit 4"}, Env: []string{"PATH=/usr/bin:/bin", mark}, Out: out}.Run(t.Context())
	if status != 4 || err != nil {
		t.Errorf("got %d, %v", status, err)
	}
	err = wait.Poll(t.Context(), time.Millisecond, func() (bool, error) {
		pids, err := WithVariable(t.Context(), mark)
		return len(pids) == 0, err
	})
	if err != nil {
		t.Error(err)
	}
}
