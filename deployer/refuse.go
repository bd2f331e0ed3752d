package deployer

import "fmt"

// AgentSilentError says that a VM exists and its agent does not answer, so
// that its jobs cannot be stopped nor its disk unmounted.
type AgentSilentError struct {
	VM  string // CID
	Err error  // what the last probe met
}

func (e *AgentSilentError) Error() string {
	return fmt.Sprintf("VM %s exists but its agent does not answer: %v", e.VM, e.Err)
}

func (e *AgentSilentError) Unwrap() error { return e.Err }

// DiskGoneError says that the recorded persistent disk does not exist any more.
type DiskGoneError struct {
	CID string
}

func (e *DiskGoneError) Error() string {
	return fmt.Sprintf("disk %s is recorded and the CPI says that it does not exist: its data is lost or the CPI looks in the wrong place; nothing was changed; to go on with a new, empty disk: bootstrap disks forget MANIFEST --current", e.CID)
}

// ShrinkError says that a smaller disk is asked for.
type ShrinkError struct {
	CID      string
	From, To int // MiB
}

func (e *ShrinkError) Error() string {
	return fmt.Sprintf("disk %s would shrink from %d to %d MiB: its data may not fit; nothing was changed; --allow-shrink tries", e.CID, e.From, e.To)
}

// PlanMovedError says that a plan does not hold any more.
type PlanMovedError struct {
	What string // what is different
}

func (e *PlanMovedError) Error() string {
	return fmt.Sprintf("the plan does not hold any more: %s; nothing was changed: make a new plan", e.What)
}

// NotConfirmedError says that the person did not agree to the plan.
type NotConfirmedError struct{}

func (e *NotConfirmedError) Error() string { return "not confirmed; nothing was changed" }
