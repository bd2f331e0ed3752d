package deploy

import (
	"context"
	"fmt"
	"time"

	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/internal/wait"
)

// continueRecreate makes a recreate the run of the record. If the last one was the same and
// did not end well, the options leave out the VMs that it has created.
func (s *several) continueRecreate(opts *deployer.Options, old *record.Record) {
	if !opts.Recreate || !opts.CreatedBefore.IsZero() {
		return
	}
	selected := s.only
	if s.failed {
		selected += " --only failed"
	}
	// States have the time at which a VM was created in whole seconds.
	next := time.Now().UTC().Truncate(time.Second).Add(time.Second)
	if old.Continue("recreate", selected, next) {
		opts.CreatedBefore = old.Run.Begun
		opts.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: fmt.Sprintf("The recreate of %s that did not end well is continued: VMs that were created since then stay", report.Minute(old.Run.Begun))})
	}
	s.recreates = old.Run
}

// beginRecreate waits until each VM that exists is older than the recreate, and makes the
// options those of a run that replaces no VM twice.
func (s *several) beginRecreate(ctx context.Context, opts *deployer.Options, all *record.Record) error {
	if s.recreates == nil {
		return nil
	}
	all.Run = s.recreates
	opts.CreatedBefore = s.recreates.Begun
	return wait.For(ctx, time.Until(s.recreates.Begun))
}

// forgetRun removes an earlier run from the record in a folder: there is nothing left to
// do of it.
func forgetRun(opts deployer.Options, dir string) error {
	all, err := opts.LoadRecord(dir)
	if err != nil || all.Run == nil {
		return err
	}
	all.Run = nil
	return all.Save()
}
