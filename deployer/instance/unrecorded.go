package instance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/deployer/report"
	"bootstrap/internal/failure"
	"bootstrap/internal/wait"
	"bootstrap/state"
	"bootstrap/state/file"
)

// UnrecordedVMError says that a VM of this manifest seems to exist although the state
// records none: the state file was lost, or is the wrong one.
type UnrecordedVMError struct {
	Address string // address of the agent that answers
	AgentID string // id in the agent's answer; may be empty
	State   string // path of the state file
	// Remedies are commands that record the VM again, the best one first.
	Remedies []string
}

func (e *UnrecordedVMError) Error() string {
	who := "an agent"
	if e.AgentID != "" {
		who = "an agent (id " + e.AgentID + ")"
	}
	return fmt.Sprintf("%s answers at %s with this manifest's password and certificate, and the deployment state %s records no such VM: a deploy would create a second VM beside it; nothing was changed. To record the VM again:\n  %s\nIf that VM is not wanted any more, delete it in the cloud first",
		who, e.Address, e.State, strings.Join(e.Remedies, "\n  "))
}

func (e *UnrecordedVMError) Name() string { return "vm-unrecorded" }

func (e *UnrecordedVMError) ExitCode() failure.Code { return failure.NoState }

// lacksVM reports whether no VM is recorded, or the recorded one does not exist: then a
// deploy creates one.
func (l *Look) lacksVM() bool {
	return l.rec.State.Get().CurrentVMCID == "" || !l.Facts.Answers && !l.Facts.HasVM
}

// unrecordedTimeout is how long the agent of an unrecorded VM may take to answer. A
// running agent answers at once.
const unrecordedTimeout = 3 * time.Second

// RefuseUnrecorded refuses to create a VM if an unrecorded one is running, or if the state
// that recorded it was lost. An agent with other credentials belongs to another deployment.
func (l *Look) RefuseUnrecorded(ctx context.Context, host *Host) error {
	if !l.lacksVM() {
		return nil
	}
	if l.rec.From.OfAll {
		return nil // The run of all instances has asked before. An address without a VM may take all of the time.
	}
	if l.rec.From.Of != nil {
		if err := l.RefuseLost(ctx); err != nil {
			return err
		}
	}
	if host.NewNetwork(ctx).Own {
		return l.RefuseLost(ctx) // The agent listens inside of the VM's own network, and the CPI refuses an address in use.
	}
	client, err := l.agents.New(l.rec.About.MBus, l.rec.About.CA)
	if err != nil {
		return nil // The wait for the agent reports a better error.
	}
	defer client.Close()
	now, answers := l.unrecordedAgent(ctx, client)
	st := l.rec.State.Get()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !answers:
		return l.RefuseLost(ctx)
	}
	made := func(in state.Intent) bool {
		return in.Method == "create_vm" && (now.AgentID == "" || in.AgentID == now.AgentID)
	}
	deletes := func(in state.Intent) bool { return in.Method == "delete_vm" }
	if slices.ContainsFunc(st.Own.Intents, made) || slices.ContainsFunc(st.Own.Intents, deletes) {
		return nil // The CPI still runs: a deploy waits for it, and a plan does not.
	}
	if slices.ContainsFunc(st.Own.Leftovers, func(l state.Leftover) bool { return made(l.Intent) }) {
		l.rec.Out.Warning(fmt.Sprintf("the agent (id %s) of a VM that an earlier run may have made answers at %s, where the agent of the new VM is expected: `bootstrap state leftovers MANIFEST` lists it", now.AgentID, client.Address()))
		return nil
	}
	remedies, err := l.restores(client, now)
	switch {
	case err != nil:
		return err
	case st.CurrentVMCID == "":
		remedies = append(remedies, l.importing(ctx, client, now))
	case len(remedies) == 0:
		return nil // state import works only if the state has no current VM.
	}
	return &UnrecordedVMError{Address: client.Address(), AgentID: now.AgentID, State: l.rec.From.StateName(l.rec.StatePath), Remedies: remedies}
}

// unrecordedAgent returns the state of an agent that accepts the manifest's password and
// serves a certificate of its CA. It waits a moment, because the agent of a VM that was
// just deleted may still answer.
func (l *Look) unrecordedAgent(ctx context.Context, client *agent.Client) (now agent.State, answers bool) {
	patience := OwnPause
	if l.rec.State.Found() {
		patience = ExistingAgentTimeout
	}
	until := time.Now().Add(min(patience, l.rec.Env.AgentTimeout))
	for {
		limited, cancel := context.WithTimeout(ctx, unrecordedTimeout)
		err := client.Ping(limited)
		if err == nil {
			now, _ = client.GetState(limited, false) // A busy agent does not return its id.
		}
		cancel()
		if err != nil || !time.Now().Before(until) {
			return now, err == nil
		}
		if wait.For(ctx, OwnPause) != nil {
			return now, false
		}
	}
}

// restores returns the commands that restore backups in which the VM is recorded.
func (l *Look) restores(client *agent.Client, now agent.State) ([]string, error) {
	versions, err := file.Versions(l.rec.StatePath)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, v := range versions {
		st := v.State
		if v.Err != nil || v.Present || st.CurrentVMCID == "" || OwnAgent(client, now, st.Own.AgentID) != nil {
			continue
		}
		list = append(list, fmt.Sprintf("bootstrap state restore MANIFEST%s %d   (a backup of %s, which records %s)", l.ofInstance(), v.Serial, report.Minute(v.Written), strings.Join(st.Owned(), ", ")))
	}
	return list, nil
}

// importing returns the command that records the VM, with the values from its agent and
// from this machine's record.
func (l *Look) importing(ctx context.Context, client *agent.Client, now agent.State) string {
	limited, cancel := context.WithTimeout(ctx, unrecordedTimeout)
	defer cancel()
	in, why := state.Import{AgentID: now.AgentID}, "with the VM's CID, which its agent does not know"
	if cpi.CheckCID(now.VM.Name) == nil {
		in.VM, why = now.VM.Name, "the agent's name of the VM; on some clouds that is not its CID"
	}
	if mounted, err := client.ListDisk(limited); err == nil && len(mounted) > 0 {
		in.Disk = mounted[0]
	}
	if kept, ok := file.Remembered(l.rec.Env.Home, l.rec.StatePath, now.AgentID); ok {
		if in.Disk == "" || in.Disk == kept.Disk {
			in.Disk, in.DiskSize = kept.Disk, kept.DiskSize
		}
		in.VM, in.Stemcell, why = kept.VM, kept.Stemcell, "as this machine remembers it"
	}
	command, size := "bootstrap state import MANIFEST"+l.ofInstance()+" --vm-cid "+cmp.Or(in.VM, "CID"), ""
	if in.DiskSize > 0 {
		size = strconv.Itoa(in.DiskSize)
	}
	for _, flag := range [][2]string{
		{"--agent-id", in.AgentID}, {"--disk-cid", in.Disk}, {"--disk-size", size},
		{"--stemcell-cid", in.Stemcell.CID}, {"--stemcell-name", in.Stemcell.Name}, {"--stemcell-version", in.Stemcell.Version},
	} {
		if flag[1] != "" {
			command += " " + flag[0] + " " + flag[1]
		}
	}
	return command + "   (" + why + "; then deploy with --adopt-vm, or the VM is replaced, because what it was made from is unknown)"
}

// OwnPause is the pause before a just deleted agent is asked for its id again.
const OwnPause = time.Second
