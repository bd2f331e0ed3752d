//go:build linux

package namespace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/wait"
)

// askFirst makes each thread of the VM's first process report its session of keys. It
// uses ptrace, as root in the VM could: it stops the thread and makes it call keyctl.
const askFirst = `
cat >/tmp/ask <<'END'
use strict;
for my $dir (glob "/proc/1/task/*") {
  my ($tid) = $dir =~ /(\d+)$/;
  for my $try (1 .. 1000) {
    syscall(101, 16, $tid + 0, 0, 0) == 0 or do { print "refused=$!\n"; last }; # PTRACE_ATTACH
    my $status = "\0" x 8;
    syscall(61, $tid + 0, $status, 0x40000000, 0); # wait4
    my $saved = "\0" x 216;
    syscall(101, 12, $tid + 0, 0, $saved); # PTRACE_GETREGS
    my @r = unpack("Q27", $saved);
    my $code = "\0" x 8;
    syscall(101, 1, $tid + 0, $r[16] - 2, $code); # PTRACE_PEEKTEXT
    if (unpack("n", $code) != 0x0f05) { # it is in no call
      syscall(101, 17, $tid + 0, 0, 0); # PTRACE_DETACH
      select(undef, undef, undef, 0.01);
      next;
    }
    my @call = @r;
    @call[10, 12, 13, 14, 15, 16] = (250, 0, 0xffffffff - 2, 0, 0xffffffffffffffff, $r[16] - 2); # keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING)
    my $set = pack("Q27", @call);
    syscall(101, 13, $tid + 0, 0, $set); # PTRACE_SETREGS
    syscall(101, 9, $tid + 0, 0, 0); # PTRACE_SINGLESTEP
    syscall(61, $tid + 0, $status, 0x40000000, 0);
    my $got = "\0" x 216;
    syscall(101, 12, $tid + 0, 0, $got);
    print "session=", (unpack("q27", $got))[10], "\n";
    syscall(101, 13, $tid + 0, 0, $saved);
    syscall(101, 17, $tid + 0, 0, 0);
    last;
  }
}
print "asked=all\n";
END
perl /tmp/ask
`

// No thread of a VM's first process has the session of keys of the VM's owner, and no
// process in the VM can use keys.
func TestNoKeysOfThePerson(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // The thread has the session, and starts the VM.
	defer runtime.UnlockOSThread()
	if _, err := unix.AddKey("user", "key-of-a-test", []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		t.Skipf("no keys here: %v", err)
	}
	mine, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`
calls() { perl -e 'my @args = map { /^-?\d+$/ ? $_ + 0 : $_ } @ARGV; exit(syscall($args[0], @args[1 .. $#args]) >= 0 ? 0 : $!{ENOSYS} ? 7 : 1)' -- "$@" 2>/dev/null; echo $?; }
echo get=$(calls %[1]d 0 -4 1) add=$(calls %[2]d user name value 5 -3) request=$(calls %[3]d user key-of-a-test 0 -3)
`, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY)
	if runtime.GOARCH == "amd64" {
		script += askFirst
	}
	_, output := runInside(t, script)
	want := map[string]string{"get": "7 add=7 request=7"}
	if runtime.GOARCH == "amd64" {
		want["asked"] = "all"
		if strings.Contains(output, fmt.Sprintf("session=%d\n", mine)) {
			t.Errorf("a thread of the first process has the session %d", mine)
		}
	}
	expect(t, output, want)
}

// A VM that uses up its limits leaves enough to its owner and to other VMs.
func TestShareOfLimits(t *testing.T) {
	t.Parallel()
	const limit = "/proc/sys/user/max_inotify_instances"
	text, err := os.ReadFile(limit)
	if err != nil {
		t.Skipf("no limits here: %v", err)
	}
	all, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	all = min(all, 128)
	var proc unix.Statfs_t
	if err := unix.Statfs(limit, &proc); err != nil || proc.Flags&unix.ST_RDONLY != 0 {
		t.Skip("this machine lets nobody set limits")
	}
	// The same with the highest limits, and in nested namespaces.
	take := fmt.Sprintf(`
for limit in /proc/sys/user/max_*; do echo 2147483647 >$limit; done 2>/dev/null
exec unshare -r perl -e '$| = 1; while (syscall(%d, 0) >= 0) { $n++ }; print "taken=$n end=1\n"; sleep 1000 if WAIT'
`, unix.SYS_INOTIFY_INIT1)
	dir, ended := startInside(t, strings.Replace(take, "WAIT", "1", 1))
	log := filepath.Join(dir, "log")
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = wait.Poll(limited, 10*time.Millisecond, func() (bool, error) {
		text, err := os.ReadFile(log)
		return strings.Contains(string(text), "end=1"), err
	})
	if err != nil {
		t.Fatal(err)
	}
	if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
		t.Errorf("nothing is left to the VM's owner: %v", err)
	} else {
		_ = unix.Close(fd)
	}
	_, second := runInside(t, strings.Replace(take, "WAIT", "0", 1))
	pid, runs := First(dir)
	if !runs {
		t.Fatal("the first VM has ended")
	}
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, first := end(t, dir, ended)
	for name, output := range map[string]string{"first": first, "second": second} {
		var taken int
		for line := range strings.Lines(output) {
			_, _ = fmt.Sscanf(line, "taken=%d", &taken)
		}
		if taken < 1 || taken > all/share {
			t.Errorf("the %s VM took %d of %d:\n%s", name, taken, all, output)
		}
	}
}
