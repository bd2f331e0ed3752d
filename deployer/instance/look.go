package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/state"
)

// Look has the facts about a deployment: from its agent and, if a plan needs more, from
// the CPI.
type Look struct {
	rec       *Record
	agents    *Agents
	cpi       *CPI
	addresses *Addresses

	Fix bool // true: reboot a VM with a silent agent, and wait only shortly for a busy agent

	Facts    plan.Facts
	Running  *agent.Client // client of the existing VM; nil: there is none
	Swapped  *agent.Client // client of the VM that is replaced; nil: it does not answer
	AskedCPI bool          // the CPI was asked
	Rebooted string        // CID of the VM that was rebooted; empty: none
}

// NewLook returns a look at a deployment whose state is open.
func NewLook(t *Instance, fix bool) *Look {
	return &Look{rec: t.Record, agents: t.Agents, cpi: t.CPI, addresses: t.Addresses, Fix: fix}
}

// AgentDiffers lists settings of the agent that differ from the manifest: the record may
// be wrong, or another machine may have changed them.
func (l *Look) AgentDiffers(m *manifest.Manifest) []string {
	if !l.Facts.Answers {
		return nil
	}
	var list []string
	if leaf := WantedLeaf(m); leaf != nil && l.Facts.Served != nil && !leaf.Equal(l.Facts.Served) {
		list = append(list, plan.PartCertificate)
	}
	if l.Facts.Reached.MBus != "" && l.Facts.Reached.User() != l.agents.Wanted().User() {
		list = append(list, plan.PartPassword)
	}
	return list
}

// AddressIn returns the address in the network of the default gateway, or in
// the only network.
func AddressIn(nets map[string]map[string]any) string {
	for _, n := range nets {
		ip, _ := n["ip"].(string)
		defaults, _ := n["default"].([]any)
		if len(nets) == 1 {
			return ip
		}
		for _, d := range defaults {
			if d == "gateway" {
				return ip
			}
		}
	}
	return ""
}

// recordAccess records how the VM's agent was reached, if the run that created the VM was
// killed before it could. A plan records nothing.
func (l *Look) recordAccess(vm string) {
	if was, ok := l.rec.Folder().Agent(); l.rec.Scratch != "" || !l.Facts.Answers || ok && was.VM == vm {
		return
	}
	now := l.agents.Recall(vm)
	if found := l.Facts.Reached; found.MBus != "" {
		now.MBus, now.CA = found.MBus, found.CA
	}
	if old := l.rec.State.Get().Own.Swap; old != nil {
		was := l.agents.Recall(old.CID)
		was.Old = nil
		now.Old = &was
	}
	if err := l.agents.Keep(now); err != nil {
		l.rec.Out.Warning(fmt.Sprintf("cannot record how the agent of VM %s is reached; a later change of its address, certificate or password will need --old-mbus and --old-ca: %v", vm, err))
	}
}

// ExistingAgentTimeout is how long the agent of an existing VM may take to answer;
// create-env also waits 10 s.
const ExistingAgentTimeout = 10 * time.Second

// goneAgentTimeout is the limit for a VM whose deletion has begun.
const goneAgentTimeout = 3 * time.Second

// answerTime returns how long the agent of a VM may take to answer.
func (l *Look) answerTime(vm string) time.Duration {
	limit := ExistingAgentTimeout
	if l.rec.State != nil && slices.ContainsFunc(l.rec.State.Get().Own.Intents, func(in state.Intent) bool { return in.CID == vm }) {
		limit = goneAgentTimeout
	}
	return min(limit, l.rec.Env.AgentTimeout)
}

// AtAgent asks the agent of the recorded VM, if there is one, for its state.
func (l *Look) AtAgent(ctx context.Context) error {
	st := l.rec.State.Get()
	l.Facts, l.Running, l.addresses.seen = plan.Facts{}, nil, nil
	vm := st.CurrentVMCID
	if vm == "" {
		return nil
	}
	var err error
	if l.Running, l.Facts, err = l.askAgentOf(ctx, vm, st.Own.AgentID); err != nil {
		return err
	}
	l.addresses.seen = l.Facts.Now.Networks
	l.recordAccess(vm)
	if l.Facts.Answers && l.rec.Scratch == "" {
		l.cpi.foundAgain(vm)
		if err := l.settleDisk(); err != nil {
			return err
		}
	}
	old := st.Own.Swap
	if old == nil {
		return nil
	}
	client, found, err := l.askAgentOf(ctx, old.CID, old.AgentID)
	l.Swapped = nil
	if l.Facts.OldAnswers = found.Answers; found.Answers {
		l.Swapped = client
	}
	return err
}

// settleDisk makes the mounted disk the current one, if an earlier run was killed before
// it could.
func (l *Look) settleDisk() error {
	now, changed := plan.Settled(l.rec.State.Get(), l.Facts)
	if !changed {
		return nil
	}
	l.rec.Out.Info(fmt.Sprintf("An earlier run was interrupted after disk '%s' had been mounted", plan.CurrentDisk(now)))
	return l.rec.State.Update(func(st *state.State) error {
		st.CurrentDiskID = now.CurrentDiskID
		return nil
	})
}

// askAgentOf asks the agent of a VM for its state. If agentID is known, the agent of
// another VM is refused. It returns the client that the agent answers, or the likeliest
// one.
func (l *Look) askAgentOf(ctx context.Context, vm, agentID string) (*agent.Client, plan.Facts, error) {
	how := l.agents.Recall(vm)
	limit := l.answerTime(vm)
	var client *agent.Client
	var facts plan.Facts
	err := l.rec.Out.Do(fmt.Sprintf("Waiting for the agent on VM '%s'", vm), func(s *report.Stage) error {
		waiting := s.Wait(ctx)
		defer waiting.End()
		waiting.Say("the agent does not answer yet")
		var found agent.Access
		var err error
		for others := len(l.agents.accesses(how)) - 1; ; others-- {
			client, found, err = l.agents.Find(ctx, how, limit, l.rec.State.Get().DirectorID)
			if client == nil {
				return err
			}
			if err != nil {
				break
			}
			waiting.End() // The method ask reports its own waits.
			// An agent may have just answered before it restarts with other settings.
			if facts, err = l.ask(ctx, s, client, agentID); !unreachable(err) || others <= 0 {
				break
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			facts = plan.Facts{AgentErr: err}
			return report.Skip(noAnswer(err))
		}
		facts.Reached, facts.Served = found, servedBy(ctx, client)
		return l.agents.keepAccess(vm, found)
	})
	return client, facts, err
}

// noAnswer says why the agent cannot be used.
func noAnswer(err error) string {
	_, busy := errors.AsType[*agent.BusyError](err)
	_, foreign := errors.AsType[*ForeignAgentError](err)
	if busy || foreign {
		return err.Error()
	}
	if _, answered := errors.AsType[*agent.Error](err); answered {
		return "it answers with an error: " + err.Error()
	}
	return "it does not answer: " + err.Error()
}

// busyFixTime is how long a run with --fix waits for a busy agent before it
// treats the agent as silent.
const busyFixTime = 30 * time.Second

// registryTime is how long an agent with a registry may take to list its disks: it tries
// for 10 s or more if no registry is served.
const registryTime = time.Minute

// busyTime returns how long an agent may continue with a task of an earlier run.
func (l *Look) busyTime() time.Duration {
	limit := l.rec.Env.AgentTimeout
	if l.Fix {
		limit = min(busyFixTime, limit)
	}
	if l.rec.About.Registry != nil {
		limit = max(registryTime, limit)
	}
	return limit
}

// busyWith says why an agent that answers has not listed its disks yet.
func (l *Look) busyWith(limit time.Duration) string {
	if l.rec.About.Registry != nil {
		return fmt.Sprintf("the agent looks for its registry, which is only served while a VM is created, or is busy with a task of an earlier run; waiting up to %s for its end", limit.Round(time.Second))
	}
	return fmt.Sprintf("the agent is busy with a task of an earlier run; waiting up to %s for its end", limit.Round(time.Second))
}

// ask asks the agent for its state and disks.
func (l *Look) ask(ctx context.Context, s *report.Stage, client *agent.Client, agentID string) (plan.Facts, error) {
	now, err := client.GetState(ctx, false)
	if err != nil {
		return plan.Facts{}, err
	}
	at := time.Now()
	if err := OwnAgent(client, now, agentID); err != nil {
		return plan.Facts{}, err
	}
	limit := l.busyTime()
	waiting := s.Wait(ctx)
	defer waiting.End()
	waiting.Say(l.busyWith(limit))
	mounted, err := client.ListDiskInTurn(ctx, limit)
	if err != nil {
		return plan.Facts{}, err
	}
	return plan.Facts{Answers: true, HasVM: true, Now: now, At: at, Mounted: mounted}, nil
}

// OwnAgent returns an error if the agent that answered has another agent id than the VM
// was created with. Unknown ids are accepted.
func OwnAgent(client *agent.Client, now agent.State, agentID string) error {
	if agentID == "" || now.AgentID == "" || now.AgentID == agentID {
		return nil
	}
	return &ForeignAgentError{Address: client.Address(), Got: now.AgentID, Want: agentID}
}

// KnownAddress returns the VM's address on a dynamic network, from the last deploy's
// record or from the agent; empty: unknown.
func (l *Look) KnownAddress() string {
	return cmp.Or(l.rec.State.Get().Own.Address, AddressIn(l.Facts.Now.Networks))
}

// Again asks a running agent for its state again.
func (l *Look) Again(ctx context.Context) error {
	if l.Running == nil || !l.Facts.Answers {
		return nil
	}
	now, err := l.Running.GetState(ctx, false)
	if err != nil {
		return &plan.MovedError{What: fmt.Sprintf("the agent does not answer any more: %v", err)}
	}
	l.Facts.Now, l.Facts.At = now, time.Now()
	l.Facts.Mounted, err = l.Running.ListDisk(ctx)
	return err
}

// ForeignAgentError says that the agent of another VM answered.
type ForeignAgentError struct {
	Address   string // host:port
	Got, Want string // agent ids
}

func (e *ForeignAgentError) Error() string {
	return fmt.Sprintf("another VM's agent answers at %s (agent id %s, not %s)", e.Address, e.Got, e.Want)
}

func (e *ForeignAgentError) Name() string { return "agent-foreign" }
