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

// share is the fraction of the owner's kernel limits that one VM may use: the rest stays
// for the owner's other programs and VMs.
const share = 4

// limitsDir has the limits for each user of a user namespace, such as the number of
// namespaces of each kind and of inotify instances. An object in a namespace also counts
// in all namespaces around it. See namespaces(7).
const limitsDir = "/proc/sys/user"

// sharesOf returns the limits of a VM.
func sharesOf() map[string]int {
	// For a machine without limits: the defaults of Linux.
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

// takeShare sets the VM's limits. This process is in the user namespace around the VM's,
// whose limits nobody in the VM can change.
func takeShare(shares map[string]int) error {
	for name, limit := range shares {
		// A container may refuse this.
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

// startWithoutKeys starts a command in a session keyring of its own. A session belongs to
// a thread and its children, so no thread of the command ever has the person's session.
func startWithoutKeys(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// A container may refuse all calls about keys, also in the VM.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("cannot leave the session's keys: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return refused("process namespaces", err)
	}
	return nil
}
