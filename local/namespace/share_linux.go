package namespace

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// share is the part of what the kernel lets the VM's owner have that one VM may take: the
// owner's other programs and VMs keep the rest.
const share = 4

// limitsDir contains how many of each kind of namespace, inotify instance and the like
// each user of a user namespace may have. What is made in a namespace counts in all those
// around it. See namespaces(7).
const limitsDir = "/proc/sys/user"

// sharesOf returns the limits of a VM.
func sharesOf() map[string]int {
	// For a machine without limits: those that Linux has where nobody sets any.
	usual := map[string]int{"max_inotify_instances": 128, "max_inotify_watches": 65536, "max_fanotify_groups": 128, "max_fanotify_marks": 65536}
	shares := map[string]int{}
	entries, err := os.ReadDir(limitsDir)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		limit, err := strconv.Atoi(strings.TrimSpace(readText(filepath.Join(limitsDir, entry.Name()))))
		if err != nil {
			continue
		}
		if limit == math.MaxInt32 {
			if limit = usual[entry.Name()]; limit == 0 {
				continue
			}
		}
		shares[entry.Name()] = limit / share
	}
	return shares
}

// takeShare limits what the VM takes of the limits of its owner. This process is in the
// user namespace around that of the VM, whose limits nobody in the VM can change.
func takeShare(shares map[string]int) error {
	for name, limit := range shares {
		// A container may refuse it.
		_ = os.WriteFile(filepath.Join(limitsDir, filepath.Base(name)), []byte(strconv.Itoa(limit)), 0)
	}
	for _, kind := range []int{unix.RLIMIT_MSGQUEUE, unix.RLIMIT_SIGPENDING} {
		var now unix.Rlimit
		if err := unix.Getrlimit(kind, &now); err != nil {
			return err
		}
		if now.Max == unix.RLIM_INFINITY {
			continue
		}
		limit := min(now.Cur, now.Max/share)
		if err := unix.Setrlimit(kind, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	return nil
}

// startWithoutKeys starts a command in a session of keys of its own. A session belongs
// to a thread and to what it starts: no thread of the command ever has that of the
// person.
func startWithoutKeys(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// A container may refuse all calls about keys, of the VM too.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("cannot leave the session's keys: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return refused("process namespaces", err)
	}
	return nil
}
