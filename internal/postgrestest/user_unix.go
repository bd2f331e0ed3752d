//go:build unix

package postgrestest

import (
	"os"
	"os/exec"
	"syscall"
)

// give gives the folder to the user whom the server runs as.
func give(folder string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid := serverUser()
	return os.Chown(folder, uid, gid)
}

// asServer makes the command run as that user, in a process group of its own so
// that an interrupt of the test does not reach it first.
func asServer(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		uid, gid := serverUser()
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
}
