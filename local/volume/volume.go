// Package volume makes file systems that are files: the data of disks that stop at
// their size.
//
// Such a file system is mounted nowhere on this machine. Open returns it as a
// descriptor, which can be moved into the namespace of a VM. The kernel unmounts it and
// removes its loop device when neither a descriptor nor a VM has it any more,
// however their processes ended.
package volume

// RefusedError says why this machine has no such file systems.
type RefusedError struct {
	Cause  string
	Remedy string // what a person can do about it; may be empty
}

func (e *RefusedError) Error() string { return e.Cause }
