//go:build !linux

package machine

import "errors"

var errNoMounts = errors.New("only Linux has VMs with mounts")

// Mount returns an error: only Linux has VMs with mounts.
func (v VM) Mount(string, string) error { return errNoMounts }

// Unmount returns an error: only Linux has VMs with mounts.
func (v VM) Unmount(string) error { return errNoMounts }

// Mounted returns an error: only Linux has VMs with mounts.
func (v VM) Mounted(string, string) (mounted, same bool, err error) { return false, false, errNoMounts }
