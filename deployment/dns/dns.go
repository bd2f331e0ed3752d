// Package dns makes the DNS records of instances in the form in which the Director sends
// them to agents, and the names by which instances and links are found.
package dns

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Root is the domain of all names.
const Root = "bosh"

// Records are the names of instances, in the form that the Director sends to
// agents and that DNS servers on the VM read.
type Records struct {
	Records     [][2]string        `json:"records"` // pairs of address and name
	Version     uint64             `json:"version"`
	RecordKeys  []string           `json:"record_keys"`
	RecordInfos [][]any            `json:"record_infos"`     // values in the order of the keys
	Aliases     map[string][]Alias `json:"aliases,omitzero"` // by domain; nil: of one instance

	// Served are the ids of the instances whose VMs have a DNS server for the records.
	Served []string `json:"-"`
}

// Alias is what another name stands for: the instances whose jobs provide a link.
type Alias struct {
	Root               string  `json:"root_domain"`
	Group              string  `json:"group_id"` // number of the link
	HealthFilter       *string `json:"health_filter"`
	InitialHealthCheck *string `json:"initial_health_check"`
	PlaceholderType    *string `json:"placeholder_type"` // uuid: the domain begins with _, which stands for the id of an instance
}

// Instance has the parts of an instance's names.
type Instance struct {
	ID, AgentID, Group, Deployment, Zone string
	Index                                int
	Addresses                            map[string]string // by network
	Served                               bool              // its VM has a DNS server for the records
}

// recordKeys returns the keys of RecordInfos.
func recordKeys() []string {
	return []string{
		"id", "num_id", "instance_group", "group_ids", "az", "az_id", "network", "network_id", "deployment", "ip", "domain", "agent_id", "instance_index",
	}
}

// RecordsOf returns the records of the only instance of a deployment, one for each
// network, in the order of their names.
func RecordsOf(version uint64, i Instance) Records {
	d := Records{Records: [][2]string{}, Version: version, RecordKeys: recordKeys(), RecordInfos: [][]any{}}
	if i.Served {
		d.Served = append(d.Served, i.ID)
	}
	group, deployment := Label(i.Group), Label(i.Deployment)
	// This deployment has one group, one instance and no zone. A Director uses the ids of
	// its database, which begin at 1.
	const first = "1"
	for n, name := range slices.Sorted(maps.Keys(i.Addresses)) {
		address, network := i.Addresses[name], Label(name)
		d.Records = append(d.Records, [2]string{address, nameOf(i, name)})
		d.RecordInfos = append(d.RecordInfos, []any{
			i.ID, first, group, []string{first}, nil, nil, network, strconv.Itoa(n + 1), deployment, address, Root, i.AgentID, i.Index,
		})
	}
	return d
}

// nameOf returns the name of an instance on a network.
func nameOf(i Instance, network string) string {
	return Name(i.ID, i.Group, network, i.Deployment)
}

// Name returns a name in which group, network and deployment are written out.
func Name(host, group, network, deployment string) string {
	return strings.Join([]string{host, Label(group), Label(network), Label(deployment), Root}, ".")
}

// Records returns the records of instances, in their order, with one record for each
// network. The names have numbers in n.
func (n *Names) Records(version uint64, instances []Instance) Records {
	d := Records{
		Records: [][2]string{}, Version: version, RecordKeys: recordKeys(), RecordInfos: [][]any{}, Aliases: map[string][]Alias{},
	}
	for _, i := range instances {
		if i.Served {
			d.Served = append(d.Served, i.ID)
		}
		groups := []string{number(n.Groups, i.Group)}
		for _, link := range n.Provided[i.Group] {
			groups = append(groups, number(n.Links, link))
		}
		var zone, zoneID any
		if i.Zone != "" {
			zone, zoneID = i.Zone, number(n.Zones, i.Zone)
		}
		for _, network := range slices.Sorted(maps.Keys(i.Addresses)) {
			address := i.Addresses[network]
			d.Records = append(d.Records, [2]string{address, nameOf(i, network)})
			d.RecordInfos = append(d.RecordInfos, []any{
				i.ID, number(n.Instances, i.ID), Label(i.Group), groups, zone, zoneID, Label(network), number(n.Networks, network),
				Label(i.Deployment), address, Root, i.AgentID, i.Index,
			})
		}
	}
	for _, a := range n.Aliases {
		d.Aliases[a.Domain] = append(d.Aliases[a.Domain], Alias{
			Root: Root, Group: number(n.Links, a.Link),
			HealthFilter: optional(a.HealthFilter), InitialHealthCheck: optional(a.InitialHealthCheck), PlaceholderType: optional(a.PlaceholderType),
		})
	}
	return d
}

// optional returns nil for an empty text.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Label returns a name in the form that domain names allow.
func Label(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_':
			return '-'
		case r == '-', '0' <= r && r <= '9', 'a' <= r && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(strings.TrimSpace(name)))
}

// Valid reports whether a name has only characters of domain names, of placeholders and of
// wildcards: real agents write every name to /etc/hosts as it is.
func Valid(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("-_.*", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// number returns a number as it is written in records and names.
func number(of map[string]int, name string) string { return strconv.Itoa(of[name]) }

// highest returns the highest number.
func highest(of map[string]int) int {
	most := 0
	for _, n := range of {
		most = max(most, n)
	}
	return most
}
