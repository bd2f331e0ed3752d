package machine

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// vcapID is the id of the user and the group vcap, if the VM has users other than root.
const vcapID = 1000

// ManyUsers reports whether the VM has users other than root. If not, all files belong to
// one user, and chown has no effect.
func (v VM) ManyUsers() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && v.inside && strings.Count(string(text), "\n") > 1
}

// GiveToVcap gives a file or folder to vcap, if that user exists.
func (v VM) GiveToVcap(name string) error {
	if !v.ManyUsers() {
		return nil
	}
	return os.Lchown(name, vcapID, vcapID)
}

// asRoot runs a command with the group of root, because the agent's group may be vcap.
func (v VM) asRoot(cmd *exec.Cmd) {
	if v.ManyUsers() && os.Getuid() == 0 && os.Getgid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{}}
	}
}
