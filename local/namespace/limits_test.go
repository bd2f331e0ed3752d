//go:build linux

package namespace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/local/cgroup"
)

// A job that creates more and more processes reaches the limit of its VM, and the VM
// continues.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	if !cgroup.CountsByNamespace() {
		t.Skip("this kernel counts the processes of a user in all namespaces together")
	}
	dir, ended := start(t, `
perl -e 'while (defined(my $pid = fork)) { if (!$pid) { sleep 1000 }; $n++ }; print "enough=", $n > 20 && $n <= 50 ? 1 : $n, "\n"'
`, func(context.Context, int) (Held, error) { return Held{PIDs: 50}, nil })
	_, output := end(t, dir, ended)
	expect(t, output, map[string]string{"enough": "1"})
}

// A person with a lower limit of processes than a VM's can still start VMs.
func TestLimitOfThePerson(t *testing.T) {
	t.Parallel()
	if !cgroup.CountsByNamespace() {
		t.Skip("this kernel counts the processes of a user in all namespaces together")
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &now); err != nil {
		t.Fatal(err)
	}
	now.Max = min(now.Max, 1<<21) // the other tests need fewer
	now.Cur = min(now.Cur, now.Max)
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &now); err != nil {
		t.Fatal(err)
	}
	most := int(now.Max)
	dir, ended := start(t, "echo most=$(ulimit -u)", func(context.Context, int) (Held, error) { return Held{PIDs: most + 1}, nil })
	_, output := end(t, dir, ended)
	expect(t, output, map[string]string{"most": strconv.Itoa(most)})
}

// needCgroups skips a test if VMs cannot have cgroups with the limits.
func needCgroups(t *testing.T, limits cgroup.Limits) cgroup.Home {
	t.Helper()
	home, err := cgroup.Find()
	if err == nil {
		_, err = home.Can(limits)
	}
	if err != nil {
		t.Skipf("no cgroups with limits here: %v", err)
	}
	return home
}

// A job that exceeds the memory of its VM is killed, and the VM continues. Processes
// inside cannot raise the limits, but can divide them.
func TestCgroup(t *testing.T) {
	t.Parallel()
	limits := cgroup.Limits{Memory: 64 << 20, CPU: 0.5, PIDs: 60}
	home := needCgroups(t, limits)
	var held string
	dir, ended := start(t, `
cd /sys/fs/cgroup
hog() { perl -e '$x = "x" x (200 << 20); print "grown\n"'; }
echo hog=$(hog) status=$(hog >/dev/null; echo $?) && echo killed=$(grep -c 'oom_kill [12]$' memory.events)
echo mine=$(cat /proc/self/cgroup) others=$(ls -d *.slice 2>/dev/null | wc -l)
for file in memory.max pids.max cpu.max; do echo max >$file; echo max >../$file; done 2>/dev/null
echo hog=$(hog)
mkdir part && echo 20971520 >part/memory.max && echo 0 >part/memory.swap.max; echo part=$?
echo small=$(sh -c 'echo 0 >/sys/fs/cgroup/part/cgroup.procs; exec perl -e "\$x = q(x) x (40 << 20); print qq(grown\n)"')
rmdir part && echo removed=$?
perl -e 'while (defined(my $pid = fork)) { if (!$pid) { sleep 1000 }; $n++ }; print "enough=", $n > 20 && $n <= 60 ? 1 : $n, "\n"'
`, func(ctx context.Context, pid int) (Held, error) {
		uid, gid := Owner()
		var err error
		held, err = home.Hold(ctx, "vm-of-a-test", pid, limits, uid, gid)
		return Held{Cgroup: filepath.Join(held, cgroup.InnerDir)}, err
	})
	_, output := end(t, dir, ended)
	expect(t, output, map[string]string{
		"hog": "", "killed": "1", "mine": "0::/vm-processes others=0", "part": "0", "small": "", "removed": "0", "enough": "1",
	})
	if !strings.Contains(output, "status=137") {
		t.Errorf("the hog was not killed: %s", output)
	}
	if err := cgroup.Remove(t.Context(), held); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(held); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %s, %v", held, err)
	}
}

// If the process that starts a VM is killed before the VM has limits, the VM does not
// start.
func TestStarterEnds(t *testing.T) {
	t.Parallel()
	if err := Try(t.Context(), os.Args[0]); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	refused := errors.New("no limits")
	_, err := Start(t.Context(), specIn(t, filepath.Join(t.TempDir(), "vm-1"), "echo started", func(context.Context, int) (Held, error) { return Held{}, refused }), nil, os.Stderr)
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

func end(t *testing.T, dir string, ended <-chan error) (string, string) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the VM does not end")
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, string(text)
}
