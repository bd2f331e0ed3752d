package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Server is the name of the job with a DNS server for the records of its VM, and of its
// process.
const Server = "bosh-dns"

// manyZones is the number of zones of a group above which there are no names for each
// combination of them.
const manyZones = 4

// For returns the records for the VM of an instance. With a DNS server on the VM, they have
// no queries: programs would find unhealthy instances in /etc/hosts before they ask it.
func (d Records) For(id string) Records {
	if slices.Contains(d.Served, id) {
		return d
	}
	return d.forHosts()
}

// forHosts returns the records with more pairs of address and name: the queries that
// templates get from a Director, and the aliases. Agents write all pairs to /etc/hosts, so
// a VM without a DNS server resolves these names. Nothing there knows which instances are
// healthy: a name for the healthy ones leads to all, and the unhealthy ones have no name.
func (d Records) forHosts() Records {
	rows := d.rows()
	zones := map[string][]string{} // by the part after the query
	for _, r := range rows {
		for _, target := range r.targets() {
			if r.zone != "" && !slices.Contains(zones[target.name], r.zone) {
				zones[target.name] = append(zones[target.name], r.zone)
			}
		}
	}
	combined := map[string][][]string{}
	for target, found := range zones {
		combined[target] = combinations(found)
	}
	out := d
	out.Records = slices.Clone(d.Records)
	has := map[[2]string]bool{}
	for _, pair := range d.Records {
		has[pair] = true
	}
	for _, r := range rows {
		for _, name := range append(r.queries(combined), r.aliases(d.Aliases)...) {
			pair := [2]string{r.address, name}
			if !has[pair] {
				has[pair] = true
				out.Records = append(out.Records, pair)
			}
		}
	}
	return out
}

// row has the values of one of RecordInfos that names are made of.
type row struct {
	id, number, group, network, networkID, deployment, domain string
	zone                                                      string // its id, empty: none
	address, agentID, index                                   string
	groupIDs                                                  []string
}

// rows returns the records with an address.
func (d Records) rows() []row {
	var out []row
	for _, info := range d.RecordInfos {
		text := func(key string) string {
			if i := slices.Index(d.RecordKeys, key); i >= 0 && i < len(info) && info[i] != nil {
				return fmt.Sprint(info[i])
			}
			return ""
		}
		r := row{
			id: text("id"), number: text("num_id"), group: text("instance_group"), network: text("network"), networkID: text("network_id"),
			deployment: text("deployment"), domain: text("domain"), zone: text("az_id"), address: text("ip"), agentID: text("agent_id"), index: text("instance_index"),
		}
		if i := slices.Index(d.RecordKeys, "group_ids"); i >= 0 && i < len(info) {
			r.groupIDs, _ = info[i].([]string)
		}
		if _, err := netip.ParseAddr(r.address); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// target is the part of a name after the query.
type target struct {
	name    string
	network string // the criterion of its network, empty if the name has it
}

// targets returns the parts of names that lead to the group of the row, in the long and the
// short form.
func (r row) targets() []target {
	out := []target{{name: strings.Join([]string{r.group, r.network, r.deployment, r.domain}, ".")}}
	for _, id := range r.groupIDs {
		out = append(out, target{name: "q-g" + id + "." + r.domain, network: "n" + r.networkID})
	}
	return out
}

// queries returns names that lead to the row: those of its group, of its group in each of
// the combinations of zones, and its own.
func (r row) queries(combined map[string][][]string) []string {
	var out []string
	if r.agentID != "" {
		out = append(out, r.agentID+".bosh-agent-id")
	}
	for _, target := range r.targets() {
		add := func(criteria ...string) {
			if target.network != "" {
				criteria = append(criteria, target.network)
			}
			slices.Sort(criteria)
			out = append(out, "q-"+strings.Join(criteria, "")+"."+target.name)
		}
		for _, status := range []string{"s0", "s3", "s4"} { // smart, healthy, all
			add(status)
			add(status, "y0")
			add(status, "y1")
			add(status, "m"+r.number)
			add(status, "i"+r.index)
			for _, zones := range combined[target.name] {
				if slices.Contains(zones, "a"+r.zone) {
					add(append([]string{status}, zones...)...)
				}
			}
		}
	}
	return out
}

// aliases returns the aliases that lead to the row.
func (r row) aliases(all map[string][]Alias) []string {
	var out []string
	for name, meanings := range all {
		if !Valid(name) {
			continue
		}
		for _, alias := range meanings {
			if alias.Root != r.domain || !slices.Contains(r.groupIDs, alias.Group) || alias.HealthFilter != nil && *alias.HealthFilter == "unhealthy" {
				continue
			}
			if alias.PlaceholderType != nil && *alias.PlaceholderType == "uuid" {
				out = append(out, strings.Replace(name, "_", r.id, 1))
			} else if !strings.Contains(name, "_") {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// combinations returns the sets of zones that queries ask for, as their criteria: each set,
// or only each zone and all if there are many.
func combinations(zones []string) [][]string {
	var out [][]string
	if len(zones) > manyZones {
		all := make([]string, 0, len(zones))
		for _, zone := range zones {
			all = append(all, "a"+zone)
			out = append(out, []string{"a" + zone})
		}
		return append(out, all)
	}
	for set := 1; set < 1<<len(zones); set++ {
		var some []string
		for i, zone := range zones {
			if set&(1<<i) != 0 {
				some = append(some, "a"+zone)
			}
		}
		out = append(out, some)
	}
	return out
}
