package machine

import "golang.org/x/sys/unix"

// BootID is another text after each start of this machine.
func BootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}
