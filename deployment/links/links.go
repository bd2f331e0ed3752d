// Package links connects the jobs of a deployment with many instance groups: for each
// link that a job consumes, it finds the job that provides it, and returns what templates
// see of it. It is pure. The rules are those of BOSH's Director; in addition, names in
// consumes and provides that no job knows are errors.
package links

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/internal/spelling"
	"bootstrap/templates"
)

// Group is an instance group with its jobs and instances.
type Group struct {
	Name string
	// Context of each job has its properties and the links of the manifest.
	Jobs     []*templates.Job
	Disks    []string // names of persistent disks that other groups may consume as links of the type disk
	Networks []string
	Default  string // the network whose addresses other groups use
	// Instances are in the order in which consumers see them.
	Instances []Instance
}

// Instance is an instance as consumers see it.
type Instance struct {
	ID        string
	Index     int
	Zone      string
	Bootstrap bool
	Addresses map[string]string // by network: an IP address or a name
}

// End is one end of a link: a job that provides or consumes it.
type End struct {
	Deployment string
	Group      string
	Job        string // empty: a disk
	Name       string // in the job's spec
	As         string // its name in the manifest, if that differs
	Type       string
	Path       string // of the job in the manifest
}

// Link is a link that a job consumes, and the job that provides it.
type Link struct {
	Consumer End
	Provider *End           // nil: the manifest describes the link, or it has no provider
	Content  map[string]any // in the form of templates.Context.Links; nil: no provider
	Why      string         // why it has no provider, for people
}

// disk is the type of links to persistent disks.
const disk = "disk"

// offer is a link that a group provides.
type offer struct {
	End
	name       string // the name that consumers ask for: its alias or name
	group      *Group
	properties map[string]any
	shared     bool
}

// Resolve returns the links of all jobs, in the order of groups, jobs and specs. The
// error is an *Unresolved that lists all problems.
func Resolve(deployment string, groups []Group) ([]Link, error) {
	r := resolver{deployment: deployment}
	for i := range groups {
		for _, job := range groups[i].Jobs {
			r.checkNames(&groups[i], job)
			r.offers = append(r.offers, r.offered(&groups[i], job)...)
		}
		for _, name := range groups[i].Disks {
			r.offers = append(r.offers, offer{
				End:  End{Deployment: deployment, Group: groups[i].Name, Name: name, Type: disk},
				name: name, group: &groups[i], properties: map[string]any{"name": name},
			})
		}
	}
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
	return r.links, nil
}

// resolver resolves the links of one deployment.
type resolver struct {
	deployment string
	offers     []offer
	links      []Link
	problems   []Problem
}

// end returns the end of a link at a job.
func (r *resolver) end(g *Group, job *templates.Job, l artifact.Link) End {
	return End{Deployment: r.deployment, Group: g.Name, Job: job.Name, Name: l.Name, Type: l.Type, Path: job.Context.Path}
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
			if !slices.Contains(names, name) {
				r.problems = append(r.problems, Problem{
					Consumer: End{Deployment: r.deployment, Group: g.Name, Job: job.Name, Name: name, Path: job.Context.Path},
					Why:      fmt.Sprintf("%s has the name %q, which the job does not know%s", list.key, name, spelling.Suggest(name, names)),
				})
			}
		}
	}
}

// offered returns the links that a job provides.
func (r *resolver) offered(g *Group, job *templates.Job) []offer {
	var offers []offer
	for _, l := range job.Provides {
		o := offer{End: r.end(g, job, l), name: l.Name, group: g, properties: job.Shares(l)}
		if said, given := job.Context.Provides[l.Name]; given {
			m, ok := said.(map[string]any)
			switch {
			case said == "nil":
				continue
			case !ok:
				r.fail(o.End, "the manifest must describe it as a map, or as nil in quotes")
				continue
			}
			if as, ok := m["as"].(string); ok {
				o.As, o.name = as, as
			}
			o.shared, _ = m["shared"].(bool)
		}
		offers = append(offers, o)
	}
	return offers
}

// fail adds a problem.
func (r *resolver) fail(of End, why string, candidates ...End) {
	r.problems = append(r.problems, Problem{Consumer: of, Why: why, Candidates: candidates})
}

// resolve finds one link.
func (r *resolver) resolve(g *Group, job *templates.Job, wanted artifact.Link) Link {
	link := Link{Consumer: r.end(g, job, wanted)}
	said, explicit := job.Context.Consumes[wanted.Name]
	var asked request
	if explicit {
		if said == "nil" {
			link.Why = "the manifest says that there is none"
			if !wanted.Optional {
				r.fail(link.Consumer, "the manifest says nil, but the job cannot do without it")
			}
			return link
		}
		m, ok := said.(map[string]any)
		if !ok {
			r.fail(link.Consumer, "the manifest must describe it as a map, or as nil in quotes")
			return link
		}
		if why := asked.read(m, wanted.Name); why != "" {
			r.fail(link.Consumer, why)
			return link
		}
		if asked.manual {
			link.Content = manual(m)
			return link
		}
		if asked.deployment != "" && asked.deployment != r.deployment {
			r.fail(link.Consumer, fmt.Sprintf("it is to come from the deployment %q, which is unknown here", asked.deployment))
			return link
		}
	}
	var found, typed []offer
	for _, o := range r.offers {
		if o.Type != wanted.Type {
			continue
		}
		typed = append(typed, o)
		if !explicit || o.name == asked.from {
			found = append(found, o)
		}
	}
	switch {
	case len(found) == 1:
		r.connect(&link, found[0], asked)
	case len(found) > 1:
		r.fail(link.Consumer, "several jobs provide it", ends(found)...)
	case explicit:
		r.fail(link.Consumer, fmt.Sprintf("no job provides a link %q of the type %q", asked.from, wanted.Type), ends(typed)...)
	case wanted.Optional:
		link.Why = fmt.Sprintf("no job provides a link of the type %q", wanted.Type)
	default:
		r.fail(link.Consumer, fmt.Sprintf("no job provides a link of the type %q", wanted.Type))
	}
	return link
}

// connect fills in the provider of a link and its content.
func (r *resolver) connect(link *Link, o offer, asked request) {
	network := o.group.Default
	if asked.network != "" {
		network = asked.network
		if !slices.Contains(o.group.Networks, network) {
			r.fail(link.Consumer, fmt.Sprintf("network is %q, but the provider is not on that network, only on %s", network, strings.Join(o.group.Networks, ", ")), o.End)
			return
		}
	}
	link.Provider = &o.End
	link.Content = map[string]any{"instance_group": o.Group, "properties": o.properties, "instances": []any{}}
	if o.Type == disk && o.Job == "" {
		return
	}
	instances := []any{}
	for _, in := range o.group.Instances {
		zone := any(in.Zone)
		if in.Zone == "" {
			zone = nil
		}
		instances = append(instances, map[string]any{
			"name": o.Group, "id": in.ID, "index": in.Index, "az": zone, "bootstrap": in.Bootstrap, "address": in.Addresses[network],
		})
	}
	link.Content["instances"] = instances
}
