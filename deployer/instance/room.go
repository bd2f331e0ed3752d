package instance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bootstrap/deployer/plan"
	"bootstrap/internal/failure"
)

// Free space that a deploy needs after it has stopped the running VM.
const (
	roomForState = 256 << 10 // for the state file, which is rewritten several times
	roomForRun   = 16 << 20  // for replies of the CPI, logs and the record of the applied jobs
	roomForTemp  = 1 << 20   // for temporary files of the CPI's programs
)

// CheckRoom checks that there is space for all files that are written after the running
// VM was stopped. forVM is the least size of a new VM, in bytes.
func (h *Host) CheckRoom(forVM uint64) error {
	var errs []error
	for _, f := range []struct {
		dir, what string
		need      uint64
	}{
		{filepath.Dir(h.in.StatePath), "the state file", roomForState},
		{h.in.Env.Home, "the folder of the deployment", roomForRun},
		{h.in.Env.TempDir(), "temporary files", roomForTemp},
		{h.in.localRoot(), "the new VM", forVM},
	} {
		dir := Nearest(f.dir)
		free, _, err := FileSystem(dir)
		if err == nil && free < f.need {
			errs = append(errs, failure.Named("disk-full", fmt.Errorf("the file system of %s has %s free and %s needs %s: make room (bootstrap cache prune --all frees what can be fetched again); nothing was changed", dir, mebibytes(free), f.what, mebibytes(f.need))))
		}
	}
	return errors.Join(errs...)
}

// localRoot returns the folder of the VMs on this machine.
func (in *Inputs) localRoot() string {
	root, _ := plan.LookUp(in.Manifest.CPI.Properties, "local_cpi.root")
	if dir, _ := root.(string); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(in.Env.Home, "local")
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Nearest returns dir, or the nearest existing folder above it.
func Nearest(dir string) string {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// TempDir returns the folder for temporary files.
func (e *Env) TempDir() string {
	if dir := e.Getenv("TMPDIR"); dir != "" {
		return dir
	}
	return os.TempDir()
}
