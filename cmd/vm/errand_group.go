package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"bootstrap/cmd/instances"
	"bootstrap/deployer"
	"bootstrap/deployer/access"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// onGroups runs the errand of instance groups with lifecycle errand: of the group with the
// name, or of those that have a job with it. Each gets a VM for it. The caller has the lock.
func (e *errand) onGroups(ctx context.Context, all *instances.Command, opts deployer.Options, none error) error {
	defer instances.ShareRuby(ctx, e.c, &opts)()
	opts.Inputs.Generate = document.Write
	old, err := deployment.Load(all.Dir, opts)
	if err == nil {
		err = all.Await(ctx, opts, old)
	}
	var groups []manifest.Group
	if err == nil {
		err = deployer.ReadSeveral(ctx, opts, old, func(of deployer.Several) error {
			groups = e.groups(of.Deployment)
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("no instance has a job %s, and the groups with lifecycle errand are not known: %w", e.what.Name, err)
	}
	if len(groups) == 0 {
		return none
	}
	if err := instances.RefusePipes("make a VM for the errand "+e.what.Name, opts); err != nil {
		return err
	}
	var results []ErrandResult
	for i := range groups {
		result, err := e.onGroup(ctx, all, opts, &groups[i])
		if err != nil {
			return err
		}
		results = append(results, result)
	}
	return e.ended(results)
}

// groups returns the groups with lifecycle errand that the name of the errand is about.
func (e *errand) groups(d *manifest.Deployment) []manifest.Group {
	var list []manifest.Group
	for _, g := range d.Groups {
		if g.Errand && g.Name == e.what.Name {
			return []manifest.Group{g}
		}
		if g.Errand && slices.Contains(jobsOf(&g), e.what.Name) {
			list = append(list, g)
		}
	}
	return list
}

func jobsOf(g *manifest.Group) []string {
	var names []string
	for _, job := range g.Manifest.Group.Jobs {
		names = append(names, job.Name)
	}
	return names
}

// onGroup makes the VM of a group, runs the errand on it, and deletes the VM.
func (e *errand) onGroup(ctx context.Context, all *instances.Command, opts deployer.Options, g *manifest.Group) (result ErrandResult, err error) {
	all.Progress = e.c.Stderr // Standard output is for the output of the errand.
	o := all.Options(opts)
	o.Only, o.KeepDisks = g.Name, true
	_ = os.RemoveAll(o.Logs) // from an earlier run
	old, err := deployment.Load(all.Dir, opts)
	if err != nil {
		return result, err
	}
	var draft *deployment.Draft
	var p *deployment.Plan
	err = deployer.ReadSeveral(ctx, opts, old, func(of deployer.Several) error {
		if draft, err = deployment.Make(ctx, of, old, deployment.Recorded(old, opts.Home), nil, g.Name); err == nil {
			p, err = deployment.MakePlan(ctx, o, of.Deployment, draft, false)
		}
		return err
	})
	if err != nil {
		return result, err
	}
	in := draft.Record.Instances[slices.IndexFunc(draft.Record.Instances, func(in *record.Instance) bool { return in.Group == g.Name && in.Going == "" })]
	in.KeepAlive = e.keepAlive
	if !e.keepAlive {
		defer func() { err = errors.Join(err, e.deleteVM(ctx, o, all.Dir, opts, in.ID)) }()
	}
	if p.PostDeploy = nil; !p.Nothing() {
		if err := deployment.Run(ctx, o, draft, p, all.Dir); err != nil {
			return result, err
		}
	} else if err := draft.Record.Save(); err != nil {
		return result, err
	}
	opts.Deployment = nil
	if err := opts.Select(draft.Record, in); err != nil {
		return result, err
	}
	opts.Report = warnings(opts.Report)
	names := []string{e.what.Name}
	if g.Name == e.what.Name {
		names = jobsOf(g)
	}
	for _, job := range names {
		result.Instance = in.Name()
		err = e.runJob(ctx, job, opts, &result, e.c.Writer(e.c.Out()).Long(), e.c.Writer(e.c.Stderr).Long())
		if none, ok := errors.AsType[*access.NoErrandError](err); !ok || !none.HasJob() {
			break // It has run the first job that is an errand.
		}
	}
	return result, err
}

// warnings passes on only warnings.
func warnings(pass func(report.Event)) func(report.Event) {
	return func(e report.Event) {
		if e.Kind == report.Warning || e.Kind == report.Log {
			pass(e)
		}
	}
}

// deleteVM deletes the VM of an errand that has ended, also if the person has interrupted it.
// Its disk becomes an orphaned one.
func (e *errand) deleteVM(ctx context.Context, o deployment.Options, dir string, opts deployer.Options, id string) error {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), deleteFor)
	defer end()
	now, err := deployment.Load(dir, opts)
	if err != nil {
		return err
	}
	in, found := now.ByID(id)
	if !found {
		return nil
	}
	p := deployment.DeleteOf(now, []*record.Instance{in}, o.KeepDisks)
	in.Going = record.ErrandEnded // protect: true does not keep it
	if err := deployment.Run(ctx, o, &deployment.Draft{Record: now}, p, dir); err != nil {
		return fmt.Errorf("cannot delete the VM of the errand: %w; the next `bootstrap deploy MANIFEST` deletes it", err)
	}
	return nil
}

// deleteFor limits how long deleting the VM of an errand may take.
const deleteFor = time.Hour
