//go:build unix

package postgrestest

import (
	"os"
	"os/exec"
	"syscall"
)

// give gives the folder to the user as whom the server runs.
func give(folder string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid := serverUser()
	return os.Chown(folder, uid, gid)
}

// asServer makes the command run as that user, in its own process group, so that an
// interrupt of the test does not stop the server before the test.
func asServer(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		uid, gid := serverUser()
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
}
