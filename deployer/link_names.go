package deployer

import (
	"context"
	"fmt"

	"bootstrap/deployer/report"
	"bootstrap/deployment/links"
	"bootstrap/manifest/document"
	"bootstrap/templates"
)

// LinkNames returns the names of the links that certificates of a manifest consume. If
// there are several instances, opts selects one. It reads the manifest once more, and
// changes nothing.
func LinkNames(ctx context.Context, opts Options, wishes []document.LinkWish) ([]document.LinkNames, error) {
	opts.Inputs.Generate, opts.Inputs.LinkNames = document.Plan, nil
	opts.Report = func(report.Event) {} // The reading that needs the names reports the same.
	opts.Connections = nil
	r := newRun(opts)
	r.t.From.Inputs.LinkNames = nil
	var names []document.LinkNames
	err := r.execute(ctx, r.linksPhases(func(context.Context) (err error) {
		names, err = r.linkNames(wishes)
		return err
	}))
	return names, err
}

// linkNames returns the names of links.
func (r *run) linkNames(wishes []document.LinkWish) ([]document.LinkNames, error) {
	own, err := r.jobs.templateJobs()
	if err != nil {
		return nil, err
	}
	groups := r.jobs.namedGroups(own)
	list := make([]document.LinkNames, len(wishes))
	for i, w := range wishes {
		p, err := links.Find(r.in.Manifest.Name, groups, w.Type, w.From, r.jobs.names())
		switch {
		case err != nil:
			list[i].Wrong = err.Error()
		case p.Default == "":
			list[i].Wrong = fmt.Sprintf("the link %q has no address, because no instance provides it", w.From)
		default:
			list[i].Names = p.Names(w.Wildcard)
		}
	}
	return list, nil
}

// namedGroups returns all groups of the manifest with the addresses of their instances.
func (j *jobs) namedGroups(own []templates.Job) []links.Group {
	if j.in.Deployment != nil {
		return j.linkGroups(own)
	}
	g := j.groupOf(own)
	g.Default = j.in.Manifest.AddressNetwork()
	g.Networks = []string{g.Default}
	g.Instances = []links.Instance{{Bootstrap: true, Addresses: map[string]string{g.Default: j.address}}}
	return []links.Group{g}
}
