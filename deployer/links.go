package deployer

import (
	"context"

	"bootstrap/deployer/plan"
	"bootstrap/deployment/links"
	"bootstrap/deployment/order"
	deployed "bootstrap/deployment/record"
	"bootstrap/manifest"
	"bootstrap/templates"
)

// connect connects the jobs of the run's instance to the jobs of all groups of the
// deployment. The error is an *links.Unresolved that lists all problems of the
// deployment.
func (j *jobs) connect(jobs []templates.Job) error {
	if j.in.Deployment == nil {
		return j.connectOthers(jobs)
	}
	all, err := j.resolve(jobs)
	if err != nil {
		return err
	}
	provided := all.ProvidedBy(j.in.Manifest.Group.Name)
	for i := range jobs {
		c := &jobs[i].Context
		if c.Director != nil {
			director := *c.Director
			director.Provided, c.Director = provided, &director
		}
		c.Links, c.Unlinked = map[string]any{}, map[string]string{}
		for _, link := range all.Links {
			switch {
			case link.Consumer.Group != c.Name || link.Consumer.Job != jobs[i].Name:
			case link.Content != nil:
				c.Links[link.Consumer.Name] = link.Content
			default:
				c.Unlinked[link.Consumer.Name] = link.Why
			}
		}
	}
	return nil
}

// connectOthers connects the jobs of the only instance of a manifest to those of other
// deployments, and to its named disks. Rendering connects them to each other.
func (j *jobs) connectOthers(jobs []templates.Job) error {
	if err := links.CheckAlone(j.in.Manifest.Name, j.groupOf(jobs), !j.in.Manifest.SharesNetworks()); err != nil {
		return err
	}
	all, err := links.ResolveOthers(j.in.Manifest.Name, j.groupOf(jobs), j.others())
	for _, link := range all {
		for i := range jobs {
			if c := &jobs[i].Context; jobs[i].Name == link.Consumer.Job {
				if c.Links == nil {
					c.Links = map[string]any{}
				}
				c.Links[link.Consumer.Name] = link.Content
			}
		}
	}
	return err
}

// diskNames returns the names of the group's named disks.
func diskNames(m *manifest.Manifest) []string {
	var names []string
	for _, d := range m.Group.Disks {
		names = append(names, d.Name)
	}
	return names
}

// groupOf returns the group of the run's instance with its jobs.
func (j *jobs) groupOf(own []templates.Job) links.Group {
	g := links.Group{Name: j.in.Manifest.Group.Name, Disks: diskNames(j.in.Manifest)}
	for i := range own {
		g.Jobs = append(g.Jobs, &own[i])
	}
	return g
}

// linkGroups returns all groups of the deployment in the form that links.Resolve takes.
// own are the jobs of the run's group.
func (j *jobs) linkGroups(own []templates.Job) []links.Group {
	d, m := j.in.Deployment, j.in.Manifest
	groups := make([]links.Group, len(d.Groups))
	for i := range d.Groups {
		g := &d.Groups[i]
		group := links.Group{Name: g.Name, Default: g.DefaultNetwork(), Disks: diskNames(g.Manifest), Errand: g.Errand}
		for _, w := range g.Wishes {
			group.Networks = append(group.Networks, w.Network)
		}
		list := own
		if g.Name != m.Group.Name || d.HasScopes() { // links are the same for all instances
			list = j.jobsOf(g.Manifest)
		}
		for k := range list {
			group.Jobs = append(group.Jobs, &list[k])
		}
		for _, in := range inOrder(j.rec.From.Of.Record, g.Name) {
			group.Instances = append(group.Instances, j.linkInstance(in, group.Default))
		}
		groups[i] = group
	}
	return groups
}

// inOrder returns the instances of a group in the order in which they change. A
// Director's links have the same order. Instances that are to be deleted are left out.
func inOrder(all *deployed.Record, group string) []*deployed.Instance {
	var some []order.Instance
	byID := map[string]*deployed.Instance{} // ByID searches the list
	for _, in := range all.Instances {
		if in.Group == group && in.Going == "" {
			byID[in.ID] = in
			some = append(some, order.Instance{ID: in.ID, Index: in.Index, Zone: in.Zone, Bootstrap: in.Bootstrap})
		}
	}
	var list []*deployed.Instance
	for _, in := range order.Sorted(some) {
		list = append(list, byID[in.ID])
	}
	return list
}

// linkInstance returns an instance in the form that links.Resolve takes. If the cloud
// chose an address, it is that of the instance's last deploy.
func (j *jobs) linkInstance(in *deployed.Instance, main string) links.Instance {
	seen := links.Instance{ID: in.ID, Index: in.Index, Zone: in.Zone, Bootstrap: in.Bootstrap, Addresses: map[string]string{}}
	for name, block := range in.Addresses {
		seen.Addresses[name] = block.Addr().String()
	}
	switch {
	case in == j.rec.From.Of.Instance && j.address != "":
		seen.Addresses[main] = j.address
	case seen.Addresses[main] == "":
		st, found, err := j.rec.From.Of.Record.ReadState(in, j.rec.Env.Home)
		if err == nil && found {
			seen.Addresses[main] = st.Own.Address
		}
	}
	return seen
}

// fetchAll fetches the artifacts and connects the links, before anything is changed.
func (r *run) fetchAll(ctx context.Context) error {
	a, err := r.in.FetchAll(ctx)
	if err == nil {
		err = r.refuseChanged(a)
	}
	if err != nil {
		return err
	}
	r.use(a)
	_, err = r.jobs.templateJobs()
	return err
}

// addConnected adds the contents of the jobs' links to parts, which a later plan compares,
// and returns the providers of the links. If the manifest describes only one instance, only
// links to other deployments are added.
func (r *run) addConnected(parts map[string]any) (sources map[string]string, err error) {
	jobs := r.jobs.jobsOf(r.in.Manifest)
	all, err := r.linksOf(jobs)
	if err != nil {
		return nil, err
	}
	sources = map[string]string{}
	for _, l := range all {
		if l.Consumer.Group == r.in.Manifest.Group.Name && l.Content != nil {
			plan.AddLink(parts, l.Consumer.Job, l.Consumer.Name, l.Content)
			sources[plan.LinkName(l.Consumer.Job, l.Consumer.Name)] = l.Source()
		}
	}
	if r.in.Deployment == nil {
		return sources, nil
	}
	for i := range jobs {
		delete(parts, plan.DescribedLinks(jobs[i].Name)) // the contents count
	}
	if host := r.jobs.addNames(r.in.Manifest, nil); host != "" {
		parts["its DNS name"] = host
	}
	if !r.in.Manifest.Identity.Bootstrap { // the only instance of a manifest is one, too
		parts["that it is the bootstrap instance"] = false
	}
	return sources, nil
}

// linksOf returns the links that are known before rendering: all of a deployment with
// several instances, else those to other deployments.
func (r *run) linksOf(own []templates.Job) ([]links.Link, error) {
	if r.in.Deployment == nil {
		return links.ResolveOthers(r.in.Manifest.Name, r.jobs.groupOf(own), r.jobs.others())
	}
	all, err := r.jobs.resolve(own)
	if err != nil {
		return nil, err
	}
	return all.Links, nil
}
