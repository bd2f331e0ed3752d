package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"bootstrap/agent"
	"bootstrap/internal/failure"
	"bootstrap/internal/fulldisk"
	"bootstrap/state"
)

// AgentSilentError says that a VM exists but its agent does not answer, so its jobs
// cannot be stopped and its disk cannot be unmounted.
type AgentSilentError struct {
	VM   string // CID
	Err  error  // the error of the last probe
	Next string // what to do; MANIFEST stands for the deployment's arguments
}

func (e *AgentSilentError) Error() string {
	if _, answered := errors.AsType[*agent.Error](e.Err); answered {
		return fmt.Sprintf("VM %s exists and its agent answers with an error: %v", e.VM, e.Err)
	}
	if _, busy := errors.AsType[*agent.BusyError](e.Err); busy {
		return fmt.Sprintf("VM %s cannot be worked on: %v", e.VM, e.Err)
	}
	return fmt.Sprintf("VM %s exists but its agent does not answer: %v", e.VM, e.Err)
}

func (e *AgentSilentError) Name() string { return "agent-silent" }

func (e *AgentSilentError) ExitCode() failure.Code { return failure.Agent }

func (e *AgentSilentError) Hint() string {
	if unreachable, ok := errors.AsType[*agent.UnreachableError](e.Err); ok && unreachable.Last.Cause == agent.Unauthorized {
		return unreachable.Hint()
	}
	if fulldisk.Is(e.Err) {
		return "the disk is full: free space where the message says, and run the same command again"
	}
	return e.Next
}

func (e *AgentSilentError) Unwrap() error { return e.Err }

// DiskGoneError says that the recorded persistent disk does not exist.
type DiskGoneError struct {
	CID     string
	As      string // its name, if it is a named disk
	Mounted bool   // the agent reports the disk as mounted on the VM
}

func (e *DiskGoneError) Error() string {
	if e.As != "" {
		return fmt.Sprintf("disk %s, named %s, is recorded and the CPI says that it does not exist: its data is lost or the CPI looks in the wrong place; nothing was changed; to continue with a new, empty disk: `bootstrap disks forget MANIFEST %s`", e.CID, e.As, e.CID)
	}
	if e.Mounted {
		return fmt.Sprintf("disk %s is recorded, its VM has it mounted, and the CPI says that it does not exist: the CPI looks in the wrong place or the disk is about to be lost; nothing was changed; correct cloud_provider.properties, or continue with a new, empty disk: bootstrap disks forget MANIFEST --current", e.CID)
	}
	return fmt.Sprintf("disk %s is recorded and the CPI says that it does not exist: its data is lost or the CPI looks in the wrong place; nothing was changed; to continue with a new, empty disk: bootstrap disks forget MANIFEST --current", e.CID)
}

func (e *DiskGoneError) Name() string { return "disk-gone" }

// ShrinkError says that the requested disk is smaller.
type ShrinkError struct {
	CID      string
	From, To int // MiB
}

func (e *ShrinkError) Error() string {
	return fmt.Sprintf("disk %s would shrink from %d to %d MiB: its data may not fit; nothing was changed; --allow-shrink tries", e.CID, e.From, e.To)
}

func (e *ShrinkError) Name() string { return "disk-shrinks" }

// DiskZoneError says that a new VM would be in another zone than its disk.
type DiskZoneError struct {
	CID      string
	As       string // its name, if it is a named disk
	Was, Now string // the zones of the disk and of the new VM
}

func (e *DiskZoneError) Error() string {
	disk := e.CID
	if e.As != "" {
		disk += ", named " + e.As + ","
	}
	return fmt.Sprintf("disk %s was made in the zone %q, and the manifest moves its VM to the zone %q: a cloud attaches a disk only in its own zone; nothing was changed", disk, e.Was, e.Now)
}

func (e *DiskZoneError) Name() string { return "disk-zone" }

func (e *DiskZoneError) ExitCode() failure.Code { return failure.Manifest }

func (e *DiskZoneError) Hint() string {
	return fmt.Sprintf("to keep the data, leave %s in azs of the instance group; to begin with an empty disk in %s: `bootstrap delete MANIFEST --keep-disk`, which keeps %s as an orphaned disk, then `bootstrap deploy MANIFEST`", e.Was, e.Now, e.CID)
}

// refuseZone returns a *DiskZoneError if a new VM would be in another zone than a disk that
// it uses. Zones with the same settings may be the same place under two names.
func refuseZone(w Wishes, st state.State, vm Action) error {
	was := st.Own.Zone
	if vm == Keep || was == "" || w.Zone == "" || was == w.Zone {
		return nil
	}
	located := func(part string) bool {
		_, key, _ := strings.Cut(part, ": ")
		return strings.HasPrefix(part, partProperties) || strings.HasPrefix(part, partNetwork) && (key == "cloud_properties" || key == "gateway")
	}
	if vm == Replace && len(st.Own.Made) > 0 && !slices.ContainsFunc(ChangedParts(st.Own.Made, w.Made), located) {
		return nil
	}
	if d := st.Disk(); d != nil && w.Disk != nil {
		return &DiskZoneError{CID: d.CID, Was: was, Now: w.Zone}
	}
	for _, n := range w.Named {
		if d := st.Named(n.Name); d != nil {
			return &DiskZoneError{CID: d.CID, As: n.Name, Was: was, Now: w.Zone}
		}
	}
	return nil
}

// NoSecondDiskError says that the plan needs a second disk, which this CPI
// cannot attach.
type NoSecondDiskError struct {
	Disk string
	When time.Time
}

func (e *NoSecondDiskError) Error() string {
	return fmt.Sprintf("disk %s cannot be changed: the CPI can neither change it nor attach a second disk to move the data to, as was found on %s; nothing was changed", e.Disk, e.When.UTC().Format("2006-01-02 15:04 UTC"))
}

func (e *NoSecondDiskError) Name() string { return "disk-second" }

func (e *NoSecondDiskError) Hint() string {
	return NextKeepDisk
}

// NextKeepDisk is what to do if no second disk can be attached; MANIFEST stands for the
// deployment's arguments.
const NextKeepDisk = `set size and cloud_properties of the persistent disk back to what they were, and run "bootstrap deploy MANIFEST": it goes on with the old disk; for an empty disk of the new size, remove the persistent disk from the manifest and deploy, which keeps the old one as an orphaned disk, then add it and deploy again; to attach a second disk again, deploy with another version of the CPI, or with --recreate-persistent-disks`

// MovedError says that a plan is out of date.
type MovedError struct {
	What string // what has changed
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("the plan is out of date: %s; nothing was changed; make a new plan", e.What)
}

func (e *MovedError) Name() string { return "plan-outdated" }

func (e *MovedError) ExitCode() failure.Code { return failure.Moved }

func (e *MovedError) Hint() string {
	return `"bootstrap plan MANIFEST --out FILE" makes a new plan; "bootstrap deploy MANIFEST" deploys without one`
}
