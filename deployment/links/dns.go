package links

import (
	"fmt"
	"slices"

	"bootstrap/deployment/dns"
	"bootstrap/templates"
)

// numbered returns the name by which the link has a number.
func (p *Provider) numbered() string { return p.called() + "-" + p.Type }

// number gives each link a number. names is nil if links have no names.
func (r *resolver) number(groups []Group, names *DNS) {
	if names == nil {
		return
	}
	var order []string
	for i := range groups {
		order = append(order, groups[i].Name)
	}
	provided := map[string][]string{}
	var aliases []dns.LinkAlias
	for _, p := range r.providers {
		if p.Job == "" { // a disk has no address
			continue
		}
		provided[p.Group] = append(provided[p.Group], p.numbered())
		for _, a := range p.aliases {
			if a.Link = p.numbered(); !slices.Contains(aliases, a) {
				aliases = append(aliases, a)
			}
		}
	}
	with := *names
	with.Names = names.Names.WithLinks(order, provided, aliases)
	r.names = &with
}

// use writes the names of a link into its content, as the Director does: address is always
// a name, with filters if a template wants that, and the addresses of instances are names if the job or the deployment wants them,
// or if an address is not known.
func (d *DNS) use(content map[string]any, p *Provider, network string, asked request) {
	wanted := d.Addresses
	if asked.addresses != nil {
		wanted = !*asked.addresses
	}
	content["address"] = d.Link(p.Group, p.numbered(), network)
	list, _ := content["instances"].([]any)
	var ids []string
	for i, in := range p.Instances {
		ids = append(ids, in.ID)
		if one, ok := list[i].(map[string]any); ok && (wanted || in.Addresses[network] == "") {
			one["address"] = d.OfLink(in.ID, p.Group, p.numbered(), network)
		}
	}
	if more, ok := content[templates.LinkSpec].(map[string]any); ok {
		more["use_short_dns_addresses"], more["use_link_dns_names"] = d.Style.Short, d.Style.Links
	}
	content["query"] = d.Query(p.Group, p.numbered(), network, ids)
}

// readAliases reads the aliases of a provided link. why says what is wrong with them;
// empty: nothing.
func readAliases(value any) (list []dns.LinkAlias, why string) {
	items, ok := value.([]any)
	if !ok && value != nil {
		return nil, "its key \"aliases\" must be a list"
	}
	for _, item := range items {
		m, _ := item.(map[string]any)
		var a dns.LinkAlias
		known := map[string]*string{
			"domain": &a.Domain, "health_filter": &a.HealthFilter, "initial_health_check": &a.InitialHealthCheck, "placeholder_type": &a.PlaceholderType,
		}
		for _, key := range sortedKeys(m) {
			to := known[key]
			if to == nil {
				return nil, unknownKey("aliases", key, sortedKeys(known))
			}
			if *to, ok = m[key].(string); !ok && m[key] != nil {
				return nil, fmt.Sprintf("the key %q of an alias must be a text", key)
			}
		}
		if a.Domain == "" {
			return nil, "each alias must have a domain: aliases: [{domain: db.internal}]"
		}
		if !dns.Valid(a.Domain) {
			return nil, fmt.Sprintf("the domain %q of an alias may only contain letters, digits, \"-\", \"_\", \".\" and \"*\"", a.Domain)
		}
		list = append(list, a)
	}
	return list, ""
}
