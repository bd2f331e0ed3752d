package report

// ProblemType is the kind of a problem, by the name that a Director has for it.
type ProblemType string

// The kinds of problems.
const (
	UnresponsiveAgent ProblemType = "unresponsive_agent"
	MissingVM         ProblemType = "missing_vm"
	MissingDisk       ProblemType = "missing_disk"
	MountMismatch     ProblemType = "mount_info_mismatch"
	FailingJobs       ProblemType = "failing_jobs"  // A Director does not look at jobs.
	NotInspected      ProblemType = "not_inspected" // of several instances; a Director has none
)

// Resolution is what a person may do about a problem, by the name that a Director has for it.
type Resolution string

// The resolutions.
const (
	Ignore              Resolution = "ignore"
	RebootVM            Resolution = "reboot_vm"
	RestartJobs         Resolution = "restart_jobs" // A Director has none for failing jobs.
	RecreateVM          Resolution = "recreate_vm"
	RecreateWithoutWait Resolution = "recreate_vm_without_wait"
	DeleteVM            Resolution = "delete_vm"
	DeleteVMReference   Resolution = "delete_vm_reference"
	DeleteDiskReference Resolution = "delete_disk_reference"
	ReattachDisk        Resolution = "reattach_disk"
)

// Words describes the resolution, as a Director does.
func (r Resolution) Words() string {
	switch r {
	case RebootVM:
		return "Reboot VM"
	case RestartJobs:
		return "Stop the jobs and start them again"
	case RecreateVM:
		return "Recreate VM and wait for processes to start"
	case RecreateWithoutWait:
		return "Recreate VM without waiting for processes to start"
	case DeleteVM:
		return "Delete VM"
	case DeleteVMReference:
		return "Delete VM reference (forceful; may need to manually delete VM from the Cloud to avoid IP conflicts)"
	case DeleteDiskReference:
		return "Delete disk reference (DANGEROUS!)"
	case ReattachDisk:
		return "Reattach disk to instance"
	}
	return "Skip for now"
}

// Resolutions lists all resolutions.
func Resolutions() []Resolution {
	return []Resolution{Ignore, RebootVM, RestartJobs, RecreateWithoutWait, RecreateVM, DeleteVM, DeleteVMReference, DeleteDiskReference, ReattachDisk}
}

// Problem is something in the cloud that is not as the state records it.
type Problem struct {
	Instance    string       `json:"instance"` // GROUP/INDEX
	Type        ProblemType  `json:"type"`
	CID         string       `json:"cid,omitempty"` // of the VM or the disk
	Description string       `json:"description"`
	Resolutions []Resolution `json:"resolutions"`
	Auto        Resolution   `json:"auto"` // the one of --auto
}
