//go:build !windows

package cpi

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bootstrap/internal/process"
)

// until waits for a condition that depends on other processes.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !met(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func pidIn(t *testing.T, file string) int {
	t.Helper()
	var pid int
	until(t, "a process id in "+file, func() bool {
		text, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	})
	return pid
}

func TestProcess(t *testing.T) {
	t.Parallel()
	path := program(t, infoV2, `
env >env
ps -o pgid= -p $$ >group
echo $$ >pid
`+reply(`{"result":true}`))
	c := New(Config{Path: path, Env: []string{"PATH=" + os.Getenv("PATH"), "X=y"}})
	if _, err := c.HasVM(t.Context(), "vm"); err != nil {
		t.Fatal(err)
	}
	env := lines(t, path, "env")
	// Variables that bash adds itself.
	env = slices.DeleteFunc(env, func(one string) bool {
		return strings.HasPrefix(one, "PWD=") || strings.HasPrefix(one, "OLDPWD=") || strings.HasPrefix(one, "SHLVL=") || strings.HasPrefix(one, "_=") || strings.HasPrefix(one, "PATH=")
	})
	if len(env) != 1 || env[0] != "X=y" {
		t.Errorf("environment %v", env)
	}
	if group, pid := lines(t, path, "group"), lines(t, path, "pid"); strings.TrimSpace(group[0]) != pid[0] {
		t.Errorf("process %s is in group %s", pid[0], group[0])
	}
}

func TestCannotStart(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"absent":         filepath.Join(t.TempDir(), "cpi"),
		"a folder":       t.TempDir(),
		"no interpreter": program(t, "", "")[:1],
	} {
		_, err := client(path).Info(t.Context())
		var notStarted *StartError
		if !errors.As(err, &notStarted) || !strings.Contains(err.Error(), "cannot call info: cannot start the CPI") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		want string // CID; empty: a timeout
	}{
		"hangs":                 {"sleep 1000 & echo $! >child; echo started >&2; wait", ""},
		"ignores TERM":          {"trap '' TERM; sleep 1000 & echo $! >child; echo started >&2; while true; do wait; done", ""},
		"error at TERM":         {`trap 'echo "{\"error\":{\"type\":\"T\",\"message\":\"ended\"}}"; exit 1' TERM; sleep 1000 & echo $! >child; echo started >&2; wait`, ""},
		"had given its reply":   {`echo '{"result":"disk"}'; sleep 1000 & echo $! >child; wait`, "disk"},
		"gives reply at TERM":   {`trap 'echo "{\"result\":\"disk\"}"; exit' TERM; sleep 1000 & echo $! >child; wait`, "disk"},
		"had given half of one": {`printf '{"result":'; echo started >&2; sleep 1000 & echo $! >child; wait`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := program(t, infoV2, tt.body)
			// The script must have come to its end of the body by then.
			c := New(Config{Path: path, Env: os.Environ(), Timeout: 2 * time.Second, Grace: 500 * time.Millisecond})
			cid, err := c.CreateDisk(t.Context(), 1, nil, "")
			if tt.want == "" {
				var late *TimeoutError
				if !errors.As(err, &late) || late.Method != "create_disk" || !strings.Contains(err.Error(), "started") {
					t.Errorf("got %q, %v", cid, err)
				}
			} else if cid != tt.want || err != nil {
				t.Errorf("got %q, %v", cid, err)
			}
			pid := pidIn(t, filepath.Join(filepath.Dir(path), "child"))
			until(t, "the end of the CPI's own child", func() bool { return !alive(pid) })
		})
	}
}

func TestCancelLetsTheCallFinish(t *testing.T) {
	t.Parallel()
	path := program(t, infoV2, "touch running; until [[ -e go ]]; do sleep 0.01; done\n"+reply(`{"result":"disk"}`))
	dir := filepath.Dir(path)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := client(path)
	go func() {
		for _, err := os.Stat(filepath.Join(dir, "running")); err != nil; _, err = os.Stat(filepath.Join(dir, "running")) {
			<-time.After(time.Millisecond)
		}
		cancel()
		_ = os.WriteFile(filepath.Join(dir, "go"), nil, 0o600)
	}()
	if cid, err := c.CreateDisk(ctx, 1, nil, ""); cid != "disk" || err != nil {
		t.Errorf("got %q, %v", cid, err)
	}
	_, err := c.CreateDisk(ctx, 1, nil, "")
	var notStarted *StartError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &notStarted) {
		t.Errorf("got %v", err)
	}
	if sent := lines(t, path, "requests"); len(sent) != 1 {
		t.Errorf("%d calls, want 1", len(sent))
	}
}

// A process that the CPI leaves running must not delay the return of the call.
func TestDaemonOfTheCPI(t *testing.T) {
	t.Parallel()
	path := program(t, infoV2, "sleep 1000 & echo $! >child\n"+reply(`{"result":"disk"}`))
	if cid, err := client(path).CreateDisk(t.Context(), 1, nil, ""); cid != "disk" || err != nil {
		t.Errorf("got %q, %v", cid, err)
	}
	pid := pidIn(t, filepath.Join(filepath.Dir(path), "child"))
	if !alive(pid) {
		t.Error("the daemon was killed")
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func TestRecorded(t *testing.T) {
	t.Parallel()
	path := program(t, infoV2, "echo $$ >pid\n"+reply(`{"result":"disk"}`))
	file := filepath.Join(t.TempDir(), "reply.json")
	c := client(path)
	if err := Announce(file); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call overwrites the reply of the first one
		cid, err := c.Recorded(file).CreateDisk(t.Context(), 1, nil, "")
		if cid != "disk" || err != nil {
			t.Fatalf("got %q, %v", cid, err)
		}
		child, known := childOf(file)
		if pid := lines(t, path, "pid"); !known || pid[len(pid)-1] != strconv.Itoa(child.PID) {
			t.Errorf("recorded process %d, was %v", child.PID, pid)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if cid, err := c.Recover(t.Context(), "create_disk", file, nil); cid != "disk" || err != nil {
		t.Errorf("got %q, %v", cid, err)
	}
}

// The caller is killed in the middle of a call: the CPI continues, and the next run reads
// its reply.
func TestReplyOutlivesCaller(t *testing.T) {
	t.Parallel()
	path := program(t, infoV2, "echo $$ >pid; touch running; until [[ -e go ]]; do echo noise >&2; sleep 0.01; done\n"+reply(`{"result":"disk"}`))
	dir := filepath.Dir(path)
	file := filepath.Join(dir, "reply.json")
	caller := exec.Command(os.Args[0])
	caller.Env = append(os.Environ(), "TEST_CPI_CALLER="+file, "TEST_CPI="+path)
	if err := caller.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the call", func() bool { _, err := os.Stat(filepath.Join(dir, "running")); return err == nil })
	_ = caller.Process.Kill()
	_ = caller.Wait()

	c := client(path)
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	waits := 0
	cid, err := c.Recover(ctx, "create_disk", file, func(child Child) {
		waits++
		if child.PID != pidIn(t, filepath.Join(dir, "pid")) || time.Since(child.Since) > time.Hour {
			t.Errorf("waiting for %+v", child)
		}
	})
	if !errors.Is(err, context.DeadlineExceeded) || waits != 1 {
		t.Errorf("while the CPI runs: %q, %v, told %d times", cid, err, waits)
	}
	if _, err := c.Recorded(file).CreateDisk(t.Context(), 1, nil, ""); err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("a second call into the same file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if cid, err := c.Recover(t.Context(), "create_disk", file, nil); cid != "disk" || err != nil {
		t.Errorf("got %q, %v", cid, err)
	}
	RemoveReply(file)
	if left, _ := filepath.Glob(file + "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A process that the CPI leaves running holds the file of the reply open.
func TestRecoverWithDaemon(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		`{"result":"disk"}`:                    nil,
		`{"error":{"type":"T","message":"m"}}`: &Error{},
		`{"resu`:                               &GarbageError{},
	} {
		path := program(t, infoV2, "sleep 1000 & echo $! >child\n"+reply(text))
		file := filepath.Join(t.TempDir(), "reply.json")
		c := client(path)
		if _, err := c.Recorded(file).CreateDisk(t.Context(), 1, nil, ""); reflect.TypeOf(err) != reflect.TypeOf(want) {
			t.Fatal(err)
		}
		info, err := os.Stat(childFile(file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if cid, err := c.Recover(ctx, "create_disk", file, nil); reflect.TypeOf(err) != reflect.TypeOf(want) {
			t.Errorf("%s: %q, %v", text, cid, err)
		}
		cancel()
		_ = syscall.Kill(pidIn(t, filepath.Join(filepath.Dir(path), "child")), syscall.SIGKILL)
	}
}

// If a CPI ends before its process can be recorded, it is recorded as ended, and nobody
// waits for the processes that it left running.
func TestRecordEnded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "reply.json")
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the process", func() bool { return !process.Lives(cmd.Process.Pid) })
	recordChild(file, cmd.Process.Pid)
	if child, known := childOf(file); !known || child.runs() || child.PID != cmd.Process.Pid {
		t.Errorf("known: %v, %+v", known, child)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// update_disk returns the disk's CID if it has changed.
func TestRecoverChanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "reply.json")
	for _, r := range []struct{ method, text, want string }{
		{"update_disk", `{"result":"disk-2"}`, "disk-2"},
		{"update_disk", `{"result":null}`, ""},
		{"update_disk", `{"result":""}`, ""},
		{"update_disk", `{"result":true}`, ""},
		{"resize_disk", `{"result":true}`, ""},
		{"snapshot_disk", `{"result":"snap-1"}`, "snap-1"},
	} {
		if err := os.WriteFile(file, []byte(r.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if cid, err := client("cpi").Recover(t.Context(), r.method, file, nil); cid != r.want || err != nil {
			t.Errorf("%s %s: %q, %v", r.method, r.text, cid, err)
		}
	}
}

func TestRecoverFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := client("cpi")
	if _, err := c.Recover(t.Context(), "create_disk", filepath.Join(dir, "absent"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	file := filepath.Join(dir, "announced")
	if err := Announce(file); err != nil {
		t.Fatal(err)
	}
	if err := Announce(file); !errors.Is(err, os.ErrExist) {
		t.Errorf("announced twice: %v", err)
	}
	if _, err := c.Recover(t.Context(), "create_disk", file, nil); !errors.Is(err, ErrNotBegun) || errors.Is(err, os.ErrNotExist) {
		t.Errorf("announced: %v", err)
	}
	for text, want := range map[string]error{
		"":                &GarbageError{},
		`{"result":`:      &GarbageError{},
		`{"result":null}`: &ResultError{},
		`{"error":{"type":"T","message":"m","ok_to_retry":true}}`: &Error{},
	} {
		file := filepath.Join(dir, "reply.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if cid, err := c.Recover(t.Context(), "create_disk", file, nil); reflect.TypeOf(err) != reflect.TypeOf(want) {
			t.Errorf("%s: %q, %v", text, cid, err)
		}
	}
}
