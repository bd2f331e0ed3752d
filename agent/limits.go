package agent

// BootLimitsFile is the name of the file with BootLimits in the folder of an
// embedded VM.
const BootLimitsFile = "limits.json"

// BootLimits are the limits for all processes of an embedded VM together, and the
// cgroup that enforces them. The CPI writes them before the VM starts.
type BootLimits struct {
	Memory uint64  `json:"memory,omitempty"` // bytes; 0: no limit
	CPU    float64 `json:"cpu,omitempty"`    // cores; 0: no limit
	PIDs   int     `json:"pids,omitempty"`   // processes and threads; 0: no limit
	Cgroup string  `json:"cgroup,omitempty"` // path of the cgroup on this machine; empty: the VM has no cgroup
	// NotHeld are sentences about requested limits that are not enforced.
	NotHeld []string `json:"not_held,omitempty"`
}

// BootSizesFile is the name of the file with BootSizes in the folder of an embedded
// VM.
const BootSizesFile = "sizes.json"

// BootSizes are the sizes in MiB of the disks of an embedded VM that are folders of
// this machine, where no limit is enforced. The CPI writes them whenever they change.
type BootSizes struct {
	Ephemeral  int            `json:"ephemeral,omitempty"`  // 0: no size was requested
	Persistent map[string]int `json:"persistent,omitempty"` // sizes by CID
	// NotHeld are sentences about the kind of machine that could enforce the sizes.
	NotHeld []string `json:"not_held,omitempty"`
}
