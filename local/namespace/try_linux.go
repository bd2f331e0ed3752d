package namespace

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/process"
)

// tryTime limits one call of Try.
const tryTime = 10 * time.Second

// Try checks whether this user can make namespaces on this machine and mount file systems
// in them; the error says why not. It changes nothing.
func Try(ctx context.Context, program string) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	report, says, err := os.Pipe()
	if err != nil {
		return err
	}
	defer report.Close()
	cmd := exec.CommandContext(ctx, program, "plugin", "machine", "try")
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{says, says, says}
	process.OwnGroup(cmd)
	isolate(cmd, syscall.CLONE_NEWUSER|syscall.CLONE_NEWNS|syscall.CLONE_NEWPID|syscall.CLONE_NEWIPC|syscall.CLONE_NEWUTS)
	err = cmd.Start()
	_ = says.Close()
	if err != nil {
		return fmt.Errorf("this machine refuses user namespaces: %w", err)
	}
	err = reported(report)
	_ = cmd.Wait()
	return err
}

// try is the part of Try that runs in the namespaces: it makes the first mounts that a VM
// needs.
func try() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("this machine refuses mounts in a user namespace: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("this machine refuses to mount /proc in a user namespace: %w", err)
	}
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("this machine refuses mounts in a user namespace: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/tmp", 0, &attr); err != nil {
		return fmt.Errorf("this kernel is older than 5.12: %w", err)
	}
	return nil
}

// Remedy returns what the machine's owner can change if Try fails; empty: that is
// unknown.
func Remedy() string {
	for _, setting := range []struct{ name, bad, good string }{
		{"kernel.unprivileged_userns_clone", "0", "1"},
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "0"},
		{"user.max_user_namespaces", "0", "15000"},
	} {
		text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(setting.name, ".", "/"))
		if err == nil && strings.TrimSpace(string(text)) == setting.bad {
			return fmt.Sprintf("sudo sysctl -w %s=%s", setting.name, setting.good)
		}
	}
	return ""
}

// Exchange exchanges the names of two files or folders in one step.
func Exchange(a, b string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}
