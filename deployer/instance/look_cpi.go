package instance

import (
	"context"
	"fmt"
	"slices"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/failure"
	"bootstrap/manifest"
	"bootstrap/state"
)

// WhoIsThere returns the CID of the VM that the call in may have created. The agent at
// the manifest's address must have the agent id of the call, and the CPI must know a VM
// with the name that the agent reports. Otherwise doubt says what is not proven.
func (l *Look) WhoIsThere(ctx context.Context, in state.Intent) (cid, doubt string) {
	if l.rec.About.MBus == "" {
		return "", "the address of its agent is unknown"
	}
	mbus, ca := l.rec.About.MBus, l.rec.About.CA
	if how := l.agents.coming(in.AgentID); how != nil { // The manifest may have changed since the call.
		mbus, ca = how.MBus, how.CA
		l.rec.Env.Secret(mbus)
	}
	client, err := l.agents.New(mbus, ca)
	if err != nil {
		return "", err.Error()
	}
	var now agent.State
	err = l.rec.Out.Do("Looking for the agent of a VM that an earlier run may have made", func(*report.Stage) error {
		if err = client.WaitReady(ctx, min(ExistingAgentTimeout, l.rec.Env.AgentTimeout), nil); err == nil {
			now, err = client.GetState(ctx, false)
		}
		if err != nil {
			doubt = "no agent identifies itself at " + client.Address()
			return report.Skip("it does not answer: " + err.Error())
		}
		return nil
	})
	name := now.VM.Name
	switch {
	case err != nil || doubt != "":
		return "", doubt
	case now.AgentID != in.AgentID:
		return "", fmt.Sprintf("another agent (%s) answers at %s", now.AgentID, client.Address())
	case cpi.CheckCID(name) != nil:
		return "", "its agent answers, but does not report the name of the VM"
	}
	// On some clouds the name that the agent reports is not the CID.
	c, err := l.cpi.Client(ctx)
	if err != nil {
		return "", err.Error()
	}
	there, err := c.HasVM(ctx, name)
	switch {
	case err != nil:
		return "", fmt.Sprintf("its agent answers on VM %q, but the CPI cannot say whether that is its CID (%v)", name, err)
	case !there:
		return "", fmt.Sprintf("its agent answers on VM %q, but that is not its CID", name)
	}
	return name, ""
}

// ByCPI asks the CPI for facts that a plan needs and the agent did not report. want is the
// group of the manifest. First it settles the calls of an interrupted run; a plan only
// supposes their results.
// At the end it may reboot a VM with a silent agent.
func (l *Look) ByCPI(ctx context.Context, want manifest.InstanceGroup, settle func(context.Context) error) error {
	if l.AskedCPI = l.needsCPI(want); !l.AskedCPI {
		return nil
	}
	if err := settle(ctx); err != nil {
		return err
	}
	if err := l.askCPI(ctx, l.Facts.Answers); err != nil {
		return err
	}
	if l.rec.Scratch == "" && l.mayRevive() {
		return l.revive(ctx)
	}
	return nil
}

// ForDelete always asks the CPI for VM and disk: a CPI with wrong settings knows neither,
// and a missing disk would count as deleted.
func (l *Look) ForDelete(ctx context.Context) error { return l.askCPI(ctx, false) }

// askCPI asks the CPI whether VM and disk exist. seen is true if the VM certainly exists.
func (l *Look) askCPI(ctx context.Context, seen bool) error {
	st := l.rec.State.Get()
	if cid := st.CurrentVMCID; cid != "" && !seen {
		if err := l.ForVM(ctx, cid, true); err != nil {
			return err
		}
	}
	d := st.Disk()
	if d == nil || slices.Contains(l.Facts.Mounted, d.CID) {
		return nil
	}
	return l.ForDisk(ctx, d)
}

// ForVM asks the CPI whether the VM exists. If the agent answers, the VM exists: then a
// CPI without has_vm is an error only if its answer is needed.
func (l *Look) ForVM(ctx context.Context, cid string, needed bool) error {
	found := l.Facts
	err := l.rec.Out.Do(fmt.Sprintf("Looking for VM '%s'", cid), func(*report.Stage) error {
		c, err := l.cpi.Client(ctx)
		if err != nil {
			return err
		}
		exists, err := c.HasVM(ctx, cid)
		switch {
		case cpi.NotImplemented(err) && found.Answers && !needed:
			return report.Skip("not supported by the CPI")
		case err != nil:
			return err
		}
		found.HasVM = exists
		return nil
	})
	if err == nil && found.Answers && !found.HasVM {
		// VM and agent may be about to disappear.
		if err := l.Running.Ping(ctx); err != nil && ctx.Err() == nil {
			found.Answers, found.AgentErr = false, err
			l.Facts = found
			return nil
		}
		return failure.Named("cpi-elsewhere", fmt.Errorf("the CPI does not know VM %s, whose agent answers: the CPI looks in the wrong place (another account, region or home folder?); nothing was changed", cid))
	}
	l.Facts = found
	return err
}

// ForDisk asks the CPI whether the disk exists.
func (l *Look) ForDisk(ctx context.Context, d *state.Disk) error {
	return l.rec.Out.Do(fmt.Sprintf("Looking for disk '%s'", d.CID), func(*report.Stage) error {
		c, err := l.cpi.Client(ctx)
		if err != nil {
			return err
		}
		exists, err := c.HasDisk(ctx, d.CID)
		if cpi.NotImplemented(err) {
			l.Facts.DiskAsked = true
			return report.Skip("not supported by the CPI")
		}
		l.Facts.DiskGone, l.Facts.DiskAsked = err == nil && !exists, err == nil
		return err
	})
}

// needsCPI reports whether the CPI must be asked before a plan can be made. group is that
// of the manifest.
func (l *Look) needsCPI(group manifest.InstanceGroup) bool {
	st := l.rec.State.Get()
	disk, want := st.Disk(), group.Disk
	switch {
	case len(st.Own.Intents) > 0 || st.Own.Swap != nil:
		return true
	case st.CurrentVMCID == "":
		return disk != nil
	case !l.Facts.Answers:
		return true
	case disk == nil:
		return (want != nil || len(group.Disks) > 0) && l.cpi.EffectiveAPI() == 0
	}
	return !slices.Contains(l.Facts.Mounted, disk.CID) ||
		want == nil || len(plan.DiskReasons(*disk, *want)) > 0 && l.cpi.EffectiveAPI() == 0
}
