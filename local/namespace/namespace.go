// Package namespace makes the machine of an embedded VM out of Linux namespaces,
// without root: a root file system made of the machine's own, a real /var/vcap,
// and processes that see nothing else and end together.
//
// Start runs the part "build" of Main in new user and mount namespaces. It mounts
// the root file system, starts the part "init" in namespaces inside of those, and
// ends. Init is the first process of the VM and runs the agent. What build has
// mounted is locked for init and everything below it: the kernel lets none of
// them unmount it or make it writable.
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
	// Guest is the folder of the VM, which cannot be written to inside, except
	// for the agent's lock and log.
	Guest = "/run/machine"
	// GuestVcap is the VM's folder of jobs, packages and data.
	GuestVcap = "/var/vcap"
)

// Interrupted is the exit code of an agent that a signal has ended, of which only the
// first process of the VM knows whether it is to run again.
const Interrupted = 130

// GuestProgram is where this program is inside.
const GuestProgram = Guest + "/" + programFile

// LoginSocket is the socket in the folder of a VM of a stemcell that takes SSH
// connections.
const LoginSocket = "login"

// Names in the VM's folder.
const (
	vcapDir     = "vcap"
	disksDir    = "disks"  // where the attached disks are mounted inside
	rootDir     = "root"   // where the root file system is mounted
	layersDir   = "layers" // what differs from the machine's own files
	programFile = "program"
)

// GuestDisk is where the VM finds the data of a disk that is attached to it.
func GuestDisk(cid string) string { return path.Join(Guest, disksDir, cid) }

// Spec describes a VM.
type Spec struct {
	Dir      string   `json:"dir"`               // of the VM
	Disks    string   `json:"disks"`             // contains the data of the attached disks
	Mounted  []Disk   `json:"mounted,omitempty"` // those that are file systems of their own
	Hostname string   `json:"hostname"`
	Files    []string `json:"files"`   // in Dir, which the agent may write to
	Program  string   `json:"program"` // this one
	Args     []string `json:"args"`    // of the program, for the agent
	// Network is what the VM has instead of this machine's network; nil: it shares
	// that.
	Network *network.Spec `json:"network,omitempty"`

	// Image is the folder with the root file system of a stemcell, on the file
	// system of Dir; empty: the VM has the files of this machine.
	Image string `json:"image,omitempty"`
	// Boot is the command of the stemcell that runs in place of the agent, and is
	// started again whenever it ends.
	Boot []string `json:"boot,omitempty"`
	// Added are files that the stemcell does not have, or has otherwise.
	Added []File `json:"added,omitempty"`

	Users Users `json:"users,omitzero"` // beside root; none: all files have one owner

	// Person is whether root of the VM is the person who starts it; Start fills it in.
	Person bool `json:"person,omitempty"`
	// Shares are the limits of the VM in the kernel's list of limits for users. Start
	// fills them in.
	Shares map[string]int `json:"shares,omitempty"`

	// Hold prepares what holds the limits of the VM, whose only process so far is
	// pid; nil: it has none.
	Hold func(ctx context.Context, pid int) (Held, error) `json:"-"`
}

// Held is what holds the limits of a VM.
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
