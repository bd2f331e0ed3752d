package deployer

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
	"bootstrap/internal/wait"
	"bootstrap/state"
	"bootstrap/state/file"
)

// UnrecordedVMError says that the VM of this manifest seems to exist, though the
// state records none: the state file was lost, or is another one.
type UnrecordedVMError struct {
	Address string // of the agent that answers
	AgentID string // that it tells; may be empty
	State   string // path of the state file
	// Remedies are what brings the record back, the best first.
	Remedies []string
}

func (e *UnrecordedVMError) Error() string {
	who := "an agent"
	if e.AgentID != "" {
		who = "an agent (id " + e.AgentID + ")"
	}
	return fmt.Sprintf("%s answers at %s with this manifest's password and certificate, and the deployment state %s records no such VM: a deploy would make a second VM beside it; nothing was changed. To bring the record back:\n  %s\nIf that VM is not wanted any more, delete it in the cloud first",
		who, e.Address, e.State, strings.Join(e.Remedies, "\n  "))
}

// lacksVM tells whether there is no VM that the state records: a deploy makes
// one, whatever the plan says beside that.
func (r *run) lacksVM() bool {
	return r.state.Get().CurrentVMCID == "" || !r.facts.Answers && !r.facts.HasVM
}

// unrecordedTimeout is how long the agent of a VM that is not recorded may take
// to answer: it is there, or it is not.
const unrecordedTimeout = 3 * time.Second

// refuseUnrecorded keeps a deploy from making a second VM where the first one
// runs and nobody recorded it. An agent with other credentials is none of ours.
func (r *run) refuseUnrecorded(ctx context.Context) error {
	if !r.lacksVM() {
		return nil
	}
	client, err := r.newAgent(r.about.MBus, r.about.CA)
	if err != nil {
		return nil // the wait for the agent tells of it
	}
	defer client.Close()
	now, answers := r.unrecordedAgent(ctx, client)
	st := r.state.Get()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !answers:
		return nil
	}
	made := func(in state.Intent) bool {
		return in.Method == "create_vm" && (now.AgentID == "" || in.AgentID == now.AgentID)
	}
	if slices.ContainsFunc(st.Own.Intents, made) {
		return nil // a plan does not look what became of it
	}
	if slices.ContainsFunc(st.Own.Leftovers, func(l state.Leftover) bool { return made(l.Intent) }) {
		r.root.Warning(fmt.Sprintf("the agent (id %s) of a VM that an earlier run may have made answers at %s, where the new one will be waited for: `bootstrap state leftovers MANIFEST` lists it", now.AgentID, client.Address()))
		return nil
	}
	remedies, err := r.restores(client, now)
	switch {
	case err != nil:
		return err
	case st.CurrentVMCID == "":
		remedies = append(remedies, r.importing(ctx, client, now))
	case len(remedies) == 0:
		return nil // what is recorded as current would be in the way of an import
	}
	return &UnrecordedVMError{Address: client.Address(), AgentID: now.AgentID, State: r.statePath, Remedies: remedies}
}

// unrecordedAgent tells whether an agent takes the manifest's password and shows
// a certificate of its CA, and who it is. That of a VM which was deleted just now
// may answer for a moment more.
func (r *run) unrecordedAgent(ctx context.Context, client *agent.Client) (now agent.State, answers bool) {
	patience := ownPause
	if r.state.Found() {
		patience = existingAgentTimeout
	}
	until := time.Now().Add(min(patience, r.opts.AgentTimeout))
	for {
		limited, cancel := context.WithTimeout(ctx, unrecordedTimeout)
		err := client.Ping(limited)
		if err == nil {
			now, _ = client.GetState(limited, false) // a busy one does not tell who it is
		}
		cancel()
		if err != nil || !time.Now().Before(until) {
			return now, err == nil
		}
		if wait.For(ctx, ownPause) != nil {
			return now, false
		}
	}
}

// restores are the commands that bring back a backup which records the VM.
func (r *run) restores(client *agent.Client, now agent.State) ([]string, error) {
	versions, err := file.Versions(r.statePath)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, v := range versions {
		st := v.State
		if v.Err != nil || v.Present || st.CurrentVMCID == "" || ownAgent(client, now, st.Own.AgentID) != nil {
			continue
		}
		list = append(list, fmt.Sprintf("bootstrap state restore MANIFEST %d   (a backup of %s, which records %s)", v.Serial, report.Minute(v.Written), strings.Join(st.Owned(), ", ")))
	}
	return list, nil
}

// importing is the command that records the VM by what its agent tells and this
// machine remembers.
func (r *run) importing(ctx context.Context, client *agent.Client, now agent.State) string {
	limited, cancel := context.WithTimeout(ctx, unrecordedTimeout)
	defer cancel()
	in, why := state.Import{AgentID: now.AgentID}, "with the VM's CID, which its agent does not know"
	if cpi.CheckCID(now.VM.Name) == nil {
		in.VM, why = now.VM.Name, "as the VM's agent calls it; on some clouds that is not its CID"
	}
	if mounted, err := client.ListDisk(limited); err == nil && len(mounted) > 0 {
		in.Disk = mounted[0]
	}
	if kept, ok := file.Remembered(r.opts.Home, r.statePath, now.AgentID); ok {
		if in.Disk == "" || in.Disk == kept.Disk {
			in.Disk, in.DiskSize = kept.Disk, kept.DiskSize
		}
		in.VM, in.Stemcell, why = kept.VM, kept.Stemcell, "as this machine remembers it"
	}
	command, size := "bootstrap state import MANIFEST --vm-cid "+cmp.Or(in.VM, "CID"), ""
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
