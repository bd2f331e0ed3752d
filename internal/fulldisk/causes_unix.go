//go:build unix

package fulldisk

import "syscall"

func causes() []error { return []error{syscall.ENOSPC, syscall.EDQUOT} }
