package namespace

import "golang.org/x/sys/unix"

// changesIDs returns the processor as filters name it, and the calls that change
// users, groups or owners.
func changesIDs() (arch uint32, calls []idCall) {
	return unix.AUDIT_ARCH_X86_64, []idCall{
		{unix.SYS_CHOWN, []int{1, 2}}, {unix.SYS_LCHOWN, []int{1, 2}}, {unix.SYS_FCHOWN, []int{1, 2}}, {unix.SYS_FCHOWNAT, []int{2, 3}},
		{unix.SYS_SETUID, []int{0}}, {unix.SYS_SETGID, []int{0}},
		{unix.SYS_SETREUID, []int{0, 1}}, {unix.SYS_SETREGID, []int{0, 1}},
		{unix.SYS_SETRESUID, []int{0, 1, 2}}, {unix.SYS_SETRESGID, []int{0, 1, 2}},
		{unix.SYS_SETGROUPS, nil},
	}
}
