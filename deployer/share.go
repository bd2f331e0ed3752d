package deployer

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/deployer/instance"
	"bootstrap/deployment/links"
	"bootstrap/deployment/shared"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state/team"
	"bootstrap/templates"
)

// ShareLinks records the links that a deployment shares. With several instances, opts
// selects one of them; opts.Deployment is the manifest if it was read.
func ShareLinks(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Plan
	r := newRun(opts)
	source, _, err := r.shareSource()
	if err != nil {
		return err
	}
	if d := opts.Deployment; d != nil && !shares(d.Groups) && !shared.In(opts.Home, opts.Getenv).Has(source) {
		return opts.Team.RemoveLinks(ctx)
	}
	return r.execute(ctx, r.sharePhases())
}

// UnshareLinks removes the shared links of the deployment with the state, or with the
// folder of a record. t is its store, or nil for a folder.
func UnshareLinks(ctx context.Context, cfg instance.Config, t *team.Copy, source string) error {
	source, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	if err := t.RemoveLinks(ctx); err != nil {
		return err
	}
	return shared.In(cfg.Home, cfg.Getenv).Remove(source)
}

// MoveLinks records the new source of the links that a deployment shares on this machine,
// after its state was moved: the path of the state, or the folder of the record.
func MoveLinks(cfg instance.Config, from, to string) error {
	from, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	if to, err = filepath.Abs(to); err != nil {
		return err
	}
	return shared.In(cfg.Home, cfg.Getenv).Move(from, to)
}

// runAndShare carries out the plan, and then records the inputs of this deploy and the links
// that the deployment shares.
func (r *run) runAndShare(ctx context.Context) error {
	if err := r.runPlan(ctx); err != nil {
		return err
	}
	r.keepInputs(ctx)
	return r.shareLinks(ctx)
}

// shareLinks records the shared links on this machine and in the store of the state. If
// there are none any more, it removes the record.
func (r *run) shareLinks(ctx context.Context) error {
	if r.leavesSharing() {
		return nil
	}
	source, replaced, err := r.shareSource()
	if err != nil {
		return err
	}
	kept := shared.In(r.t.Env.Home, r.t.Env.Getenv)
	sharing := sharesAny(r.in.Manifest.Group.Jobs)
	if r.in.Deployment != nil {
		sharing = shares(r.in.Deployment.Groups)
	}
	if !sharing {
		if err := r.t.From.Team.RemoveLinks(ctx); err != nil {
			return err
		}
		return kept.Remove(append(replaced, source)...)
	}
	providers, err := r.sharedProviders()
	if err != nil {
		return err
	}
	e := shared.Entry{Deployment: r.in.Manifest.Name, Source: source, Manifest: r.in.Manifest.Path, Written: time.Now().UTC().Truncate(time.Second), Providers: providers}
	for _, p := range providers {
		e.Secrets = append(e.Secrets, r.secretsIn(p.Properties)...)
	}
	slices.Sort(e.Secrets)
	e.Secrets = slices.Compact(e.Secrets)
	if r.t.From.Team != nil {
		if err := r.shareInStore(ctx, &e); err != nil {
			return err
		}
	}
	return kept.Save(e, replaced)
}

// shareSource returns the source under which the deployment shares its links, and those
// under which it has shared them before it had several instances.
func (r *run) shareSource() (source string, replaced []string, err error) {
	source = r.t.StatePath
	if of := r.t.From.Of; of != nil {
		source = of.Record.Dir()
		for _, in := range of.Record.Instances {
			path, err := filepath.Abs(of.Record.StatePath(in))
			if err != nil {
				return "", nil, err
			}
			replaced = append(replaced, path)
		}
	}
	source, err = filepath.Abs(source)
	return source, replaced, err
}

// shares reports whether a job of the groups shares a link.
func shares(groups []manifest.Group) bool {
	return slices.ContainsFunc(groups, func(g manifest.Group) bool { return sharesAny(g.Manifest.Group.Jobs) })
}

// sharesAny reports whether one of the jobs shares a link.
func sharesAny(jobs []manifest.JobRef) bool {
	for _, ref := range jobs {
		for _, given := range ref.Provides {
			if m, ok := given.(map[string]any); ok && m["shared"] == true {
				return true
			}
		}
	}
	return false
}

// sharedProviders returns the links that the manifest shares.
func (r *run) sharedProviders() ([]links.Provider, error) {
	m := r.in.Manifest
	jobs := r.jobs.jobsOf(m)
	if r.in.Deployment != nil {
		all, err := r.jobs.resolve(jobs)
		if err != nil {
			return nil, err
		}
		return all.Shared, nil
	}
	return links.Shared(m.Name, r.onlyGroup(jobs))
}

// onlyGroup returns the group of a manifest with one instance.
func (r *run) onlyGroup(jobs []templates.Job) links.Group {
	g := r.jobs.groupOf(jobs)
	in := links.Instance{ID: r.rec.InstanceID(r.t.About.Group), Index: r.in.Manifest.Index(), Zone: r.in.Manifest.Zone(), Bootstrap: true, Addresses: r.jobs.dnsAddresses()}
	g.Default = r.in.Manifest.AddressNetwork()
	for name := range r.in.Manifest.Interfaces() {
		g.Networks = append(g.Networks, name)
	}
	slices.Sort(g.Networks)
	g.Instances = []links.Instance{in}
	return g
}

// secretsIn returns the texts in a value that are secrets.
func (r *run) secretsIn(value any) []string {
	var list []string
	switch v := value.(type) {
	case string:
		if r.t.Env.Redact(v) != v {
			list = append(list, v)
		}
	case map[string]any:
		for _, item := range v {
			list = append(list, r.secretsIn(item)...)
		}
	case []any:
		for _, item := range v {
			list = append(list, r.secretsIn(item)...)
		}
	}
	return list
}
