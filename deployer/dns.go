package deployer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/deployer/report"
	"bootstrap/deployment/dns"
	deployed "bootstrap/deployment/record"
	"bootstrap/internal/digest"
	"bootstrap/state"
)

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

// sendDNS sends the VM the DNS records of its instance, if the manifest asks for that,
// and saves their version: agents accept only newer ones. The version of the records of
// several instances is saved first, so that no other records get it after a kill. It warns
// if the agent does not support them.
func (j *jobs) sendDNS(ctx context.Context) error {
	several := j.numbers() != nil
	if !j.rec.About.UseDNS && !several {
		return nil
	}
	records := j.records()
	save := func() error {
		return j.rec.State.Update(func(st *state.State) error {
			st.Own.DNSVersion = records.Version
			return nil
		})
	}
	return j.rec.Out.Do("Sending DNS records", func(s *report.Stage) error {
		if several {
			if err := save(); err != nil {
				return err
			}
		}
		err := syncDNS(ctx, j.agent, j.rec.Dir, records, s.Progress)
		unknown := agent.UnknownMessage(err)
		if err != nil && !unknown {
			return err
		}
		// The version is saved anyway, because the next run would fail in the same way.
		if err = nil; !several {
			err = save()
		}
		if err == nil && unknown {
			s.Warning("The agent on the VM is too old to take DNS records: features.use_dns_addresses has no effect with this stemcell")
			return report.Skip("the agent does not support DNS records")
		}
		return err
	})
}

// records returns the next DNS records for the VM of the run's instance: its own, or those
// of all instances of its deployment.
func (j *jobs) records() dns.Records {
	st := j.rec.State.Get()
	if names := j.numbers(); names != nil {
		all := j.rec.From.Of.Record
		own := func(in *deployed.Instance) (map[string]string, bool) {
			return j.dnsAddresses(), in == j.rec.From.Of.Instance
		}
		list, sent := instancesOf(all, names, j.rec.Env.Home, own)
		last := max(sent, names.Version, st.Own.DNSVersion)
		return names.Records(last+1, list).For(j.rec.From.Of.Instance.ID)
	}
	id := j.rec.InstanceID(j.rec.About.Group)
	return dns.RecordsOf(st.Own.DNSVersion+1, dns.Instance{
		ID: id, AgentID: st.Own.AgentID, Group: j.rec.About.Group, Index: j.rec.About.Index, Deployment: j.rec.About.Name, Addresses: j.dnsAddresses(),
		Served: hasServer(st),
	}).For(id)
}

// hasServer reports whether a DNS server for the records was among the last applied jobs of the
// instance with the state.
func hasServer(st state.State) bool { return slices.Contains(st.Own.Processes, dns.Server) }

// syncDNS uploads the records to the agent as a blob, and makes it use them. dir is a folder
// for a temporary file.
func syncDNS(ctx context.Context, vm *agent.Client, dir string, records dns.Records, progress func(done, total int64)) error {
	blob, err := putDNS(ctx, vm, dir, records, progress)
	if err != nil {
		return fmt.Errorf("cannot upload the DNS records: %w", err)
	}
	return vm.SyncDNS(ctx, blob, records.Version)
}

// putDNS uploads the records as a blob.
func putDNS(ctx context.Context, vm *agent.Client, dir string, records dns.Records, progress func(done, total int64)) (agent.Blob, error) {
	data, err := json.Marshal(records)
	if err != nil {
		return agent.Blob{}, err
	}
	file, err := os.CreateTemp(dir, "dns-")
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
	return agent.Blob{BlobstoreID: id, SHA1: sum.String()}, vm.PutBlob(ctx, id, file.Name(), progress)
}
