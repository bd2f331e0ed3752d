package machine

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// vcapID is the user and the group vcap, where they are others than root.
const vcapID = 1000

// ManyUsers reports whether the VM has other users than root. Else all files belong
// to one, whatever they say.
func (v VM) ManyUsers() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && v.inside && strings.Count(string(text), "\n") > 1
}

// GiveToVcap makes a file or folder vcap's, where that is another user.
func (v VM) GiveToVcap(name string) error {
	if !v.ManyUsers() {
		return nil
	}
	return os.Lchown(name, vcapID, vcapID)
}

// asRoot gives a command the group of root, where that of the agent is vcap's.
func (v VM) asRoot(cmd *exec.Cmd) {
	if v.ManyUsers() && os.Getuid() == 0 && os.Getgid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{}}
	}
}
