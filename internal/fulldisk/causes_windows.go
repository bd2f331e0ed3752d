package fulldisk

import "syscall"

// causes contains ENOSPC, which errors of other machines wrap, and the errors that
// Windows returns.
func causes() []error {
	const (
		handleDiskFull    = syscall.Errno(39)   // ERROR_HANDLE_DISK_FULL
		diskFull          = syscall.Errno(112)  // ERROR_DISK_FULL
		diskQuotaExceeded = syscall.Errno(1295) // ERROR_DISK_QUOTA_EXCEEDED
	)
	return []error{syscall.ENOSPC, handleDiskFull, diskFull, diskQuotaExceeded}
}
