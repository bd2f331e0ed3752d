// Package volume makes file systems in files: the data of disks whose size is enforced.
// Such a file system is not mounted anywhere on this machine. Open returns it as a
// descriptor, which can be moved into the namespace of a VM. When neither a descriptor
// nor a VM uses it any more, even after kills, the kernel unmounts it and removes its
// loop device.
package volume

// RefusedError says why this machine cannot have such file systems.
type RefusedError struct {
	Cause  string
	Remedy string // what a person can do about it; may be empty
}

func (e *RefusedError) Error() string { return e.Cause }
