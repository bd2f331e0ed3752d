// Package dns makes the records of an instance's names, in the form in which the
// Director sends them to agents.
package dns

import (
	"slices"
	"strconv"
	"strings"
)

// root is the domain of all names.
const root = "bosh"

// Records are the names of instances, in the form that the Director sends to
// agents and that DNS servers on the VM read.
type Records struct {
	Records     [][2]string `json:"records"` // pairs of address and name
	Version     uint64      `json:"version"`
	RecordKeys  []string    `json:"record_keys"`
	RecordInfos [][]any     `json:"record_infos"` // values in the order of the keys
}

// Instance has the parts of an instance's names.
type Instance struct {
	ID, AgentID, Group, Deployment string
	Index                          int
	Addresses                      map[string]string // by network
}

// RecordsOf returns the records of one instance, one for each network, in the
// order of their names.
func RecordsOf(version uint64, i Instance) Records {
	d := Records{
		Records: [][2]string{},
		Version: version,
		RecordKeys: []string{
			"id", "num_id", "instance_group", "group_ids", "az", "az_id", "network", "network_id", "deployment", "ip", "domain", "agent_id", "instance_index",
		},
		RecordInfos: [][]any{},
	}
	group, deployment := Label(i.Group), Label(i.Deployment)
	names := make([]string, 0, len(i.Addresses))
	for name := range i.Addresses {
		names = append(names, name)
	}
	slices.Sort(names)
	// This deployment has one group, one instance and no zone. A Director uses the ids of
	// its database, which begin at 1.
	const first = "1"
	for n, name := range names {
		address, network := i.Addresses[name], Label(name)
		d.Records = append(d.Records, [2]string{address, strings.Join([]string{i.ID, group, network, deployment, root}, ".")})
		d.RecordInfos = append(d.RecordInfos, []any{
			i.ID, first, group, []string{first}, nil, nil, network, strconv.Itoa(n + 1), deployment, address, root, i.AgentID, i.Index,
		})
	}
	return d
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
