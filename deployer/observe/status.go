// Package observe reads the condition of a deployment and of this machine, and changes
// nothing: status, doctor, certificates.
package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
	"bootstrap/manifest"
	"bootstrap/state"
	"bootstrap/state/file"
)

// Condition is the condition of a deployment, from its state file and its agent. As JSON,
// `status --json` prints it.
type Condition struct {
	Kind           string `json:"kind"` // "status"
	StateFile      string `json:"state_file"`
	InstallationID string `json:"installation_id"`
	Deployment     string `json:"deployment,omitempty"`
	Group          string `json:"instance_group,omitempty"`
	Index          int    `json:"index,omitempty"` // index of the instance in its group

	Well     bool     `json:"well"`
	Problems []string `json:"problems"` // problems
	Notes    []string `json:"notes"`    // information without problems

	VM         *SeenVM       `json:"vm"`                 // null: none is recorded
	Agent      *SeenAgent    `json:"agent"`              // null: it cannot be asked
	JobState   string        `json:"job_state"`          // empty: unknown
	Stopped    bool          `json:"stopped"`            // the jobs were stopped with bootstrap stop
	Detached   bool          `json:"detached,omitempty"` // bootstrap stop --hard has deleted the VM
	Jobs       []string      `json:"jobs"`               // names of the jobs
	Processes  []SeenProcess `json:"processes"`          // processes of the jobs
	Health     []SeenHealth  `json:"health"`             // health checks of the service
	Vitals     *Vitals       `json:"vitals"`             // of the VM; null: unknown
	Addresses  []SeenAddress `json:"addresses"`          // addresses of the instance
	LastDeploy *time.Time    `json:"deployed"`           // null: the time is not recorded
	Finished   bool          `json:"finished"`           // the last deploy finished
	Failed     *SeenFailure  `json:"failed,omitempty"`   // how the last deploy ended that did not finish, if this machine ran it
	Idle       bool          `json:"idle"`               // no deploy was interrupted: everything was deleted, or nothing was ever created
	Stemcells  []SeenRecord  `json:"stemcells"`          // uploaded stemcells
	Releases   []SeenRecord  `json:"releases"`           // releases of the last deploy
	Disks      []SeenDisk    `json:"disks"`              // persistent disks
	Unfinished []SeenCall    `json:"unfinished"`         // CPI calls with an unknown result

	Certificates []Certificate `json:"certificates"`

	lacks bool // the agent does not report all processes of the jobs
}

// SeenVM is the recorded VM.
type SeenVM struct {
	CID     string `json:"cid"`
	AgentID string `json:"agent_id,omitempty"`
	// Old is the VM that this one has replaced, until that is deleted.
	Old string `json:"old_cid,omitempty"`
}

// SeenRecord is a stemcell or a release; only stemcells have a CID.
type SeenRecord struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	CID     string `json:"cid,omitempty"`
	Current bool   `json:"current"`
}

// DiskUse is what a disk is used for.
type DiskUse string

// The uses of disks: the current one, one that the next deploy deletes, and one
// that is kept until a person deletes it.
const (
	DiskCurrent DiskUse = "current"
	DiskUnused  DiskUse = "unused"
	DiskOrphan  DiskUse = "orphan"
)

// SeenDisk is a recorded persistent disk.
type SeenDisk struct {
	Instance   string     `json:"instance,omitempty"`    // GROUP/INDEX, in the disks of several
	InstanceID string     `json:"instance_id,omitempty"` // in the disks of several
	Zone       string     `json:"az,omitempty"`          // in the disks of several
	CID        string     `json:"cid"`
	Name       string     `json:"name,omitempty"` // of a disk in persistent_disks
	Size       int        `json:"size_mib"`
	Use        DiskUse    `json:"use"`
	Mounted    *bool      `json:"mounted,omitempty"` // nil: the agent did not report it
	Since      *time.Time `json:"since,omitempty"`   // when it became an orphan
	Why        string     `json:"why,omitempty"`     // why it is an orphan
}

// SeenFailure is a run that failed or was interrupted.
type SeenFailure struct {
	Command string          `json:"command"`
	Step    string          `json:"step"` // in which it ended
	Status  timeline.Status `json:"status"`
	At      time.Time       `json:"at"`
}

// SeenCall is a CPI call whose result is unknown.
type SeenCall struct {
	Method  string    `json:"method"`
	Started time.Time `json:"started"`
	CID     string    `json:"cid,omitempty"`      // for a call that deletes
	AgentID string    `json:"agent_id,omitempty"` // for create_vm
	// Leftover is true if bootstrap can no longer find out the result.
	Leftover bool   `json:"leftover"`
	Why      string `json:"why,omitempty"` // reason for a leftover
}

// Status returns the condition of a deployment. It changes nothing, locks
// nothing, and needs the manifest only if another machine created the VM. The
// error is a *file.MissingError if there is no deployment, and an *instance.LostStateError if
// the state was lost.
func Status(ctx context.Context, cfg instance.Config, from instance.Options) (*Condition, error) {
	r, st, err := newObserver(ctx, cfg, from)
	if err != nil {
		return nil, err
	}
	defer r.Env.Close() // Reading the manifest may have opened it.
	c := &Condition{
		Kind: "status", StateFile: r.From.StateName(r.StatePath), InstallationID: st.InstallationID, Group: st.Own.Group,
		Problems: []string{}, Notes: []string{}, Jobs: []string{}, Processes: []SeenProcess{}, Health: []SeenHealth{}, Addresses: []SeenAddress{},
		Stemcells: []SeenRecord{}, Releases: []SeenRecord{}, Disks: []SeenDisk{}, Unfinished: []SeenCall{}, Certificates: []Certificate{},
	}
	if r.in, r.unread = r.ReadIfAny(ctx); r.unread != nil {
		what := "cannot read the manifest, so this status shows less"
		if instance.IsUndescribed(r.unread) && r.Known.Name != "" {
			what = "this status is about what the last deploy has recorded"
		}
		err := r.unread
		c.note("%s: %v", what, err)
	}
	if r.Known.Name != "" { // The manifest may have changed, or need operations that were not given.
		r.useHealth(c)
	}
	c.Deployment, c.Group, c.Index = r.About.Name, cmp.Or(c.Group, r.About.Group), r.About.Index
	c.addRecords(st)
	if !c.Finished && c.VM != nil {
		c.Failed = failedRun(r.Folder().Timelines())
	}
	running := InProgress(ctx, r.From, r.StatePath)
	c.addUnfinished(st, running != "")
	how := r.Agents.Recall(st.CurrentVMCID)
	r.Env.Secret(how.MBus)
	var peer agent.Peer
	if c.VM != nil {
		if peer, err = r.askAgent(ctx, c, &how, st); err != nil {
			return nil, err
		}
	}
	c.judgeDeploy(running)
	if leaf := instance.WantedLeaf(r.manifest()); leaf != nil && len(peer.Certificates) > 0 && !leaf.Equal(peer.Certificates[0]) {
		c.note("the agent serves the certificate with the serial number %s, and the manifest has the one with %s: the next deploy changes it where it can", instance.Serial(peer.Certificates[0]), instance.Serial(leaf))
	}
	now := time.Now()
	c.Certificates = append(c.Certificates, r.certificates(ctx, peer.Certificates, how.CA, now)...)
	for _, cert := range c.Certificates {
		if text := cert.fault(now); text != "" {
			c.problem("%s", text)
		} else if text := cert.ending(now, r.expiryWarning()); text != "" {
			c.note("%s", text)
		}
	}
	c.Well = len(c.Problems) == 0
	return c, nil
}

// useHealth selects the recorded health checks. Programs run only if this machine has
// recorded them, or if the manifest names them.
func (o *observer) useHealth(c *Condition) {
	list := o.Known.Health
	if o.Known.OtherChecks > 0 {
		found := 0
		if o.in != nil {
			for _, check := range o.in.Manifest.Group.Health {
				if len(check.Exec) > 0 {
					list = append(slices.Clip(list), check)
					found++
				}
			}
		}
		if found == 0 {
			c.note("health checks that run a program were skipped, because another machine recorded them: %d; name the manifest that has them", o.Known.OtherChecks)
		}
	}
	o.About.Health = list
}

// observer reads the condition of a deployment. It does not lock the state.
type observer struct {
	*instance.Instance
	in     *instance.Inputs // nil: the manifest was not read
	unread error            // why the manifest was not read
}

// manifest returns the manifest that was read; nil: none was.
func (o *observer) manifest() *manifest.Manifest {
	if o.in == nil {
		return nil
	}
	return o.in.Manifest
}

// newObserver reads the state, and this machine's record of the deployment.
func newObserver(ctx context.Context, cfg instance.Config, from instance.Options) (*observer, state.State, error) {
	path, err := file.Path(from.Manifest, from.StateFile)
	if err != nil {
		return nil, state.State{}, err
	}
	st, found, err := from.ReadState(path, cfg.Home)
	if err != nil {
		return nil, st, err
	}
	if !found {
		return nil, st, from.Missing(ctx, path)
	}
	t := instance.New(instance.NewEnv(cfg.For(from)), from)
	t.StatePath = path
	if err := t.UseInstallation(ctx, st); err != nil {
		return nil, st, err
	}
	t.About = t.Known
	return &observer{Instance: t}, st, nil
}

func (c *Condition) problem(format string, args ...any) {
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

func (c *Condition) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// addRecords adds the records of the state file.
func (c *Condition) addRecords(st state.State) {
	c.Stopped, c.LastDeploy, c.Finished, c.Idle = st.Own.Stopped, st.Own.Deployed, st.CurrentManifestSHA != "", st.Idle()
	c.Detached = st.Detached()
	if st.CurrentVMCID != "" {
		c.VM = &SeenVM{CID: st.CurrentVMCID, AgentID: st.Own.AgentID}
		if st.Own.Swap != nil {
			c.VM.Old = st.Own.Swap.CID
		}
	}
	if st.Own.Address != "" {
		c.Addresses = append(c.Addresses, SeenAddress{IP: st.Own.Address})
	}
	for _, sc := range st.Stemcells {
		current := sc.ID == st.CurrentStemcellID
		c.Stemcells = append(c.Stemcells, SeenRecord{Name: sc.Name, Version: sc.Version, CID: sc.CID, Current: current})
		if !current {
			c.note("stemcell %s is unused: the next deploy deletes it", sc.CID)
		}
	}
	for _, rel := range st.Releases {
		c.Releases = append(c.Releases, SeenRecord{Name: rel.Name, Version: rel.Version, Current: true})
	}
	for _, d := range st.Disks {
		use := DiskCurrent
		if !st.Uses(d) {
			use = DiskUnused
			c.note("disk %s is unused: the next deploy deletes it", d.CID)
		}
		name := st.NameOf(d.CID)
		if name != "" && st.CurrentVMCID != "" && !st.Attached(name) {
			c.problem("disk %s, named %s, is not attached to VM %s: `bootstrap deploy MANIFEST` attaches it", d.CID, name, st.CurrentVMCID)
		}
		c.Disks = append(c.Disks, SeenDisk{CID: d.CID, Name: name, Size: d.Size, Use: use})
	}
	for _, d := range st.Own.Orphans {
		c.Disks = append(c.Disks, SeenDisk{CID: d.CID, Name: d.Name, Size: d.Size, Use: DiskOrphan, Since: &d.Since, Why: d.Why})
	}
}

// addUnfinished adds the CPI calls with an unknown result, of interrupted runs
// or of a run in progress. running is true if there is such a run: then they are no problem.
func (c *Condition) addUnfinished(st state.State, running bool) {
	for _, in := range st.Own.Intents {
		c.Unfinished = append(c.Unfinished, SeenCall{Method: in.Method, Started: in.Started, CID: in.CID, AgentID: in.AgentID})
		if !running {
			c.problem("the result of a %s that began on %s is unknown: a run is in progress or was interrupted; the next deploy settles it", in.Method, report.Minute(in.Started))
		}
	}
	for _, l := range st.Own.Leftovers {
		c.Unfinished = append(c.Unfinished, SeenCall{Method: l.Method, Started: l.Started, CID: l.CID, AgentID: l.AgentID, Leftover: true, Why: l.Why})
		c.problem("a %s of %s may have left something in the cloud that is not recorded: %s; `bootstrap state leftovers MANIFEST` lists it", l.Method, report.Minute(l.Started), l.Why)
	}
	if st.Own.Swap != nil && !running {
		c.problem("VM %s is replaced and not deleted yet; the next deploy deletes it", st.Own.Swap.CID)
	}
}

// judgeDeploy adds a problem if the last deploy is unfinished or there is no VM. running
// describes another run that changes the instance; empty: there is none.
func (c *Condition) judgeDeploy(running string) {
	switch {
	case running != "" && (c.VM == nil || !c.Finished):
		c.problem("%s", running)
	case running != "":
		c.note("%s", running)
	case c.Detached:
		c.problem("the VM was deleted with `bootstrap stop --hard`, and deploys create none; `bootstrap start MANIFEST` does")
	case c.VM == nil:
		c.problem("there is no VM")
	case !c.Finished:
		how := ""
		if f := c.Failed; f != nil {
			ended := "failed"
			if f.Status == timeline.Interrupted {
				ended = "was interrupted"
			}
			how = fmt.Sprintf(" (the step %q %s on %s)", f.Step, ended, report.Minute(f.At))
			if plan.Kind(f.Step).Starts() {
				how += `; "bootstrap logs MANIFEST --tail 50" shows why`
			}
		}
		c.problem(`the last deploy did not finish%s; "bootstrap deploy MANIFEST" continues it`, how)
	}
}

// failedRun returns how the last run ended, if it failed or was interrupted in a step; nil:
// it did not, or this machine has not recorded it.
func failedRun(runs []*timeline.Timeline) *SeenFailure {
	if len(runs) == 0 || runs[0].Status != timeline.Failed && runs[0].Status != timeline.Interrupted {
		return nil
	}
	t := runs[0]
	for _, s := range slices.Backward(t.Spans) {
		if s.Kind == timeline.Step {
			return &SeenFailure{Command: t.Command, Step: s.Name, Status: t.Status, At: t.End().UTC().Truncate(time.Second)}
		}
	}
	return nil
}
