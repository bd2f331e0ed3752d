// Package namespace makes embedded VMs from Linux namespaces, without root: with a root
// file system that is made from the machine's own, a real /var/vcap, and processes that
// see nothing else and end together.
//
// Start runs the part "build" of Main in new user and mount namespaces. It mounts the
// root file system, starts the part "init" in nested namespaces, and ends. Init is the
// first process of the VM and runs the agent. The mounts of build are locked for init and
// all its descendants: the kernel does not let them unmount a mount or make it writable.
package namespace

import (
	"context"
	"io/fs"
	"os"
	"path"

	"bootstrap/local/network"
)

// Paths inside of the VM.
const (
	// Guest is the folder of the VM. Processes in the VM cannot write to it, except for
	// the agent's lock and log.
	Guest = "/run/machine"
	// GuestVcap is the VM's folder of jobs, packages and data.
	GuestVcap = "/var/vcap"
)

// Interrupted is the exit code of an agent that a signal has ended. Only the first
// process of the VM knows whether it must run again.
const Interrupted = 130

// GuestProgram is the path of this program inside of the VM.
const GuestProgram = Guest + "/" + programFile

// LoginSocket is the name of the socket for SSH connections in the folder of a VM of a
// stemcell.
const LoginSocket = "login"

// Names in the VM's folder.
const (
	vcapDir     = "vcap"
	disksDir    = "disks"  // mount points of attached disks inside of the VM
	rootDir     = "root"   // mount point of the root file system
	layersDir   = "layers" // files that differ from the machine's own
	programFile = "program"
)

// GuestDisk returns the path of an attached disk's data inside of the VM.
func GuestDisk(cid string) string { return path.Join(Guest, disksDir, cid) }

// Spec describes a VM.
type Spec struct {
	Dir      string   `json:"dir"`               // name of the VM
	Disks    string   `json:"disks"`             // folder with the data of the attached disks
	Mounted  []Disk   `json:"mounted,omitempty"` // attached disks that are file systems
	Hostname string   `json:"hostname"`
	Files    []string `json:"files"`   // files in Dir that the agent may write
	Program  string   `json:"program"` // path of this program
	Args     []string `json:"args"`    // arguments of the program, for the agent
	// Network is the VM's own network; nil: the VM uses this machine's network.
	Network *network.Spec `json:"network,omitempty"`

	// Image is the folder with the root file system of a stemcell, on the file system of
	// Dir; empty: the VM has the files of this machine.
	Image string `json:"image,omitempty"`
	// Boot is the command of the stemcell that runs in place of the agent, and is started
	// again whenever it ends.
	Boot []string `json:"boot,omitempty"`
	// Systemd is the systemd of the stemcell, which boots the VM if it has a cgroup; nil, or
	// if that fails: Boot does.
	Systemd *Systemd `json:"systemd,omitempty"`
	// Added are files that the stemcell lacks, or that replace its own.
	Added []File `json:"added,omitempty"`

	Users Users `json:"users,omitzero"` // users besides root; none: all files have one owner

	// Person is true if root of the VM is the person who starts it; Start sets it.
	Person bool `json:"person,omitempty"`
	// Shares are the VM's limits for kernel objects that the kernel limits for each user.
	// Start sets them.
	Shares map[string]int `json:"shares,omitempty"`

	// Hold sets the limits of the VM, whose only process so far is pid; nil: it has none.
	Hold func(ctx context.Context, pid int) (Held, error) `json:"-"`
}

// Systemd is the systemd of a stemcell.
type Systemd struct {
	Program string   `json:"program"` // path in the VM
	Units   []string `json:"units"`   // units that must be active, or Boot runs in its place
}

// ReplacedSystemctl is the path in the VM of the program that is mounted over the stemcell's
// systemctl if its systemd does not run.
const ReplacedSystemctl = "/usr/lib/machine/systemctl"

// Booted says whether systemd has booted a VM with Spec.Systemd. It is in the file
// InitFile, to which the VM can write.
type Booted struct {
	Systemd string   `json:"systemd,omitempty"` // state of the stemcell's systemd, such as running or degraded; empty: it does not run
	Failed  []string `json:"failed,omitempty"`  // its failed units
	Reason  string   `json:"reason,omitempty"`  // why it does not run
}

// InitFile is the name of a file in the folder of a VM. It contains Booted as JSON, and is
// empty until the VM has booted.
const InitFile = "init.json"

// Held says how the limits of a VM are enforced.
type Held struct {
	Cgroup string `json:"cgroup,omitempty"` // path of the root cgroup in the VM's view; empty: the VM has no cgroup of its own
	PIDs   int    `json:"pids,omitempty"`   // limit for processes and threads of each of its users; 0: none
}

// Disk is a disk that is a file system.
type Disk struct {
	CID   string   `json:"cid"` // name of an empty folder in Spec.Disks
	Mount *os.File `json:"-"`   // not mounted in any namespace yet
}

// File is a file of a VM.
type File struct {
	Name string      `json:"name"` // relative to the root
	Text string      `json:"text"`
	Mode fs.FileMode `json:"mode"`
}
