package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
	"bootstrap/state/file"
)

// Report has the records of a deployment, and the plan of a deploy. As JSON, `report
// --json` prints it.
type Report struct {
	Kind           string    `json:"kind"` // "report"
	Made           time.Time `json:"made"`
	Deployment     string    `json:"deployment,omitempty"`
	Group          string    `json:"instance_group,omitempty"`
	Index          int       `json:"index,omitempty"` // index of the instance in its group
	StateFile      string    `json:"state_file"`
	InstallationID string    `json:"installation_id,omitempty"`

	VM         *SeenVM       `json:"vm"` // null: none is recorded
	Addresses  []SeenAddress `json:"addresses,omitempty"`
	LastDeploy *time.Time    `json:"deployed"` // null: the time is not recorded
	Finished   bool          `json:"finished"` // the last deploy finished
	Stopped    bool          `json:"stopped"`  // the jobs were stopped with bootstrap stop
	Stemcells  []SeenRecord  `json:"stemcells,omitempty"`
	Releases   []SeenRecord  `json:"releases,omitempty"`
	Disks      []SeenDisk    `json:"disks,omitempty"`
	Unfinished []SeenCall    `json:"unfinished,omitempty"` // CPI calls with an unknown result

	// Diff are the differences between the manifest and the last applied one, as lines
	// without secrets.
	Diff []string `json:"diff,omitempty"`
	// Plan is what a deploy would do now; null: unknown. PlanNote says why.
	Plan     *plan.View  `json:"plan"`
	PlanNote string      `json:"plan_note,omitempty"`
	Steps    []plan.Step `json:"-"` // steps of Plan

	// Runs are the timelines of the last runs on this machine that changed something,
	// the newest first.
	Runs []*timeline.Timeline `json:"runs,omitempty"`
}

// Recorded returns the records of a deployment, without asking its VM or its CPI. The
// error is a *file.MissingError if there is no deployment. If there is no plan that has
// read the manifest, Recorded compares the manifest with the last applied one.
func Recorded(ctx context.Context, cfg instance.Config, from instance.Options, planned *plan.View) (*Report, error) {
	r := &Report{Kind: "report", Made: time.Now().UTC(), Plan: planned}
	if planned != nil {
		r.Diff = planned.Diff
	}
	o, st, err := newObserver(ctx, cfg, from)
	if missing, ok := errors.AsType[*file.MissingError](err); ok && planned != nil {
		r.StateFile = missing.Path
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if planned == nil {
		if in, err := o.ReadIfAny(ctx); err == nil && in != nil {
			r.Diff = o.Diff(st, in.Manifest)
		}
	}
	c := &Condition{}
	c.addRecords(st)
	c.addUnfinished(st, false)
	r.Deployment, r.Group, r.Index = o.About.Name, cmp.Or(st.Own.Group, o.About.Group), o.About.Index
	r.StateFile, r.InstallationID = o.From.StateName(o.StatePath), st.InstallationID
	r.VM, r.LastDeploy, r.Finished, r.Stopped = c.VM, c.LastDeploy, c.Finished, c.Stopped
	r.Addresses, r.Stemcells, r.Releases, r.Disks, r.Unfinished = c.Addresses, c.Stemcells, c.Releases, c.Disks, c.Unfinished
	r.Runs = o.Folder().Timelines()
	return r, nil
}

// LastDeployed returns the index of the newest timeline of a deploy; -1: there is none.
func (r *Report) LastDeployed() int {
	for i, t := range r.Runs {
		if t.IsDeploy() {
			return i
		}
	}
	return -1
}

// NoTimeline returns why there is no timeline of the last deploy; empty: there is one.
func (r *Report) NoTimeline() string {
	switch last := r.LastDeployed(); {
	case r.LastDeploy == nil:
		return ""
	case last < 0:
		return "This machine has no timeline of a deploy: another machine, an earlier version or a run that was killed made the last one."
	case r.Runs[last].End().Add(time.Second).Before(*r.LastDeploy):
		return "This machine has no timeline of the last deploy, which another machine or a run that was killed made."
	}
	return ""
}

// Facts returns the records as names and values for people.
func (r *Report) Facts() (list [][2]string) {
	add := func(name, value string) {
		if value != "" {
			list = append(list, [2]string{name, value})
		}
	}
	add("Deployment", r.Deployment)
	if r.Group != "" {
		add("Instance", fmt.Sprintf("%s/%d", r.Group, r.Index))
	}
	add("State", r.StateFile)
	switch {
	case r.VM == nil:
		add("VM", "none")
	case r.VM.Old != "":
		add("VM", r.VM.CID+", replaces "+r.VM.Old)
	default:
		add("VM", r.VM.CID)
	}
	for _, a := range r.Addresses {
		add("Address", a.IP)
	}
	for _, s := range r.Stemcells {
		text := fmt.Sprintf("%s/%s (%s)", s.Name, s.Version, s.CID)
		if !s.Current {
			text += ", unused"
		}
		add("Stemcell", text)
	}
	for _, rel := range r.Releases {
		add("Release", rel.Name+"/"+rel.Version)
	}
	for _, d := range r.Disks {
		add("Disk", fmt.Sprintf("%s, %d MiB, %s", d.CID, d.Size, d.Use))
	}
	add("Last deploy", r.lastDeploy())
	for _, u := range r.Unfinished {
		add("Unfinished", fmt.Sprintf("%s since %s", u.Method, report.Minute(u.Started)))
	}
	return list
}

// lastDeploy returns the time and the result of the last deploy.
func (r *Report) lastDeploy() string {
	text := "the time is not recorded"
	if r.LastDeploy != nil {
		text = report.Minute(*r.LastDeploy)
	}
	if last := r.LastDeployed(); last >= 0 && r.NoTimeline() == "" && r.Runs[last].User != "" {
		text += " by " + r.Runs[last].User + "@" + r.Runs[last].Host
	}
	switch {
	case r.VM == nil:
		return ""
	case !r.Finished:
		text += "; a deploy was begun and did not finish"
	case r.Stopped:
		text += "; the jobs were stopped on purpose"
	}
	return text
}
