package manifest

import "bootstrap/internal/number"

// Bounds of the numbers of a manifest and a cloud config. They are far above what exists,
// and so low that no size in bytes or time in nanoseconds made from them overflows.
const (
	// MaxInstances is the largest number of instances of a deployment, all groups together.
	MaxInstances = 100_000
	maxCPUs      = 1 << 16
	maxWatch     = 365 * 24 * 60 * 60 * 1000 // ms
	// MaxWorkers is the largest number of compilation VMs at the same time.
	MaxWorkers = 1000
	maxPort    = 65535
)

// instancesBound is that of instances of a group.
func instancesBound() number.Bound {
	return number.Bound{Most: MaxInstances, About: "the number of instances of the group"}
}

// diskBound is that of the size of a disk; least is 1, or 0 where that means no disk. kind
// is the Director's name of the error, or empty.
func diskBound(least int, kind string) number.Bound {
	about := "the size of the disk in MiB"
	if least == 0 {
		about += ", 0 for none"
	}
	if kind != "" {
		about += " (" + kind + ")"
	}
	return number.Bound{Least: least, Most: number.MaxMiB, About: about}
}
