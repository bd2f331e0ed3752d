package instance

import (
	"fmt"

	"bootstrap/deployer/kept"
)

// RecallSecondDisk returns the record about attaching a second disk with this CPI; zero:
// there is none.
func (c *CPI) RecallSecondDisk() kept.SecondDisk {
	if c.artifacts == nil {
		return kept.SecondDisk{}
	}
	return c.rec.Folder().SecondDisk(c.artifacts.CPIReleases())
}

// KeepSecondDisk saves the record about attaching a second disk; a failure is only a
// warning.
func (c *CPI) KeepSecondDisk(s kept.SecondDisk) {
	if err := c.rec.Folder().SetSecondDisk(s); err != nil {
		c.rec.Out.Warning(fmt.Sprintf("cannot save that the CPI cannot attach a second disk: %v", err))
	}
}

// CPIReleases returns the releases of the CPI, as name/version.
func (a *Artifacts) CPIReleases() []string {
	var list []string
	for _, ref := range a.Manifest.CPI.Templates {
		if rel := a.Releases[ref.Release]; rel != nil {
			list = append(list, rel.Name+"/"+rel.Version)
		}
	}
	return list
}

// LostToSecondDisk reports whether the agent stopped answering when a second disk was
// attached: a run may repair that without --fix.
func (c *CPI) LostToSecondDisk(vm string) bool {
	return vm != "" && c.RecallSecondDisk().Lost == vm
}

// foundAgain removes that record, because the VM's agent answers.
func (c *CPI) foundAgain(vm string) {
	if now := c.RecallSecondDisk(); now.Lost == vm && vm != "" && c.rec.Scratch == "" {
		now.Lost = ""
		c.KeepSecondDisk(now)
	}
}
