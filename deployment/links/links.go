// Package links connects the jobs of a deployment with many instance groups: for each
// link that a job consumes, it finds the job that provides it, and returns what templates
// see of it. It is pure. The rules are those of BOSH's Director; in addition, unknown
// names and keys in consumes and provides are errors.
package links

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bootstrap/artifact"
	"bootstrap/deployment/dns"
	"bootstrap/internal/spelling"
	"bootstrap/templates"
)

// Group is an instance group with its jobs and instances.
type Group struct {
	Name string
	// Context of each job has its properties and the links of the manifest; Provides has
	// its custom_provider_definitions, too.
	Jobs     []*templates.Job
	Disks    []string // names of the disks in persistent_disks, which any group may consume as links of the type disk
	Networks []string
	Default  string // the network whose addresses other groups use
	// Instances are in the order in which consumers see them.
	Instances []Instance
	// Errand is true if the group has lifecycle errand: it may have no instance.
	Errand bool
}

// Instance is an instance as consumers see it.
type Instance struct {
	ID        string            `json:"id"`
	Index     int               `json:"index"`
	Zone      string            `json:"az,omitempty"`
	Bootstrap bool              `json:"bootstrap,omitempty"`
	Addresses map[string]string `json:"addresses,omitempty"` // by network: an IP address or a name
}

// End is one end of a link: a job that provides or consumes it.
type End struct {
	Deployment string `json:"deployment"`
	Group      string `json:"group"`
	Job        string `json:"job,omitempty"` // empty: a disk
	Name       string `json:"link"`          // in the job's spec
	As         string `json:"as,omitempty"`  // its name in the manifest, if that differs
	Type       string `json:"type"`
	Place      string `json:"-"` // of the job in the manifest, for people
}

// Link is a link that a job consumes, and the job that provides it.
type Link struct {
	Consumer End
	Optional bool
	Provider *End           // nil: the manifest describes the link, or it has no provider
	Content  map[string]any // in the form of templates.Context.Links; nil: no provider
	Why      string         // why it has no provider, for people
}

// Source says where the link comes from: "job db of group data".
func (l *Link) Source() string {
	p := l.Provider
	switch {
	case p == nil:
		return "the manifest"
	case p.Job == "":
		return fmt.Sprintf("disk %s of group %s", p.Name, p.Group)
	}
	text := fmt.Sprintf("job %s of group %s", p.Job, p.Group)
	if p.Deployment != l.Consumer.Deployment {
		text += " in deployment " + p.Deployment
	}
	return text
}

// disk is the type of links to persistent disks.
const disk = "disk"

// Connected are the links of a deployment.
type Connected struct {
	Links  []Link     // in the order of groups, jobs and their specs
	Shared []Provider // which other deployments may consume
	// Names has a number for each link; nil if the deployment has no DNS names.
	Names *dns.Names

	listed []Provider
}

// ProvidedBy returns the links that the jobs of a group provide, by job, also those that the
// manifest hides.
func (c *Connected) ProvidedBy(group string) map[string][]templates.ProvidedLink {
	all := map[string][]templates.ProvidedLink{}
	for _, p := range c.listed {
		if p.Group != group {
			continue
		}
		l := templates.ProvidedLink{Name: p.called(), Type: p.Type}
		if c.Names != nil && c.Names.Links[p.numbered()] > 0 {
			l.Group = strconv.Itoa(c.Names.Links[p.numbered()])
		}
		all[p.Job] = append(all[p.Job], l)
	}
	return all
}

// Others finds the links that other deployments share.
type Others struct {
	// Shared returns the links that a deployment shares. The error says why they are
	// unknown.
	Shared func(deployment string) ([]Provider, error)
	// Typed returns the links of a type that any deployment shares.
	Typed func(kind string) []Provider
}

// DNS makes the DNS names of a deployment.
type DNS struct {
	dns.Encoder
	// Addresses says that links have names in place of addresses, unless a job wants
	// something else.
	Addresses bool
}

// Resolve connects the links of all jobs. names is nil if the deployment has no DNS names.
// The error is an *Unresolved that lists all problems.
func Resolve(deployment string, groups []Group, others Others, names *DNS) (*Connected, error) {
	r := resolver{deployment: deployment, others: others}
	for i := range groups {
		for _, job := range groups[i].Jobs {
			r.checkNames(&groups[i], job)
		}
		r.providers = append(r.providers, r.provided(&groups[i])...)
	}
	r.number(groups, names)
	for i := range groups {
		for _, job := range groups[i].Jobs {
			for _, wanted := range job.Consumes {
				r.links = append(r.links, r.resolve(&groups[i], job, wanted))
			}
		}
	}
	if len(r.problems) > 0 {
		return nil, &Unresolved{Deployment: deployment, Problems: r.problems}
	}
	all := &Connected{Links: r.links, Shared: shared(r.providers), listed: r.listed}
	if r.names != nil {
		all.Names = r.names.Names
	}
	return all, nil
}

// resolver resolves the links of one deployment.
type resolver struct {
	deployment string
	others     Others
	names      *DNS // nil: links have addresses
	providers  []Provider
	listed     []Provider // all links of jobs, also those that the manifest hides
	links      []Link
	problems   []Problem
	lenient    bool // the manifest is in the style of create-env
}

// end returns the end of a link at a job.
func (r *resolver) end(g *Group, job *templates.Job, l artifact.Link) End {
	return End{Deployment: r.deployment, Group: g.Name, Job: job.Name, Name: l.Name, Type: l.Type, Place: placeOf(job)}
}

// placeOf returns the place of a job in the manifest, for people.
func placeOf(job *templates.Job) string {
	if job.Context.Place == "" {
		return job.Context.Path
	}
	return job.Context.Place + ", " + job.Context.Path
}

// checkNames refuses names in consumes and provides that the job does not know.
func (r *resolver) checkNames(g *Group, job *templates.Job) {
	for _, list := range []struct {
		key   string
		given map[string]any
		known []artifact.Link
	}{{"consumes", job.Context.Consumes, job.Consumes}, {"provides", job.Context.Provides, job.Provides}} {
		var names []string
		for _, l := range list.known {
			names = append(names, l.Name)
		}
		for _, name := range sortedKeys(list.given) {
			if slices.Contains(names, name) {
				continue
			}
			why := fmt.Sprintf("%s has the name %q, which the job does not know", list.key, name)
			if hint := spelling.Suggest(name, names); hint != "" {
				why += hint
			} else if len(names) > 0 {
				why += "; it knows " + strings.Join(names, ", ")
			}
			r.fail(End{Deployment: r.deployment, Group: g.Name, Job: job.Name, Name: name, Place: placeOf(job)}, why)
		}
	}
}

// fail adds a problem.
func (r *resolver) fail(of End, why string, candidates ...Provider) {
	p := Problem{Consumer: of, Why: why}
	for _, c := range candidates {
		p.Candidates = append(p.Candidates, c.End)
	}
	r.problems = append(r.problems, p)
}

// neededLink says that the manifest takes a link from a job that needs it.
const neededLink = "the manifest says nil, but the job needs this link"

// resolve finds one link.
func (r *resolver) resolve(g *Group, job *templates.Job, wanted artifact.Link) Link {
	link := Link{Consumer: r.end(g, job, wanted), Optional: wanted.Optional}
	given, explicit := job.Context.Consumes[wanted.Name]
	asked := request{of: wanted.Name, from: wanted.Name}
	if explicit {
		if given == "nil" {
			link.Why = "the manifest sets it to nil"
			if !wanted.Optional {
				r.fail(link.Consumer, neededLink)
			}
			return link
		}
		m, ok := given.(map[string]any)
		if !ok {
			r.fail(link.Consumer, notMap)
			return link
		}
		if why := asked.read(m); why != "" {
			r.fail(link.Consumer, why)
			return link
		}
		if asked.manual {
			link.Content = manual(m)
			link.Content[templates.LinkSpec] = map[string]any{"deployment_name": r.deployment, "group_name": wanted.Name + "-" + wanted.Type}
			return link
		}
		if asked.deployment != "" && asked.deployment != r.deployment {
			r.fromOther(&link, asked)
			return link
		}
	}
	found, typed := matching(r.providers, wanted.Type, asked.from, explicit)
	none := fmt.Sprintf("no job provides a link of the type %q", wanted.Type)
	switch {
	case len(found) == 1:
		r.connect(&link, found[0], asked)
	case len(found) > 1:
		r.fail(link.Consumer, "several jobs provide it", found...)
	case explicit:
		r.fail(link.Consumer, fmt.Sprintf("no job provides a link %q of the type %q", asked.from, wanted.Type)+r.otherType(asked.from), r.orElsewhere(typed, wanted.Type)...)
	case wanted.Optional:
		link.Why = none
	default:
		r.fail(link.Consumer, none+fmt.Sprintf("; add one that does, or describe it: consumes: {%s: {instances: [{address: ADDRESS}], properties: {}}}", wanted.Name), r.orElsewhere(nil, wanted.Type)...)
	}
	return link
}

// matching returns the providers of a type, and those among them that a request finds.
func matching(all []Provider, kind, from string, explicit bool) (found, typed []Provider) {
	for _, p := range all {
		if p.Type != kind {
			continue
		}
		typed = append(typed, p)
		if !explicit || p.called() == from {
			found = append(found, p)
		}
	}
	return found, typed
}

// fromOther fills a link from another deployment that shares it.
func (r *resolver) fromOther(link *Link, asked request) {
	shared, err := r.others.Shared(asked.deployment)
	if err != nil {
		r.fail(link.Consumer, err.Error())
		return
	}
	found, typed := matching(shared, link.Consumer.Type, asked.from, true)
	switch len(found) {
	case 1:
		r.connect(link, found[0], asked)
	case 0:
		r.fail(link.Consumer, fmt.Sprintf("the deployment %q shares no link %q of the type %q; its manifest shares one with provides: {NAME: {shared: true}}", asked.deployment, asked.from, link.Consumer.Type), typed...)
	default:
		r.fail(link.Consumer, fmt.Sprintf("several jobs of the deployment %q share it", asked.deployment), found...)
	}
}

// orElsewhere returns the providers of a type; if there are none, those that other
// deployments share.
func (r *resolver) orElsewhere(typed []Provider, kind string) []Provider {
	if len(typed) > 0 {
		return typed
	}
	return slices.DeleteFunc(r.others.Typed(kind), func(p Provider) bool { return p.Deployment == r.deployment })
}

// otherType returns the end of a message that says which jobs provide a link of the name
// with another type.
func (r *resolver) otherType(name string) string {
	for _, p := range r.providers {
		if p.called() == name {
			return fmt.Sprintf("; %s, but with the type %q", p.provides(r.deployment), p.Type)
		}
	}
	return ""
}

// connect fills in the provider of a link and its content.
func (r *resolver) connect(link *Link, p Provider, asked request) {
	if p.errand && len(p.Instances) == 0 && p.Group != link.Consumer.Group {
		r.fail(link.Consumer, p.provides(r.deployment)+fmt.Sprintf(", but a group with lifecycle: errand has addresses only while its errand runs; provide it in another group, or describe it: consumes: {%s: {instances: [{address: ADDRESS}], properties: {}}}", link.Consumer.Name))
		return
	}
	network := p.Default
	if asked.network != "" {
		network = asked.network
		if !slices.Contains(p.Networks, network) {
			why := fmt.Sprintf("network is %q, but the provider is not on that network, only on %s", network, strings.Join(p.Networks, ", "))
			if len(p.Networks) == 0 {
				why = fmt.Sprintf("network is %q, but the provider is a disk, which is on no network: remove it", network)
			}
			r.fail(link.Consumer, why)
			return
		}
	}
	link.Provider, link.Content = &p.End, p.content(network)
	if r.names != nil && p.Deployment == r.deployment && network != "" {
		r.names.use(link.Content, &p, network, asked)
	}
}
