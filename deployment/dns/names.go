package dns

import (
	"maps"
	"slices"
	"strings"
)

// Names are the numbers that stand for groups, links, zones, networks and instances in
// names, and the other inputs of the records of a deployment. A name keeps its number for
// ever, and no number is given twice, because a job may still use an old DNS name.
type Names struct {
	// Groups and Links have common numbers. Links are named LINK-TYPE, with the name that
	// the manifest gives the link.
	Groups    map[string]int `json:"groups,omitempty"`
	Links     map[string]int `json:"links,omitempty"`
	Zones     map[string]int `json:"azs,omitempty"`
	Networks  map[string]int `json:"networks,omitempty"`
	Instances map[string]int `json:"instances,omitempty"` // by id
	// LastGroup and LastInstance are the highest numbers that were given so far.
	LastGroup    int `json:"last_group,omitempty"`
	LastInstance int `json:"last_instance,omitempty"`

	// Dynamic has the network, by group, on which the cloud chooses the address by which
	// others reach the instances.
	Dynamic  map[string]string   `json:"dynamic_networks,omitempty"`
	Provided map[string][]string `json:"provided,omitempty"` // by group: the links that its jobs provide, sorted
	Aliases  []LinkAlias         `json:"aliases,omitempty"`
	// Version is that of the records that were sent last, and Digest is their digest.
	Version uint64 `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"`
}

// LinkAlias is another name of the instances that provide a link.
type LinkAlias struct {
	Domain             string `json:"domain"`
	Link               string `json:"link"` // as in Names.Links
	HealthFilter       string `json:"health_filter,omitempty"`
	InitialHealthCheck string `json:"initial_health_check,omitempty"`
	PlaceholderType    string `json:"placeholder_type,omitempty"`
}

// Known are the names of a deployment that get numbers, in the order in which they get
// them.
type Known struct {
	Groups, Zones, Networks, Instances []string
	// Renamed has the former name of a group that was renamed, by its new name: the group
	// keeps its number.
	Renamed map[string]string
	Dynamic map[string]string // as in Names
}

// With returns names with a number for each name of k. Instances that are not in k lose
// their numbers. n may be nil.
func (n *Names) With(k Known) *Names {
	next := n.clone()
	for _, now := range slices.Sorted(maps.Keys(k.Renamed)) {
		former := k.Renamed[now]
		id, numbered := next.Groups[former]
		if _, known := next.Groups[now]; numbered && !known && !slices.Contains(k.Groups, former) {
			delete(next.Groups, former)
			next.Groups[now] = id
		}
	}
	for _, name := range k.Groups {
		give(next.Groups, name, &next.LastGroup)
	}
	for _, list := range []struct {
		of    map[string]int
		names []string
	}{{next.Zones, k.Zones}, {next.Networks, k.Networks}} {
		last := highest(list.of)
		for _, name := range list.names {
			give(list.of, name, &last)
		}
	}
	maps.DeleteFunc(next.Instances, func(id string, _ int) bool { return !slices.Contains(k.Instances, id) })
	for _, id := range k.Instances {
		give(next.Instances, id, &next.LastInstance)
	}
	next.Dynamic = k.Dynamic
	return next
}

// WithLinks returns names with a number for each provided link. provided has the links by
// group; new numbers are given in the order of groups.
func (n *Names) WithLinks(groups []string, provided map[string][]string, aliases []LinkAlias) *Names {
	next := n.clone()
	next.Provided, next.Aliases = map[string][]string{}, aliases
	for _, group := range groups {
		list := slices.Compact(slices.Sorted(slices.Values(provided[group])))
		for _, link := range list {
			give(next.Links, link, &next.LastGroup)
		}
		if len(list) > 0 {
			next.Provided[group] = list
		}
	}
	return next
}

// After returns the names of a record that an older one replaces: n, those of the older
// record, with all numbers of later ones that n has not given to others. Numbers and
// versions continue after the highest of them: agents have names with these numbers, and
// accept only higher versions. Each may be nil.
func (n *Names) After(later ...*Names) *Names {
	later = slices.DeleteFunc(slices.Clone(later), func(o *Names) bool { return o == nil })
	if n == nil && len(later) == 0 {
		return nil
	}
	if n == nil {
		n = later[0]
	}
	next := n.clone()
	for _, o := range later {
		for _, of := range []struct {
			to, from map[string]int
			taken    []map[string]int // maps with numbers that to must not have
		}{
			{next.Groups, o.Groups, []map[string]int{next.Groups, next.Links}},
			{next.Links, o.Links, []map[string]int{next.Groups, next.Links}},
			{next.Zones, o.Zones, []map[string]int{next.Zones}},
			{next.Networks, o.Networks, []map[string]int{next.Networks}},
			{next.Instances, o.Instances, []map[string]int{next.Instances}},
		} {
			for name, number := range of.from {
				taken := slices.ContainsFunc(of.taken, func(m map[string]int) bool { return slices.Contains(slices.Collect(maps.Values(m)), number) })
				if _, known := of.to[name]; !known && !taken {
					of.to[name] = number
				}
			}
		}
		next.LastGroup, next.LastInstance = max(next.LastGroup, o.LastGroup), max(next.LastInstance, o.LastInstance)
		if o.Version > next.Version {
			next.Version, next.Digest = o.Version, "" // agents have other records of this version
		}
	}
	return next
}

// give gives a name a number, unless it has one or is empty.
func give(of map[string]int, name string, last *int) {
	if _, known := of[name]; known || name == "" {
		return
	}
	*last++
	of[name] = *last
}

// clone returns a copy whose maps are not nil.
func (n *Names) clone() *Names {
	var next Names
	if n != nil {
		next = *n
	}
	for _, of := range []*map[string]int{&next.Groups, &next.Links, &next.Zones, &next.Networks, &next.Instances} {
		if *of = maps.Clone(*of); *of == nil {
			*of = map[string]int{}
		}
	}
	return &next
}

// Style says how names are written.
type Style struct {
	Short bool // with numbers: features.use_short_dns_addresses
	Links bool // by the number of the link, which needs Short: features.use_link_dns_names
}

// Encoder makes the names of a deployment.
type Encoder struct {
	Deployment string
	Names      *Names
	Style      Style
}

// Instance returns the name of an instance on a network.
func (e *Encoder) Instance(id, group, network string) string {
	if !e.Style.Short {
		return Name(id, group, network, e.Deployment)
	}
	return e.short(e.one(id), network, number(e.Names.Groups, group))
}

// OfLink returns the name of an instance whose group provides a link.
func (e *Encoder) OfLink(id, group, link, network string) string {
	if !e.Style.Links {
		return e.Instance(id, group, network)
	}
	return e.short(e.one(id), network, number(e.Names.Links, link))
}

// Link returns the name of all instances that provide a link.
func (e *Encoder) Link(group, link, network string) string {
	switch {
	case e.Style.Links:
		return e.short("", network, number(e.Names.Links, link))
	case e.Style.Short:
		return e.short("", network, number(e.Names.Groups, group))
	}
	return Name("q-s0", group, network, e.Deployment)
}

// Query has the parts of Link from which a template makes the names of some of the
// instances: those of zones, or one of the given ids.
func (e *Encoder) Query(group, link, network string, ids []string) map[string]any {
	zones, instances := map[string]any{}, map[string]any{}
	for zone := range e.Names.Zones {
		zones[zone] = number(e.Names.Zones, zone)
	}
	all := e.Link(group, link, network)
	q := map[string]any{"azs": zones, "network": "", "group": all[strings.Index(all, ".")+1:]}
	if e.Style.Short || e.Style.Links {
		for _, id := range ids {
			instances[id] = e.one(id)
		}
		q["network"], q["instances"] = "n"+number(e.Names.Networks, network), instances
	}
	return q
}

// one returns the part of a short name that selects one instance.
func (e *Encoder) one(id string) string { return "m" + number(e.Names.Instances, id) }

// short returns a short name. Its parts are sorted, as in a Director's names.
func (e *Encoder) short(instance, network, group string) string {
	query := []string{"q-" + instance + "n" + number(e.Names.Networks, network) + "s0", "q-g" + group, Root}
	return strings.Join(query, ".")
}
