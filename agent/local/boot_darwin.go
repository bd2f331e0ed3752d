package local

import "golang.org/x/sys/unix"

// machineBoot names the time since the machine started.
func machineBoot() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}
