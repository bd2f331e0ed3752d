package agent

// BootLimitsFile is the name of the file with BootLimits in the folder of an
// embedded VM.
const BootLimitsFile = "limits.json"

// BootLimits describes what the processes of an embedded VM may use together, and
// what holds them to it. The CPI writes it before the VM starts.
type BootLimits struct {
	Memory uint64  `json:"memory,omitempty"` // bytes; 0: no limit
	CPU    float64 `json:"cpu,omitempty"`    // cores; 0: no limit
	PIDs   int     `json:"pids,omitempty"`   // processes and threads; 0: no limit
	Cgroup string  `json:"cgroup,omitempty"` // path of the cgroup on this machine; empty: it has none of its own
	// NotHeld are sentences about limits that were asked for and nothing holds.
	NotHeld []string `json:"not_held,omitempty"`
}

// BootSizesFile is the name of the file with BootSizes in the folder of an embedded
// VM.
const BootSizesFile = "sizes.json"

// BootSizes are the sizes in MiB of the disks of an embedded VM that are folders of this
// machine: nothing holds the VM to them. The CPI writes them whenever they change.
type BootSizes struct {
	Ephemeral  int            `json:"ephemeral,omitempty"`  // 0: none was asked for
	Persistent map[string]int `json:"persistent,omitempty"` // by CID
	// NotHeld are sentences about a machine that could hold the VM to them.
	NotHeld []string `json:"not_held,omitempty"`
}
