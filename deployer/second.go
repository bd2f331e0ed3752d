package deployer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/report"
	"bootstrap/internal/atomicfile"
	"bootstrap/state"
)

// secondDisk is what this machine remembers of a CPI that could not attach a
// second disk: the VM's agent did not come back. It is kept as second-disk.json
// in the folder of the installation, and holds for these CPI releases only.
type secondDisk struct {
	CPI  []string  `json:"cpi"` // releases, as name/version
	When time.Time `json:"when"`
	// New tells that it failed on a new VM, too: another VM does not help.
	New bool `json:"new_vm,omitempty"`
	// Lost is the CID of the VM whose agent has not been heard since. Its jobs
	// were stopped before.
	Lost string `json:"lost,omitempty"`
}

func (r *run) secondDiskFile() string { return filepath.Join(r.dir, "second-disk.json") }

// recallSecondDisk returns what is remembered, or the zero value: of another
// CPI nothing is known.
func (r *run) recallSecondDisk() secondDisk {
	data, err := os.ReadFile(r.secondDiskFile())
	var kept secondDisk
	if err != nil || json.Unmarshal(data, &kept) != nil || r.manifest == nil || !slices.Equal(kept.CPI, r.cpiReleases()) {
		return secondDisk{}
	}
	return kept
}

func (r *run) keepSecondDisk(kept secondDisk) {
	data, err := json.Marshal(kept)
	if err == nil {
		err = atomicfile.Write(r.secondDiskFile(), data)
	}
	if err != nil {
		r.root.Warning(fmt.Sprintf("it could not be kept that the CPI cannot attach a second disk: %v", err))
	}
}

// cpiReleases names the releases that the CPI is made of.
func (r *run) cpiReleases() []string {
	var list []string
	for _, t := range r.manifest.CPI.Templates {
		if rel := r.releases[t.Release]; rel != nil {
			list = append(list, rel.Name+"/"+rel.Version)
		}
	}
	return list
}

// lostToSecondDisk tells whether the VM went silent when a second disk was
// attached to it: the run before may repair that without being asked to.
func (r *run) lostToSecondDisk(vm string) bool {
	return vm != "" && r.recallSecondDisk().Lost == vm
}

// SecondDiskError says that a VM's agent did not come back after a second disk
// was attached, which a migration needs.
type SecondDiskError struct {
	VM       string
	Disk     string // the one with the data
	Detached bool   // the second disk was detached, and the agent answers again
	New      bool   // the VM was new: another one does not help
	Err      error
}

func (e *SecondDiskError) Error() string {
	text := fmt.Sprintf("the data of disk %s cannot be moved to a new disk: the agent of VM %s did not come back after attach_disk of a second disk: %v", e.Disk, e.VM, e.Err)
	if e.Detached {
		text += "; the second disk was detached again, and the agent answers"
	}
	return text + "; the data is as it was, and the jobs are stopped"
}

func (e *SecondDiskError) Unwrap() error { return e.Err }

// Next is what to do; MANIFEST stands for the deployment's arguments.
func (e *SecondDiskError) Next() string {
	if e.New {
		return NextKeepDisk
	}
	return `run "bootstrap deploy MANIFEST" again: it moves the data on a new VM`
}

// NextKeepDisk is what to do where no second disk can be attached; MANIFEST
// stands for the deployment's arguments.
const NextKeepDisk = `set size and cloud_properties of the persistent disk back to what they were, and run "bootstrap deploy MANIFEST"; with another version of the CPI, or with --recreate-persistent-disks, a second disk is tried again`

// attachSecond attaches the disk that data is moved to, beside the one that is
// mounted. If the agent does not survive that, the disk is taken away again.
func (r *run) attachSecond(ctx context.Context, old, d state.Disk) error {
	err := r.attachDisk(ctx, d)
	if err == nil {
		_ = os.Remove(r.secondDiskFile()) // it can
		return nil
	}
	if _, silent := errors.AsType[*agent.UnreachableError](err); !silent || ctx.Err() != nil {
		return err
	}
	vm := r.state.Get().CurrentVMCID
	kept := secondDisk{CPI: r.cpiReleases(), When: time.Now().UTC().Truncate(time.Second), New: r.plan.NewVM(), Lost: vm}
	r.keepSecondDisk(kept)
	failed := &SecondDiskError{VM: vm, Disk: old.CID, New: kept.New, Err: err}
	undone := r.do(fmt.Sprintf("Detaching disk '%s'", d.CID), func(s *report.Stage) error {
		c, err := r.cpi(ctx)
		if err != nil {
			return err
		}
		if err := c.DetachDisk(ctx, vm, d.CID); err != nil {
			return err
		}
		return r.awaitAgent(ctx, s, r.agent, min(rebootTimeout, r.opts.AgentTimeout), "detach_disk, for which some CPIs restart the VM")
	})
	if undone == nil {
		failed.Detached, kept.Lost = true, ""
		r.keepSecondDisk(kept)
	}
	return failed
}

// foundAgain takes back that the VM was lost, once its agent answers.
func (r *run) foundAgain(vm string) {
	if kept := r.recallSecondDisk(); kept.Lost == vm && vm != "" && r.scratch == "" {
		kept.Lost = ""
		r.keepSecondDisk(kept)
	}
}
