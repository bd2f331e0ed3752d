package team

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
)

// workersName is the document that says how many VMs compile packages. Their states are in
// the store, too, but a store cannot list its documents: without this one, only the machine
// of a killed run would find them. It belongs to the whole store.
const workersName = "compilation.json"

// MostWorkers limits the number of VMs.
const MostWorkers = 1000

// WorkerState returns how a store names the state of a compilation VM.
func WorkerState(n int) string { return InstanceState(fmt.Sprintf("compilation-%d", n)) }

// workerFolder is the folder of a compilation VM.
var workerFolder = regexp.MustCompile(`^` + deploymentFolder + `compilation-[0-9]{1,3}/$`)

// isWorker reports whether a folder has the state of a compilation VM, which goes with the
// VM and says nothing that others need.
func isWorker(folder string) bool { return workerFolder.MatchString(folder) }

// workersDocument is the content of the document.
type workersDocument struct {
	VMs int `json:"vms"`
}

// Workers returns of how many compilation VMs the store may have states: a run was
// killed, or runs.
func (c *Copy) Workers(ctx context.Context) (count int, err error) {
	if c == nil {
		return 0, nil
	}
	s := c.whole().Store
	d, err := s.load(ctx, workersName)
	if err != nil || d.Version == "" {
		return 0, err
	}
	var w workersDocument
	if err := json.Unmarshal(d.Data, &w); err != nil {
		return 0, fmt.Errorf("cannot read %s of %s: %w", workersName, s.place, err)
	}
	return w.VMs, nil
}

// SaveWorkers records how many VMs will compile packages. This run must hold the lock of the
// deployment.
func (c *Copy) SaveWorkers(ctx context.Context, count int) error {
	if c == nil {
		return nil
	}
	s := c.locked()
	d, err := s.raw(ctx, workersName)
	if err != nil {
		return err
	}
	data, err := json.Marshal(workersDocument{VMs: count})
	if err != nil {
		return err
	}
	_, err = s.save(ctx, workersName, data, d.Version)
	return err
}

// RemoveWorkers records that no VM compiles packages any more, if the store says otherwise.
// This run must hold the lock of the deployment.
func (c *Copy) RemoveWorkers(ctx context.Context) error {
	if c == nil {
		return nil
	}
	s := c.locked()
	d, err := s.raw(ctx, workersName)
	if err != nil || d.Version == "" {
		return err
	}
	return s.removeNow(ctx, workersName)
}
