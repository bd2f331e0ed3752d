package namespace

import "golang.org/x/sys/unix"

// changesIDs returns the name of the processor in filters, and the system calls that
// change users, groups or owners.
func changesIDs() (arch uint32, calls []idCall) {
	return unix.AUDIT_ARCH_AARCH64, []idCall{
		{unix.SYS_FCHOWN, []int{1, 2}}, {unix.SYS_FCHOWNAT, []int{2, 3}},
		{unix.SYS_SETUID, []int{0}}, {unix.SYS_SETGID, []int{0}},
		{unix.SYS_SETREUID, []int{0, 1}}, {unix.SYS_SETREGID, []int{0, 1}},
		{unix.SYS_SETRESUID, []int{0, 1, 2}}, {unix.SYS_SETRESGID, []int{0, 1, 2}},
		{unix.SYS_SETGROUPS, nil},
	}
}

// keyCalls returns the system calls about keys, including those of 32-bit programs.
func keyCalls() []archCalls {
	return []archCalls{
		{unix.AUDIT_ARCH_AARCH64, []uint32{unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL}},
		{unix.AUDIT_ARCH_ARM, []uint32{309, 310, 311}},
	}
}
