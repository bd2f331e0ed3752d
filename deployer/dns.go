package deployer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/deployer/report"
	"bootstrap/deployment/dns"
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
// and saves their version: agents accept only newer ones. It warns if the agent does not
// support them.
func (j *jobs) sendDNS(ctx context.Context) error {
	if !j.rec.About.UseDNS {
		return nil
	}
	st := j.rec.State.Get()
	records := dns.RecordsOf(st.Own.DNSVersion+1, dns.Instance{
		ID: j.rec.InstanceID(j.rec.About.Group), AgentID: st.Own.AgentID, Group: j.rec.About.Group, Index: j.rec.About.Index, Deployment: j.rec.About.Name, Addresses: j.dnsAddresses(),
	})
	return j.rec.Out.Do("Sending DNS records", func(s *report.Stage) error {
		blob, err := j.putDNS(ctx, records, s.Progress)
		if err != nil {
			return fmt.Errorf("cannot upload the DNS records: %w", err)
		}
		err = j.agent.SyncDNS(ctx, blob, records.Version)
		unknown := agent.UnknownMessage(err)
		if err != nil && !unknown {
			return err
		}
		// The version is saved anyway, because the next run would fail in the same way.
		err = j.rec.State.Update(func(st *state.State) error {
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
func (j *jobs) putDNS(ctx context.Context, records dns.Records, progress func(done, total int64)) (agent.Blob, error) {
	data, err := json.Marshal(records.ForHosts())
	if err != nil {
		return agent.Blob{}, err
	}
	file, err := os.CreateTemp(j.rec.Dir, "dns-")
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
