package deployer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/google/uuid"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// records writes the result of a finished run to the state.
type records struct {
	*work
	jobs *jobs
}

// clear records that no manifest is deployed as a whole, so that no tool
// skips the deploy after an interrupted one, and the zone of a VM to be made.
func (rec *records) clear(context.Context) error {
	return rec.t.State.Update(func(st *state.State) error {
		st.CurrentManifestSHA = ""
		st.CurrentReleaseIDs = nil
		st.Releases = nil
		if m := rec.t.Manifest; m != nil {
			st.Own.Zone = m.Zone()
		}
		return nil
	})
}

// deployment records the manifest and its releases as the current ones,
// in one write.
func (rec *records) deployment(ctx context.Context, s plan.Step) error {
	applied := maps.Clone(rec.want.Applied)
	if _, dynamic := rec.t.Manifest.Address(); dynamic {
		applied[plan.PartAddress] = plan.Digest(rec.journal.Salt(), plan.PartAddress, rec.address)
	}
	if rec.jobs.rendered.hash != "" {
		applied[plan.PartSpec] = plan.Digest(rec.journal.Salt(), plan.PartSpec, rec.jobs.rendered.hash)
	} else if hash := s.With.Applied; hash != "" {
		applied[plan.PartSpec] = plan.Digest(rec.journal.Salt(), plan.PartSpec, hash)
	}
	now, before := time.Now().UTC().Truncate(time.Second), rec.t.State.Get()
	err := rec.t.State.Update(func(st *state.State) error {
		st.CurrentManifestSHA = rec.want.Digest
		st.Releases, st.CurrentReleaseIDs = nil, nil
		for _, rel := range rec.want.Releases {
			rel.ID = uuid.NewString()
			st.Releases = append(st.Releases, rel)
			st.CurrentReleaseIDs = append(st.CurrentReleaseIDs, rel.ID)
		}
		st.Own.Salt, st.Own.Made, st.Own.Applied = rec.journal.Salt(), rec.want.Made, applied
		if rec.jobs.rendered.hash != "" {
			st.Own.Processes = rec.jobs.rendered.processes
		}
		st.Own.Variables = rec.t.Manifest.Variables
		st.Own.Group, st.Own.Stopped = rec.t.About.Group, s.With.Stopped
		st.Own.Zone = rec.t.Manifest.Zone()
		if rec.t.Manifest.SharesNetworks() {
			st.Own.Ledger = rec.t.Addresses.SharedLedger()
		}
		if !rec.t.Addresses.InState() {
			st.Own.Addresses = nil // static_ips names them, or a ledger has them
		}
		st.Own.Deployed = &now
		if rec.address != "" {
			st.Own.Address = rec.address
		}
		// An adopted VM has answered, but nothing recorded that.
		st.Own.Reached = true
		return nil
	})
	if err != nil {
		return err
	}
	if err := rec.jobs.keepApplied(before, s.With.Applies); err != nil {
		rec.t.Out.Warning(err.Error() + "; deploy --previous cannot put this deploy back")
	}
	return rec.t.CPI.Remember(ctx)
}

// previous records the deploy that was put back as the current one.
func (rec *records) previous(context.Context) error {
	a, now := rec.jobs.previous, time.Now().UTC().Truncate(time.Second)
	if err := rec.t.State.Update(func(st *state.State) error {
		a.Record(st)
		st.Own.Deployed = &now
		return nil
	}); err != nil {
		return err
	}
	if rec.t.Known.Name != "" {
		rec.t.Known.Health = a.Health
		if err := rec.t.Folder().SetDeployment(rec.t.Known); err != nil {
			return fmt.Errorf("cannot keep which health checks the deployment has: %w", err)
		}
	}
	if rec.jobs.rendered.archive == rec.t.Folder().Rendered(kept.Current) {
		return nil
	}
	return rec.t.Folder().SwapApplied()
}

func (rec *records) stopped(context.Context) error {
	return rec.t.State.Update(func(st *state.State) error {
		st.Own.Stopped = true
		return nil
	})
}

func (rec *records) started(context.Context) error {
	return rec.t.State.Update(func(st *state.State) error {
		st.Own.Stopped = false
		return nil
	})
}

// uninstall removes the installed CPI and the state file. It keeps both if there
// are orphans, which need them, or leftovers, which only the state file records.
func (rec *records) uninstall(ctx context.Context) error {
	// If the state file is kept, forget that `stop` was requested.
	if err := rec.started(ctx); err != nil {
		return err
	}
	if n := len(rec.t.State.Get().Own.Orphans); n > 0 {
		rec.t.Out.Info(fmt.Sprintf("%s kept: the state file and the installed CPI stay, for `bootstrap disks MANIFEST`", plan.Count(n, "disk")))
		return nil
	}
	if n := len(rec.t.State.Get().Own.Leftovers); n > 0 {
		rec.t.Out.Warning(fmt.Sprintf("%s of earlier runs may have left something in the cloud: the state file stays, for `bootstrap state leftovers MANIFEST`", plan.Count(n, "CPI call")))
		return nil
	}
	for _, c := range rec.t.State.Get().Own.Snapshots {
		rec.t.Out.Info(fmt.Sprintf("Snapshot '%s' of disk '%s' stays in the cloud without a record", c.CID, c.Disk))
	}
	return rec.t.Out.Do("Uninstalling local artifacts for CPI and deployment", func(*report.Stage) error {
		rec.t.CPI.CloseLog()
		if err := os.RemoveAll(rec.t.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the installed CPI: %w", err)
		}
		return rec.t.State.Remove()
	})
}

// uninstallRest removes the CPI and the state file if the state owns nothing any
// more.
func (rec *records) uninstallRest(ctx context.Context) error {
	st := rec.t.State.Get()
	st.Own.Snapshots = nil // no command deletes snapshots
	if len(st.Owned()) > 0 {
		return nil
	}
	return rec.uninstall(ctx)
}
