package deployer

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/state"
)

// records writes the result of a finished run to the state.
type records struct {
	*work
	cpi       *instance.CPI
	addresses *reservations
	jobs      *jobs
}

// clear records that no manifest is fully deployed, so that no tool skips the deploy
// after an interrupted one. It also records the zone of a VM to be created.
func (rs *records) clear(context.Context) error {
	return rs.rec.State.Update(func(st *state.State) error {
		st.CurrentManifestSHA = ""
		st.CurrentReleaseIDs = nil
		st.Releases = nil
		if rs.in != nil {
			st.Own.Zone = rs.in.Manifest.Zone()
		}
		return nil
	})
}

// deployment records the manifest and its releases as the current ones,
// in one write.
func (rs *records) deployment(ctx context.Context, s plan.Step) error {
	applied := maps.Clone(rs.want.Applied)
	if _, dynamic := rs.in.Manifest.Address(); dynamic {
		applied[plan.PartAddress] = plan.Digest(rs.journal.Salt(), plan.PartAddress, rs.address)
	}
	if rs.jobs.rendered.hash != "" {
		applied[plan.PartSpec] = plan.Digest(rs.journal.Salt(), plan.PartSpec, rs.jobs.rendered.hash)
	} else if hash := s.With.Applied; hash != "" {
		applied[plan.PartSpec] = plan.Digest(rs.journal.Salt(), plan.PartSpec, hash)
	}
	now, before := time.Now().UTC().Truncate(time.Second), rs.rec.State.Get()
	err := rs.rec.State.Update(func(st *state.State) error {
		st.CurrentManifestSHA = rs.want.Digest
		st.Releases, st.CurrentReleaseIDs = nil, nil
		for _, rel := range rs.want.Releases {
			rel.ID = uuid.NewString()
			st.Releases = append(st.Releases, rel)
			st.CurrentReleaseIDs = append(st.CurrentReleaseIDs, rel.ID)
		}
		st.Own.Salt, st.Own.Made, st.Own.Applied, st.Own.Tagged = rs.journal.Salt(), rs.want.Made, applied, ""
		if rs.jobs.rendered.hash != "" {
			st.Own.Processes = rs.jobs.rendered.processes
		}
		st.Own.Variables = rs.in.Manifest.Variables
		st.Own.Group, st.Own.Stopped, st.Own.Detached = rs.rec.About.Group, s.With.Stopped, false
		st.Own.Zone = rs.in.Manifest.Zone()
		if rs.in.Manifest.SharesNetworks() {
			st.Own.Ledger = rs.addresses.ledgers.SharedLedger()
		}
		if !rs.addresses.ledgers.InState() {
			st.Own.Addresses = nil // static_ips names the addresses, or a ledger has them.
		}
		st.Own.Deployed = &now
		if rs.address != "" {
			st.Own.Address = rs.address
		}
		// The agent of an adopted VM has answered, but that was not recorded.
		st.Own.Reached = true
		return nil
	})
	if err != nil {
		return err
	}
	if err := rs.jobs.keepApplied(before, s.With.Applies); err != nil {
		rs.rec.Out.Warning(err.Error() + "; deploy --previous cannot put this deploy back")
	}
	return rs.cpi.Remember(ctx)
}

// previous records the previous deploy, which was applied again, as the current one.
func (rs *records) previous(context.Context) error {
	a, now := rs.jobs.previous, time.Now().UTC().Truncate(time.Second)
	if err := rs.rec.State.Update(func(st *state.State) error {
		a.Record(st)
		st.Own.Deployed = &now
		return nil
	}); err != nil {
		return err
	}
	if rs.rec.Known.Name != "" {
		rs.rec.Known.Health = a.Health
		if err := rs.rec.Folder().SetDeployment(rs.rec.Known); err != nil {
			return fmt.Errorf("cannot record the health checks of the deployment: %w", err)
		}
	}
	if rs.jobs.rendered.archive == rs.rec.Folder().Rendered(kept.Current) {
		return nil
	}
	return rs.rec.Folder().SwapApplied()
}

func (rs *records) stopped(context.Context) error {
	return rs.rec.State.Update(func(st *state.State) error {
		st.Own.Stopped = true
		return nil
	})
}

func (rs *records) started(context.Context) error {
	return rs.rec.State.Update(func(st *state.State) error {
		st.Own.Stopped, st.Own.Detached = false, false
		return nil
	})
}
