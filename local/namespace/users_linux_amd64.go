package namespace

import "golang.org/x/sys/unix"

// changesIDs returns the name of the processor in filters, and the system calls that
// change users, groups or owners.
func changesIDs() (arch uint32, calls []idCall) {
	return unix.AUDIT_ARCH_X86_64, []idCall{
		{unix.SYS_CHOWN, []int{1, 2}}, {unix.SYS_LCHOWN, []int{1, 2}}, {unix.SYS_FCHOWN, []int{1, 2}}, {unix.SYS_FCHOWNAT, []int{2, 3}},
		{unix.SYS_SETUID, []int{0}}, {unix.SYS_SETGID, []int{0}},
		{unix.SYS_SETREUID, []int{0, 1}}, {unix.SYS_SETREGID, []int{0, 1}},
		{unix.SYS_SETRESUID, []int{0, 1, 2}}, {unix.SYS_SETRESGID, []int{0, 1, 2}},
		{unix.SYS_SETGROUPS, nil},
	}
}

// keyCalls returns the system calls about keys, including those of 32-bit programs.
func keyCalls() []archCalls {
	const x32 = 0x40000000
	return []archCalls{
		{unix.AUDIT_ARCH_X86_64, []uint32{
			unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, x32 | unix.SYS_ADD_KEY, x32 | unix.SYS_REQUEST_KEY, x32 | unix.SYS_KEYCTL,
		}},
		{unix.AUDIT_ARCH_I386, []uint32{286, 287, 288}},
	}
}
