package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
)

// isSilent reports whether the VM has an agent that does not answer.
func (l *Look) isSilent() bool { return l.Running != nil && !l.Facts.Answers }

// mayRevive reports whether a silent VM may be rebooted before it is replaced.
func (l *Look) mayRevive() bool {
	st := l.rec.State.Get()
	return (l.Fix || l.cpi.LostToSecondDisk(st.CurrentVMCID)) && l.isSilent() && l.Facts.HasVM && (st.Own.Reached || st.Own.AgentID == "")
}

// ReviveDead reboots a VM if its agent is silent, but not if it is busy.
func (l *Look) ReviveDead(ctx context.Context) error {
	if !l.isSilent() || l.Facts.Busy() {
		return nil
	}
	if err := l.cpi.Prepare(ctx); err != nil {
		return err
	}
	if err := l.askCPI(ctx, false); err != nil {
		return err
	}
	if !l.isSilent() {
		return nil
	}
	return l.revive(ctx)
}

// revive reboots a VM with a silent agent, if the command asks for that: if the agent
// answers again, the jobs can be stopped in order.
func (l *Look) revive(ctx context.Context) error {
	cid := l.rec.State.Get().CurrentVMCID
	able := true
	err := l.rec.Out.Do(fmt.Sprintf("Rebooting VM '%s'", cid), func(*report.Stage) error {
		c, err := l.cpi.Client(ctx)
		if err != nil {
			return err
		}
		err = c.RebootVM(ctx, cid)
		switch {
		case cpi.NotImplemented(err) || cpi.NotSupported(err):
			able = false
			return report.Skip("not supported by the CPI")
		case err != nil:
			return report.Skip("failed: " + err.Error())
		}
		return nil
	})
	if err != nil || ctx.Err() != nil || !able {
		return errors.Join(err, ctx.Err())
	}
	l.Rebooted = cid
	return l.rec.Out.Do(fmt.Sprintf("Waiting for the agent on VM '%s'", cid), func(s *report.Stage) error {
		waiting := s.Wait(ctx)
		defer waiting.End()
		waiting.Say("the agent does not answer yet after the reboot")
		// If the agent was about to restart with other settings, the reboot may have
		// applied them.
		client, found, err := l.agents.Find(ctx, l.agents.Recall(cid), min(RebootTimeout, l.rec.Env.AgentTimeout), l.rec.State.Get().DirectorID)
		var facts plan.Facts
		if err == nil {
			waiting.End()
			l.Running = client
			facts, err = l.ask(ctx, s, client, l.rec.State.Get().Own.AgentID)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			l.Facts.AgentErr = err
			return report.Skip(noAnswer(err))
		}
		facts.Reached, facts.Served = found, servedBy(ctx, client)
		facts.DiskGone, facts.DiskAsked = l.Facts.DiskGone, l.Facts.DiskAsked
		l.Facts = facts
		return l.agents.keepAccess(cid, found)
	})
}

// RebootTimeout is how long an agent may take to answer after its VM was
// rebooted.
const RebootTimeout = 2 * time.Minute
