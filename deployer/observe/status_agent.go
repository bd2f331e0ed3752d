package observe

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"bootstrap/agent"
	"bootstrap/deployer/health"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/failure"
	"bootstrap/state"
)

// SeenAgent is the agent's answer.
type SeenAgent struct {
	Address string `json:"address"` // host:port
	Answers bool   `json:"answers"`
	Cause   string `json:"cause,omitempty"` // why it does not answer
	Error   string `json:"error,omitempty"` // the cause in detail
	Hint    string `json:"hint,omitempty"`  // what to do
}

// LoginRefused reports whether the agent answers, but does not accept user and password.
func (a *SeenAgent) LoginRefused() bool { return a.Cause == string(agent.Unauthorized) }

// SeenProcess is one supervised process of the jobs.
type SeenProcess struct {
	Name    string  `json:"name"`
	State   string  `json:"state"`
	Uptime  int     `json:"uptime_seconds"`
	CPU     float64 `json:"cpu_percent"`
	Memory  int     `json:"memory_kib"`
	Percent float64 `json:"memory_percent"`
}

// SeenHealth is a check of the service, tried once.
type SeenHealth struct {
	Check string `json:"check"`
	Well  bool   `json:"well"`
	Error string `json:"error,omitempty"`
}

// addHealth tries the health checks of a service that was not stopped on purpose. It uses
// the address of the last deploy, unless the VM has another one. The error is only that
// of ctx.
func (o *observer) addHealth(ctx context.Context, c *Condition, recorded []SeenAddress) error {
	address := ""
	for _, a := range append(recorded, c.Addresses...) {
		if slices.ContainsFunc(c.Addresses, func(has SeenAddress) bool { return has.IP == a.IP }) {
			address = a.IP
			break
		}
	}
	from := o.Agents.HealthFrom(address)
	for _, check := range o.About.Health {
		if c.Stopped {
			return nil
		}
		seen := SeenHealth{Check: health.Name(check), Well: true}
		if err := health.Once(ctx, check, from); err != nil {
			if ctx.Err() != nil {
				return &report.InterruptedError{Row: "check health"}
			}
			seen.Well, seen.Error = false, err.Error()
			c.problem("the health check %s fails: %v", seen.Check, err)
		}
		c.Health = append(c.Health, seen)
	}
	return nil
}

// SeenAddress is an address of the instance.
type SeenAddress struct {
	Network string `json:"network,omitempty"` // empty: the address is from the state file
	IP      string `json:"ip"`
}

// Vitals are the figures that the agent reports about the VM, in its structure, as
// numbers.
type Vitals struct {
	Load []Figure `json:"load,omitempty"` // of 1, 5 and 15 minutes
	CPU  struct {
		User Figure `json:"user,omitzero"` // in percent, like the next ones
		Sys  Figure `json:"sys,omitzero"`
		Wait Figure `json:"wait,omitzero"`
	} `json:"cpu"`
	Memory MemoryUse           `json:"mem"`
	Swap   MemoryUse           `json:"swap"`
	Disks  map[string]DiskFull `json:"disk,omitempty"` // system, ephemeral, persistent
	Uptime struct {
		Seconds Figure `json:"secs,omitzero"`
	} `json:"uptime"`
}

// MemoryUse is the used memory.
type MemoryUse struct {
	KB      Figure `json:"kb,omitzero"`
	Percent Figure `json:"percent,omitzero"`
}

// DiskFull is the used part of a disk.
type DiskFull struct {
	Percent Figure `json:"percent,omitzero"`
	Inodes  Figure `json:"inode_percent,omitzero"`
}

// Figure is a number that the agent sends as a string or as a number.
type Figure struct {
	Value *float64 // nil: not reported
}

// Known reports whether the agent reported the figure.
func (f Figure) Known() bool { return f.Value != nil }

// IsZero makes encoding/json leave out unknown figures.
func (f Figure) IsZero() bool { return f.Value == nil }

// String returns the figure with as many digits as it needs.
func (f Figure) String() string {
	if f.Value == nil {
		return "-"
	}
	return strconv.FormatFloat(*f.Value, 'f', -1, 64)
}

// MarshalJSON writes a number.
func (f Figure) MarshalJSON() ([]byte, error) { return json.Marshal(f.Value) }

// UnmarshalJSON accepts strings and numbers; anything else leaves the figure
// unknown.
func (f *Figure) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
		f.Value = &n
	}
	return nil
}

// fullFrom is the percentage from which a note is added for a disk.
const fullFrom = 90

// askAgent asks the agent of the VM for its state. A silent agent is reported as a
// problem; the error is only that of ctx.
func (o *observer) askAgent(ctx context.Context, c *Condition, how *kept.Agent, st state.State) (agent.Peer, error) {
	director := st.DirectorID
	if how.MBus == "" {
		if locked, ok := errors.AsType[*failure.Error](o.unread); ok && locked.Name() == "identity-missing" {
			c.problem("Cannot reach the agent of VM %s: your key cannot open the vars store. Ask a colleague to run: bootstrap secrets rekey --add RECIPIENT, with the recipient that bootstrap secrets init prints for you", c.VM.CID)
			return agent.Peer{}, nil
		}
		c.problem("this machine does not know how to reach the agent of VM %s: name the manifest, or give --old-mbus and --old-ca", c.VM.CID)
		return agent.Peer{}, nil
	}
	err := o.Env.OpenRoute(ctx)
	var client *agent.Client
	if err == nil {
		o.Agents.Settle(ctx, how, director)
		client, err = o.Agents.At(how.MBus, how.CA, director)
	}
	if ctx.Err() != nil {
		return agent.Peer{}, &report.InterruptedError{Row: "ask agent"}
	}
	if err != nil {
		c.problem("the agent of VM %s cannot be asked: %v", c.VM.CID, err)
		return agent.Peer{}, nil
	}
	defer client.Close()
	if client.Unverified() {
		c.note("the agent's certificate is not checked, because no CA is known: any server at its address is accepted as the agent")
	}
	now, seen, err := o.meetAgent(ctx, client)
	if err != nil {
		return agent.Peer{}, err
	}
	c.Agent = seen
	if seen.Answers {
		recorded := slices.Clone(c.Addresses)
		c.addState(now, st)
		c.addMounts(ctx, client)
		if err := o.addHealth(ctx, c, recorded); err != nil {
			return agent.Peer{}, err
		}
	} else {
		c.problem("%s", seen.Error)
	}
	if !showsCertificate(seen) {
		return agent.Peer{}, nil
	}
	peer, err := client.Peer(ctx)
	if err != nil && ctx.Err() != nil {
		return peer, &report.InterruptedError{Row: "ask agent"}
	}
	return peer, nil
}

// showsCertificate reports whether a server answered in spite of the error.
func showsCertificate(seen *SeenAgent) bool {
	switch agent.Cause(seen.Cause) {
	case agent.CertificateExpired, agent.CertificateNotYet, agent.CertificateName, agent.CertificateUnknown, agent.CertificateUnsuitable,
		agent.Unauthorized, agent.Status, agent.NotAnAgent:
		return true
	}
	return seen.Answers
}

// meetAgent waits for the agent for a short time, and asks for its state.
func (o *observer) meetAgent(ctx context.Context, client *agent.Client) (agent.State, *SeenAgent, error) {
	var now agent.State
	seen := &SeenAgent{Address: client.Address()}
	err := client.WaitReady(ctx, min(instance.ExistingAgentTimeout, o.Env.AgentTimeout), nil)
	if err == nil {
		now, err = client.GetState(ctx, true)
	}
	if ctx.Err() != nil {
		return now, nil, &report.InterruptedError{Row: "ask agent"}
	}
	if err == nil {
		seen.Answers = true
		return now, seen, nil
	}
	seen.Error = err.Error()
	var silent *agent.UnreachableError
	if errors.As(err, &silent) {
		seen.Cause, seen.Hint = string(silent.Last.Cause), silent.Last.Hint
	}
	return now, seen, nil
}

// addState adds what the agent reports about its jobs.
func (c *Condition) addState(now agent.State, st state.State) {
	if c.VM.AgentID != "" && now.AgentID != "" && now.AgentID != c.VM.AgentID {
		c.problem("the agent that answers at %s is another VM's: its id is %s, and VM %s was created with %s", c.Agent.Address, now.AgentID, c.VM.CID, c.VM.AgentID)
		return
	}
	c.JobState = now.JobState
	if now.Deployment != "" {
		c.Deployment = now.Deployment
	}
	if now.Job.Name != "" {
		c.Group = now.Job.Name
	}
	for _, job := range now.Job.Templates {
		c.Jobs = append(c.Jobs, job.Name)
	}
	if list := seenAddresses(now.Networks); len(list) > 0 {
		c.Addresses = list
	}
	for _, p := range now.Processes {
		c.Processes = append(c.Processes, SeenProcess{
			Name: p.Name, State: p.State, Uptime: p.Uptime.Secs,
			CPU: p.CPU.Total, Memory: p.Mem.KB, Percent: p.Mem.Percent,
		})
	}
	c.lacks = !c.Stopped && len(plan.Missing(now, st.Own.Processes)) > 0
	c.judgeJobs(now, st)
	c.addVitals(now.Vitals)
	for _, note := range now.VM.Notes {
		c.note("%s", note)
	}
}

// judgeJobs adds a problem if the jobs of the last deploy are not on the VM, or do not
// run.
func (c *Condition) judgeJobs(now agent.State, st state.State) {
	switch lost, bare := plan.Lost(st, now); {
	case bare:
		c.problem(`VM %s has no jobs, although the last deploy applied them: the VM was created again, or its disk was replaced; "bootstrap deploy MANIFEST" applies them again`, c.VM.CID)
		return
	case lost:
		c.problem(`VM %s has other jobs than those that the last deploy applied; "bootstrap deploy MANIFEST" applies those of the manifest`, c.VM.CID)
	}
	switch {
	case c.Stopped && c.JobState == "running" && !plan.Rests(now):
		c.note("the jobs run although bootstrap stop stopped them")
	case c.Stopped:
		c.problem(`the jobs do not run because bootstrap stop stopped them; "bootstrap start MANIFEST" starts them`)
		return
	case c.JobState != "running":
		c.problem("the jobs are %s", c.JobState)
	case plan.Bare(now, st.Own.Processes):
		c.problem(`the agent has no process, although the jobs have %s: "bootstrap deploy MANIFEST" applies the jobs again`, strings.Join(st.Own.Processes, ", "))
	}
	for _, p := range c.Processes {
		if p.State != "running" {
			c.problem("process %s is %s", p.Name, p.State)
		}
	}
	if len(c.Processes) > 0 {
		for _, name := range plan.Missing(now, st.Own.Processes) {
			c.problem(`process %s is %s: "bootstrap deploy MANIFEST" applies the jobs again`, name, plan.Unreported)
		}
	}
}

func seenAddresses(networks map[string]map[string]any) []SeenAddress {
	var list []SeenAddress
	for _, name := range slices.Sorted(maps.Keys(networks)) {
		if ip, _ := networks[name]["ip"].(string); ip != "" {
			list = append(list, SeenAddress{Network: name, IP: ip})
		}
	}
	return list
}

// addVitals adds the figures of the VM. It ignores figures in another structure.
func (c *Condition) addVitals(said any) {
	data, err := json.Marshal(said)
	if said == nil || err != nil {
		return
	}
	var v Vitals
	if json.Unmarshal(data, &v) != nil {
		return
	}
	c.Vitals = &v
	for _, name := range slices.Sorted(maps.Keys(v.Disks)) {
		d := v.Disks[name]
		if d.Percent.atLeast(fullFrom) {
			c.note("the %s disk of the VM is %s%% full", name, d.Percent)
		}
		if d.Inodes.atLeast(fullFrom) {
			c.note("%s%% of the inodes of the VM's %s disk are in use", d.Inodes, name)
		}
	}
}

func (f Figure) atLeast(limit float64) bool { return f.Value != nil && *f.Value >= limit }

// addMounts adds the mounted disks.
func (c *Condition) addMounts(ctx context.Context, client *agent.Client) {
	mounted, err := client.ListDisk(ctx)
	if err != nil {
		return // An old agent cannot report them.
	}
	for i := range c.Disks {
		d := &c.Disks[i]
		if d.Name != "" {
			continue // Jobs mount it, or use it without.
		}
		is := slices.Contains(mounted, d.CID)
		d.Mounted = &is
		if d.Use == DiskCurrent && !is && c.Finished {
			c.problem("disk %s is not mounted on VM %s", d.CID, c.VM.CID)
		}
	}
}
