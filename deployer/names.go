package deployer

import (
	"cmp"
	"context"
	"fmt"

	"bootstrap/agent"
	"bootstrap/deployer/access"
	"bootstrap/deployer/instance"
	"bootstrap/deployment/dns"
	"bootstrap/deployment/links"
	deployed "bootstrap/deployment/record"
	"bootstrap/manifest"
	"bootstrap/network"
	"bootstrap/state"
)

// NamesOf returns the names of a deployment, with numbers for its groups, zones, networks
// and instances. It changes nothing in the record. renamed is that of dns.Known.
func NamesOf(d *manifest.Deployment, all *deployed.Record, renamed map[string]string) *dns.Names {
	known := dns.Known{Renamed: renamed, Dynamic: map[string]string{}}
	for i := range d.Groups {
		g := &d.Groups[i]
		known.Groups, known.Zones = append(known.Groups, g.Name), append(known.Zones, g.Zones...)
		for _, w := range g.Wishes {
			known.Networks = append(known.Networks, w.Network)
			if n, found := network.Find(d.Networks, w.Network); found && n.Type == network.Dynamic && w.Network == g.DefaultNetwork() {
				known.Dynamic[g.Name] = w.Network
			}
		}
	}
	known.Zones = append(known.Zones, d.Zones...) // a template may ask for a zone without instances
	for _, in := range all.Instances {
		known.Instances = append(known.Instances, in.ID)
	}
	return all.Names.With(known)
}

// HasNames reports whether the VMs of a deployment get DNS records: once they have got some,
// they get the newer ones, too. The only instance of a manifest gets its own.
func HasNames(d *manifest.Deployment, all *deployed.Record) bool {
	return all.Names != nil || !d.Single() && d.NeedsDNS()
}

// numbers returns the names of the deployment, with numbers; nil: it has none.
func (j *jobs) numbers() *dns.Names {
	if d := j.in.Deployment; d != nil && HasNames(d, j.rec.From.Of.Record) {
		return NamesOf(d, j.rec.From.Of.Record, nil)
	}
	return nil
}

// names returns the encoder of the DNS names that templates get; nil: they get addresses.
func (j *jobs) names() *links.DNS {
	numbers := j.numbers()
	if numbers == nil || !j.in.Deployment.NeedsDNS() {
		return nil
	}
	d := j.in.Deployment
	f := d.Common.DNS
	return &links.DNS{
		Encoder:   dns.Encoder{Deployment: d.Name, Names: numbers, Style: dns.Style{Short: f.Short, Links: f.Links}},
		Addresses: f.Addresses,
	}
}

// addNames gives templates the DNS names of the instance: host is its spec.address, and
// with a cloud config, networks get the name that a Director gives the index of the
// instance.
func (j *jobs) addNames(m *manifest.Manifest, networks map[string]any) (host string) {
	for name, network := range networks {
		if settings, ok := network.(map[string]any); ok && len(m.CloudConfigs) > 0 {
			settings["dns_record_name"] = dns.Name(fmt.Sprint(m.Index()), m.Group.Name, name, m.Name)
		}
	}
	names := j.names()
	if names == nil || !names.Addresses {
		return ""
	}
	return names.Instance(j.rec.InstanceID(j.rec.About.Group), m.Group.Name, m.AddressNetwork())
}

// RecordsOf returns the DNS records of all instances of a deployment without a version, and
// the highest version that a run about one instance has sent. home is ~/.bosh.
func RecordsOf(all *deployed.Record, home string) (records dns.Records, last uint64) {
	recorded := func(*deployed.Instance) (map[string]string, bool) { return nil, false }
	list, last := instancesOf(all, all.Names, home, recorded)
	return all.Names.Records(0, list), last
}

// instancesOf returns the instances of a deployment as records have them, in an order that
// does not depend on that of the groups in the manifest. own returns the
// addresses of an instance if they are not those of the record. last is the highest version
// of DNS records that runs about one instance have sent.
func instancesOf(all *deployed.Record, names *dns.Names, home string, own func(*deployed.Instance) (map[string]string, bool)) (list []dns.Instance, last uint64) {
	for _, in := range all.Sorted() {
		one := dns.Instance{
			ID: in.ID, Group: in.Group, Deployment: all.Name, Zone: in.Zone, Index: in.Index, Addresses: map[string]string{},
		}
		st, found, err := all.ReadState(in, home)
		if err != nil || !found {
			st = state.State{} // The command about the instance reports what is wrong with its state.
		}
		last = max(last, st.Own.DNSVersion)
		one.AgentID, one.Served = st.Own.AgentID, hasServer(st)
		for network, block := range in.Addresses {
			one.Addresses[network] = block.Addr().String()
		}
		if dynamic := names.Dynamic[in.Group]; dynamic != "" && st.Own.Address != "" {
			one.Addresses[dynamic] = st.Own.Address
		}
		if addresses, known := own(in); known {
			one.Addresses = addresses
		}
		list = append(list, one)
	}
	return list, last
}

// SendRecords sends the DNS records of a deployment to the VM of one of its instances. It
// locks nothing and changes no state. old is true if the agent does not support that.
func SendRecords(ctx context.Context, opts Options, records dns.Records) (old bool, err error) {
	opts.AgentTimeout = min(instance.ExistingAgentTimeout, cmp.Or(opts.AgentTimeout, instance.ExistingAgentTimeout))
	err = withVM(ctx, opts, func(vm *access.VM, ctx context.Context) error {
		err := syncDNS(ctx, vm.Agent, "", records, func(int64, int64) {})
		if old = agent.UnknownMessage(err); old {
			return nil
		}
		return err
	})
	return old, err
}
