package manifest

import (
	"net/netip"
	"strings"

	"bootstrap/manifest/document"
	"bootstrap/network"
)

// readOpen finds the addresses that a manifest without a cloud config leaves open: those
// on manual networks without static_ips. The lists reserved and static of such a network
// decide about the instance's address, so mistakes in them are errors; create-env does
// not read them.
func (r *reader) readOpen(list document.Value) {
	group := r.manifest.Group
	p := &Placement{Own: true, Blocks: map[string]netip.Prefix{}, Group: network.Group{Name: group.Name, Instances: 1}}
	open := map[string]bool{}
	someOpen := false
	for _, ref := range group.Networks {
		open[ref.Name] = ref.open
		someOpen = someOpen || ref.open
	}
	last := map[string]document.Value{} // the last network of a name counts, as in create-env
	for _, item := range list.Items() {
		if item.IsMap() {
			last[item.Get("name").Scalar()] = item
		}
	}
	for i := range r.manifest.Networks {
		n := &r.manifest.Networks[i]
		used := n == r.manifest.network(n.Name)
		if n.Type != typeManual {
			continue
		}
		if !used || !open[n.Name] {
			for _, item := range n.Subnet.ignored {
				item.Warn("is neither an IP address nor a range such as 10.0.0.2-10.0.0.9; it is ignored")
			}
		}
		if !used || !someOpen {
			continue // the manifest names all addresses
		}
		if parsed, ok := r.parseOwn(n, last[n.Name], open[n.Name]); ok {
			p.Networks = append(p.Networks, parsed)
		}
	}
	for _, ref := range group.Networks {
		if !ref.open {
			continue
		}
		r.manifest.Placement = p // also if the network is wrong: then consequences are not reported as further mistakes
		if _, found := network.Find(p.Networks, ref.Name); !found {
			continue
		}
		wish := network.Wish{Network: ref.Name, Default: ref.Default}
		if len(group.Networks) == 1 {
			wish.Default = []string{"dns", "gateway"}
		}
		p.Group.Wishes = append(p.Group.Wishes, wish)
	}
}

// parseOwn converts the manual network for package network; ok is false if its range or
// gateway is wrong, which is reported already. With report, it reports other problems.
func (r *reader) parseOwn(n *Network, item document.Value, report bool) (parsed network.Network, ok bool) {
	gateway, settled := parseAddress(n.Subnet.Gateway)
	if !n.Subnet.Range.IsValid() || !settled || refuseGateway(gateway, n.Subnet.Range) != "" {
		return network.Network{}, false
	}
	subnet := map[string]any{"range": n.Subnet.Range.String(), "gateway": n.Subnet.Gateway}
	for _, key := range []string{"reserved", "static"} {
		subnet[key] = item.At("subnets[0]." + key).Plain()
	}
	all, problems := network.Parse([]any{map[string]any{"name": n.Name, "subnets": []any{subnet}}}, network.Rules{})
	for i := range problems {
		problems[i].Path = strings.Replace(problems[i].Path, "networks[0]", item.Path(), 1)
	}
	if report {
		r.failAll(problems)
	}
	return all[0], true
}
