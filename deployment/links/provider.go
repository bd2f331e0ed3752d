package links

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/deployment/dns"
	"bootstrap/templates"
)

// Provider is a link that a job or a disk provides, with all that consumers may see.
type Provider struct {
	End
	Properties map[string]any `json:"properties,omitempty"`
	Networks   []string       `json:"networks,omitempty"`
	Default    string         `json:"default_network,omitempty"` // consumers see the addresses on this network
	Instances  []Instance     `json:"instances,omitempty"`

	shared  bool            // other deployments may consume it
	errand  bool            // its group has lifecycle errand
	aliases []dns.LinkAlias // without their Link
	dns     *DNS            // set by Find; nil: the deployment has no DNS names
}

// called returns the name by which consumers find the link.
func (p *Provider) called() string {
	if p.As != "" {
		return p.As
	}
	return p.Name
}

// content returns what templates see of the link, with the addresses on a network.
func (p *Provider) content(network string) map[string]any {
	instances := []any{}
	for _, in := range p.Instances {
		zone := any(in.Zone)
		if in.Zone == "" {
			zone = nil
		}
		instances = append(instances, map[string]any{
			"name": p.Group, "id": in.ID, "index": in.Index, "az": zone, "bootstrap": in.Bootstrap, "address": in.Addresses[network],
		})
	}
	return map[string]any{"instance_group": p.Group, "properties": p.Properties, "instances": instances, templates.LinkSpec: p.spec(network)}
}

// spec returns what spec.links of templates has besides, as with a Director. A link without
// instances has its name as address: that leads nowhere, but templates can be rendered.
func (p *Provider) spec(network string) map[string]any {
	if p.Job == "" { // a disk
		return map[string]any{"deployment_name": p.Deployment, "group_name": p.numbered()}
	}
	more := map[string]any{
		"deployment_name": p.Deployment, "domain": dns.Root, "default_network": network, "group_name": p.numbered(),
		"use_short_dns_addresses": false, "use_link_dns_names": false,
	}
	if len(p.Instances) == 0 {
		more[templates.LinkName] = dns.Name("q-s0", p.Group, network, p.Deployment)
	}
	return more
}

// provided returns the links that the jobs and disks of a group provide.
func (r *resolver) provided(g *Group) []Provider {
	var all []Provider
	for _, job := range g.Jobs {
		seen := map[string]bool{}
		for _, l := range job.Provides {
			p := Provider{End: r.end(g, job, l), Networks: g.Networks, Default: g.Default, Instances: g.Instances, errand: g.Errand}
			if seen[l.Name] {
				r.fail(p.End, "custom_provider_definitions defines it, but the spec of the job already provides a link of this name: choose another name")
				continue
			}
			seen[l.Name] = true
			given, described := job.Context.Provides[l.Name]
			hidden := described && (given == "nil" || given == nil && r.lenient)
			if described && !hidden {
				if why := p.read(given); why != "" {
					r.fail(p.End, why)
					continue
				}
			}
			var undefined []string
			if p.Properties, undefined = job.Exported(l); len(undefined) > 0 && !r.lenient {
				r.fail(p.End, undefinedIn(job, undefined))
				continue
			}
			r.listed = append(r.listed, p)
			if !hidden {
				all = append(all, p)
			}
		}
	}
	return append(all, r.disksOf(g)...)
}

// disksOf returns the links to the named disks of a group.
func (r *resolver) disksOf(g *Group) []Provider {
	var all []Provider
	for _, name := range g.Disks {
		all = append(all, Provider{
			End: End{Deployment: r.deployment, Group: g.Name, Name: name, Type: disk}, Properties: map[string]any{"name": name},
		})
	}
	return all
}

// undefinedIn says that a provided link has properties that its job does not have.
func undefinedIn(job *templates.Job, names []string) string {
	var set []string
	for _, name := range names {
		set = append(set, job.Context.PropertiesPath+"."+name)
	}
	return fmt.Sprintf("it shares the property %s, which the spec of the job does not define: set %s", strings.Join(names, ", "), strings.Join(set, " and "))
}

// providesKeys are the keys of an entry of provides.
var providesKeys = [...]string{"as", "shared", "aliases"}

// read reads an entry of provides. why says what is wrong with it; empty: nothing.
func (p *Provider) read(given any) (why string) {
	m, ok := given.(map[string]any)
	if !ok {
		return notMap
	}
	for _, key := range sortedKeys(m) {
		value := m[key]
		switch key {
		case "as":
			if p.As, ok = value.(string); !ok || p.As == "" {
				return "its key \"as\" must be a text"
			}
			if p.As == p.Name {
				p.As = ""
			}
		case "aliases":
			if p.aliases, why = readAliases(value); why != "" {
				return why
			}
		case "shared":
			if p.shared, ok = value.(bool); !ok && value != nil {
				return "its key \"shared\" must be true or false"
			}
		default:
			if !slices.Contains(providesKeys[:], key) {
				return unknownKey("provides."+p.Name, key, providesKeys[:])
			}
		}
	}
	return ""
}
