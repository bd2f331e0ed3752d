package instance

import (
	"fmt"

	"bootstrap/deployer/kept"
)

// RecallSecondDisk returns what is recorded about attaching a second disk with
// this CPI; the zero value: nothing.
func (t *Instance) RecallSecondDisk() kept.SecondDisk {
	if t.Manifest == nil {
		return kept.SecondDisk{}
	}
	return t.Folder().SecondDisk(t.Artifacts.CPIReleases())
}

// KeepSecondDisk saves what is known about attaching a second disk; a failure is
// only a warning.
func (t *Instance) KeepSecondDisk(s kept.SecondDisk) {
	if err := t.Folder().SetSecondDisk(s); err != nil {
		t.Out.Warning(fmt.Sprintf("cannot save that the CPI cannot attach a second disk: %v", err))
	}
}

// CPIReleases returns the releases of the CPI, as name/version.
func (a *Artifacts) CPIReleases() []string {
	var list []string
	for _, t := range a.t.Manifest.CPI.Templates {
		if rel := a.Releases[t.Release]; rel != nil {
			list = append(list, rel.Name+"/"+rel.Version)
		}
	}
	return list
}

// LostToSecondDisk reports whether the VM went silent when a second disk was
// attached: a run may repair that without --fix.
func (t *Instance) LostToSecondDisk(vm string) bool {
	return vm != "" && t.RecallSecondDisk().Lost == vm
}

// foundAgain forgets that the VM was lost, because its agent answers.
func (t *Instance) foundAgain(vm string) {
	if now := t.RecallSecondDisk(); now.Lost == vm && vm != "" && t.Scratch == "" {
		now.Lost = ""
		t.KeepSecondDisk(now)
	}
}
