package manifest

// DNS says which names the templates of a deployment with several instances get in place
// of addresses: its features.
type DNS struct {
	Addresses bool // use_dns_addresses: links and spec.address
	Short     bool // use_short_dns_addresses
	Links     bool // use_link_dns_names
}

// dnsServer is the job of the DNS server that BOSH has on VMs.
const dnsServer = "bosh-dns"

// NeedsDNS reports whether the VMs of several instances get DNS records: if a feature asks
// for names, if a link has an alias or is to have names, or if there is a DNS server.
func (d *Deployment) NeedsDNS() bool {
	if f := d.Common.DNS; f.Addresses || f.Short || f.Links {
		return true
	}
	for i := range d.Groups {
		for _, job := range d.Groups[i].Manifest.Group.Jobs {
			if job.Name == dnsServer || job.namesLinks() {
				return true
			}
		}
	}
	return false
}

// namesLinks reports whether a link of the job has an alias, or is to have names.
func (j JobRef) namesLinks() bool {
	for _, given := range j.Provides {
		if m, ok := given.(map[string]any); ok && m["aliases"] != nil {
			return true
		}
	}
	for _, given := range j.Consumes {
		if m, ok := given.(map[string]any); ok && m["ip_addresses"] == false {
			return true
		}
	}
	return false
}
