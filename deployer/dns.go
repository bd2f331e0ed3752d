package deployer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/deployer/report"
	"bootstrap/internal/digest"
	"bootstrap/state"
)

// dnsRoot is the domain of all names.
const dnsRoot = "bosh"

// dnsRecords are the names of instances, in the form that the Director sends to
// agents and that DNS servers on the VM read.
type dnsRecords struct {
	Records     [][2]string `json:"records"` // address, name
	Version     uint64      `json:"version"`
	RecordKeys  []string    `json:"record_keys"`
	RecordInfos [][]any     `json:"record_infos"` // a value for each key
}

// dnsInstance contains the parts of an instance's names.
type dnsInstance struct {
	ID, AgentID, Group, Deployment string
	Addresses                      map[string]string // by network
}

// recordsOf returns the records of one instance, one for each network, in the
// order of their names.
func recordsOf(version uint64, i dnsInstance) dnsRecords {
	d := dnsRecords{
		Records: [][2]string{},
		Version: version,
		RecordKeys: []string{
			"id", "num_id", "instance_group", "group_ids", "az", "az_id", "network", "network_id", "deployment", "ip", "domain", "agent_id", "instance_index",
		},
		RecordInfos: [][]any{},
	}
	group, deployment := dnsLabel(i.Group), dnsLabel(i.Deployment)
	names := make([]string, 0, len(i.Addresses))
	for name := range i.Addresses {
		names = append(names, name)
	}
	slices.Sort(names)
	// There is one group, one instance and no zone. A Director numbers them
	// with the ids of its database, which begin at 1.
	const first = "1"
	for n, name := range names {
		address, network := i.Addresses[name], dnsLabel(name)
		d.Records = append(d.Records, [2]string{address, strings.Join([]string{i.ID, group, network, deployment, dnsRoot}, ".")})
		d.RecordInfos = append(d.RecordInfos, []any{
			i.ID, first, group, []string{first}, nil, nil, network, strconv.Itoa(n + 1), deployment, address, dnsRoot, i.AgentID, 0,
		})
	}
	return d
}

// dnsLabel returns a name in the form for domain names.
func dnsLabel(name string) string {
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

// dnsAddresses returns the known addresses of the instance by network.
func (j *jobs) dnsAddresses() map[string]string {
	addresses := map[string]string{}
	for name, network := range j.templateNetworks() {
		settings, _ := network.(map[string]any)
		if ip, _ := settings["ip"].(string); ip != "" {
			addresses[name] = ip
		}
	}
	return addresses
}

// sendDNS sends the VM the records of its instance, if the manifest asks for
// them, and saves their version: agents accept only newer ones. It warns if the
// agent does not know the message.
func (j *jobs) sendDNS(ctx context.Context) error {
	if !j.t.About.UseDNS {
		return nil
	}
	st := j.t.State.Get()
	records := recordsOf(st.Own.DNSVersion+1, dnsInstance{
		ID: j.t.InstanceID(), AgentID: st.Own.AgentID, Group: j.t.About.Group, Deployment: j.t.About.Name, Addresses: j.dnsAddresses(),
	})
	return j.t.Out.Do("Sending DNS records", func(s *report.Stage) error {
		blob, err := j.putDNS(ctx, records, s.Progress)
		if err != nil {
			return fmt.Errorf("cannot upload the DNS records: %w", err)
		}
		err = j.agent.SyncDNS(ctx, blob, records.Version)
		unknown := agent.UnknownMessage(err)
		if err != nil && !unknown {
			return err
		}
		// An agent that does not know the message will not know it on the next
		// run either.
		err = j.t.State.Update(func(st *state.State) error {
			st.Own.DNSVersion = records.Version
			return nil
		})
		if err == nil && unknown {
			s.Warning("The agent on the VM is too old to take DNS records: features.use_dns_addresses has no effect with this stemcell")
			return report.Skip("the agent does not support DNS records")
		}
		return err
	})
}

// putDNS uploads the records as a blob.
func (j *jobs) putDNS(ctx context.Context, records dnsRecords, progress func(done, total int64)) (agent.Blob, error) {
	data, err := json.Marshal(records)
	if err != nil {
		return agent.Blob{}, err
	}
	file, err := os.CreateTemp(j.t.Dir, "dns-")
	if err != nil {
		return agent.Blob{}, err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(data)
	if e := file.Close(); err == nil {
		err = e
	}
	if err != nil {
		return agent.Blob{}, err
	}
	sum, err := digest.SHA256(bytes.NewReader(data))
	if err != nil {
		return agent.Blob{}, err
	}
	id := uuid.NewString()
	return agent.Blob{BlobstoreID: id, SHA1: sum.String()}, j.agent.PutBlob(ctx, id, file.Name(), progress)
}
