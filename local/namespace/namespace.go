// Package namespace makes the machine of an embedded VM from Linux namespaces, without
// root: with a root file system made of the machine's own, a real /var/vcap, and
// processes that see nothing else and end together.
//
// Start runs the part "build" of Main in new user and mount namespaces. It mounts the
// root file system, starts the part "init" in namespaces inside of those, and ends.
// Init is the first process of the VM and runs the agent. The mounts of build are
// locked for init and all its descendants: the kernel lets none of them unmount a mount
// or make it writable.
package namespace

import (
	"context"
	"io/fs"
	"os"
	"path"

	"bootstrap/local/network"
)

// Places inside.
const (
	// Guest is the folder of the VM. Processes inside cannot write to it, except for
	// the agent's lock and log.
	Guest = "/run/machine"
	// GuestVcap is the VM's folder of jobs, packages and data.
	GuestVcap = "/var/vcap"
)

// Interrupted is the exit code of an agent that a signal has ended. Only the first
// process of the VM knows whether it must run again.
const Interrupted = 130

// GuestProgram is the path of this program inside.
const GuestProgram = Guest + "/" + programFile

// LoginSocket is the socket in the folder of a VM of a stemcell that takes SSH
// connections.
const LoginSocket = "login"

// Names in the VM's folder.
const (
	vcapDir     = "vcap"
	disksDir    = "disks"  // where the attached disks are mounted inside
	rootDir     = "root"   // where the root file system is mounted
	layersDir   = "layers" // files that differ from the machine's own
	programFile = "program"
)

// GuestDisk returns the path of the data of an attached disk inside the VM.
func GuestDisk(cid string) string { return path.Join(Guest, disksDir, cid) }

// Spec describes a VM.
type Spec struct {
	Dir      string   `json:"dir"`               // of the VM
	Disks    string   `json:"disks"`             // contains the data of the attached disks
	Mounted  []Disk   `json:"mounted,omitempty"` // attached disks that are file systems of their own
	Hostname string   `json:"hostname"`
	Files    []string `json:"files"`   // files in Dir to which the agent may write
	Program  string   `json:"program"` // this one
	Args     []string `json:"args"`    // of the program, for the agent
	// Network is the VM's own network; nil: the VM uses this machine's network.
	Network *network.Spec `json:"network,omitempty"`

	// Image is the folder with the root file system of a stemcell, on the file
	// system of Dir; empty: the VM has the files of this machine.
	Image string `json:"image,omitempty"`
	// Boot is the command of the stemcell that runs in place of the agent, and is
	// started again whenever it ends.
	Boot []string `json:"boot,omitempty"`
	// Added are files that the stemcell lacks, or that replace its own.
	Added []File `json:"added,omitempty"`

	Users Users `json:"users,omitzero"` // users besides root; none: all files have one owner

	// Person is whether root of the VM is the person who starts it; Start fills it in.
	Person bool `json:"person,omitempty"`
	// Shares are the VM's limits for kernel objects that the kernel limits for each
	// user. Start fills them in.
	Shares map[string]int `json:"shares,omitempty"`

	// Hold sets up the limits of the VM, whose only process so far is pid; nil: it has
	// none.
	Hold func(ctx context.Context, pid int) (Held, error) `json:"-"`
}

// Held describes how the limits of a VM are enforced.
type Held struct {
	Cgroup string `json:"cgroup,omitempty"` // path of the cgroup that the VM sees as all; empty: it has none of its own
	PIDs   int    `json:"pids,omitempty"`   // how many processes and threads each of its users may have; 0: no such limit
}

// Disk is a disk that is a file system of its own.
type Disk struct {
	CID   string   `json:"cid"` // name of an empty folder in Spec.Disks
	Mount *os.File `json:"-"`   // not in any namespace yet
}

// File is a file of a VM.
type File struct {
	Name string      `json:"name"` // relative to the root
	Text string      `json:"text"`
	Mode fs.FileMode `json:"mode"`
}
