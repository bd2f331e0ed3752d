package manifest

import (
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"bootstrap/manifest/document"
	"bootstrap/network"
)

// Placement is the part of an instance that a manifest leaves open: its zone and its
// addresses.
type Placement struct {
	// Own is true without a cloud config. Then Networks are the manual networks of the
	// manifest itself, and the wishes of Group are those without static_ips.
	Own      bool
	Networks []network.Network // all networks of the cloud config
	// Group is the instance group's use of these networks, with its zones by name. It
	// has one instance.
	Group network.Group
	// Zone is the zone of the instance, empty if it has none: the zone of its static
	// address, or the first one, until Place sets another. Blocks are its known addresses
	// by network: static ones always, the others after Place.
	Zone   string
	Blocks map[string]netip.Prefix

	kinds map[string]map[string]any // cloud_properties of the VM by zone
	kind  vmKind                    // without the zone's cloud_properties
	mbus  *url.URL                  // mbus as it is written
	// tunnel is ssh_tunnel as it is written; nil: there is none.
	tunnel *SSHTunnel
	leaf   *x509.Certificate // certificate of the agent, if the URL has neither a host nor a name after #
}

// Open lists the wishes for which an address must be chosen.
func (p *Placement) Open() []network.Wish {
	if p == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Group.Wishes), func(w network.Wish) bool {
		n, found := network.Find(p.Networks, w.Network)
		return !found || n.Type == network.Dynamic || p.Blocks[w.Network].IsValid()
	})
}

// Place returns the manifest with the instance in one of its zones and with these
// addresses, by network, in addition to its static ones. It ignores addresses of
// dynamic networks: they are only hints for create_vm, so that another hint does not
// change the VM.
func (m *Manifest) Place(zone string, blocks map[string]netip.Prefix) (*Manifest, error) {
	if m.Placement == nil {
		return m, nil
	}
	placed, p := *m, *m.Placement
	placed.Placement = &p
	p.Zone, p.Blocks = zone, maps.Clone(p.Blocks)
	for name, block := range blocks {
		if n, found := network.Find(p.Networks, name); found && n.Type != network.Dynamic {
			p.Blocks[name] = block
		}
	}
	if len(p.Group.Zones) > 0 != (zone != "") || zone != "" && !slices.Contains(p.Group.Zones, zone) {
		return nil, &UnplacedError{Why: fmt.Sprintf("it is in the zone %q, and azs of its group has %q", zone, p.Group.Zones)}
	}
	for _, w := range p.Group.Wishes {
		n, _ := network.Find(p.Networks, w.Network)
		if _, err := n.Settings(w, p.Blocks[w.Network], zone); err != nil {
			return nil, &UnplacedError{Why: err.Error()}
		}
	}
	placed.settle()
	return &placed, nil
}

// UnplacedError says that a manifest has no place for an existing instance: not its zone,
// or not its addresses.
type UnplacedError struct {
	Why string
}

func (e *UnplacedError) Error() string {
	return "the manifest has no place for the instance: " + e.Why
}

// Reached returns the manifest with the agent at an address, if the manifest leaves the
// agent's address open.
func (m *Manifest) Reached(addr netip.Addr) *Manifest {
	if !addr.IsValid() || m.Placement == nil || m.CPI.MBusURL == nil || !unspecified(m.CPI.MBusURL) {
		return m
	}
	w, found := m.Placement.main()
	if !found {
		return m
	}
	reached, p := *m, *m.Placement
	reached.Placement = &p
	p.Blocks = maps.Clone(p.Blocks)
	p.Blocks[w.Network] = p.Block(w.Network, addr)
	reached.settle()
	return &reached
}

// settle fills in everything that depends on the zone and the addresses.
func (m *Manifest) settle() {
	p := m.Placement
	refs := slices.Clone(m.Group.Networks)
	if !p.Own {
		m.ResourcePool.CloudProperties = p.kinds[p.Zone]
		refs = make([]GroupNetwork, len(p.Group.Wishes))
		for i, w := range p.Group.Wishes {
			refs[i] = GroupNetwork{Name: w.Network, Default: w.Default, open: true}
		}
	}
	for i := range refs {
		if block := p.Blocks[refs[i].Name]; refs[i].open && block.IsValid() {
			refs[i].StaticIPs = []string{block.Addr().String()}
		}
	}
	m.Group.Networks = refs
	if ip, unknown := m.Address(); !unknown {
		m.reachAt(ip)
	}
}

// reachAt puts the address of the instance where mbus and ssh_tunnel have 0.0.0.0.
func (m *Manifest) reachAt(ip string) {
	p := m.Placement
	if p.mbus != nil && unspecified(p.mbus) {
		own := *p.mbus
		own.Host = ip
		if addr, err := netip.ParseAddr(ip); err == nil && addr.Is6() {
			own.Host = "[" + ip + "]"
		}
		if port := p.mbus.Port(); port != "" {
			own.Host = net.JoinHostPort(ip, port)
		}
		if p.leaf != nil && p.leaf.VerifyHostname(ip) != nil {
			// The certificate was generated before the address was known.
			own.Fragment = append(certificateNames(p.leaf), "")[0]
		}
		m.CPI.MBusURL, m.CPI.MBus = &own, own.String()
	}
	if p.tunnel != nil && unspecified(&url.URL{Host: p.tunnel.Host}) {
		own := *p.tunnel
		own.Host = ip
		m.CPI.SSHTunnel = &own
	}
}

// checkMBus reports a URL without a host of its own if the IaaS chooses the address of
// the instance.
func (r *reader) checkMBus(p *Placement, place document.Value) {
	w, found := p.main()
	_, known := network.Find(p.Networks, w.Network) // otherwise the unknown network is reported
	if found && known && p.mbus != nil && unspecified(p.mbus) && p.dynamic(w) {
		place.Fail("must have the host at which the agent is reached: %s stands for the address of the instance, but the network %q is dynamic, so that address is known only once the VM runs", p.mbus.Hostname(), w.Network)
	}
}

// unspecified reports whether the host of the URL is 0.0.0.0 or [::], which
// stands for the address of the instance.
func unspecified(u *url.URL) bool {
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.IsUnspecified()
}

// dynamic reports whether the IaaS chooses the address.
func (p *Placement) dynamic(w network.Wish) bool {
	n, found := network.Find(p.Networks, w.Network)
	return !found || n.Type == network.Dynamic
}

// main returns the wish for the network with the VM's address: the default for
// addressable, or for gateway.
func (p *Placement) main() (network.Wish, bool) {
	for _, use := range []string{"addressable", "gateway"} {
		for _, w := range p.Group.Wishes {
			if slices.Contains(w.Default, use) {
				return w, true
			}
		}
	}
	return network.Wish{}, false
}

// address implements Manifest.Address.
func (p *Placement) address() (ip string, unknown bool) {
	w, found := p.main()
	block := p.Blocks[w.Network]
	if !found || p.dynamic(w) || !block.IsValid() {
		return "", true
	}
	return block.Addr().String(), false
}

// interfaces returns the networks of the VM by name. A network whose address is not
// chosen yet has only its type and uses.
func (p *Placement) interfaces() map[string]map[string]any {
	result := make(map[string]map[string]any, len(p.Group.Wishes))
	for _, w := range p.Group.Wishes {
		n, found := network.Find(p.Networks, w.Network)
		if !found {
			continue
		}
		entry, err := n.Settings(w, p.Blocks[w.Network], p.Zone)
		if err != nil {
			entry = map[string]any{"type": string(n.Type), "default": slices.Clone(w.Default)}
		}
		result[w.Network] = entry
	}
	return result
}

// readSharedNetworks reads the networks of the cloud config.
func (r *reader) readSharedNetworks(list document.Value) {
	for _, item := range list.Items() {
		if item.IsMap() {
			sections.WarnUnknown(item, "cloud.networks[]")
		}
		if place := item.Get("managed"); place.LenientFlag(true) {
			place.Fail("cannot be used: networks are not created here, so they must exist")
		}
		if subnets := item.Get("subnets"); subnets.IsList() {
			for _, subnet := range subnets.Items() {
				if subnet.IsMap() {
					sections.WarnUnknown(subnet, "cloud.networks[].subnets[]")
				}
			}
		}
	}
	var problems []network.Problem
	r.shared.networks, problems = network.Parse(list.Plain(), r.rules())
	r.failAll(problems)
}

func (r *reader) rules() network.Rules { return network.Rules{Zones: r.shared.zones.list} }

// failAll reports problems of networks, except those of values that are pending.
func (r *reader) failAll(problems []network.Problem) {
	for _, p := range problems {
		if place := r.top.At(p.Path); !place.Unsettled() {
			place.Fail("%s (%s)", p.Message, document.Literal(p.Kind))
		}
	}
}

// readWishes reads the zones and networks of an instance group, and places the instance
// as far as its static addresses decide that.
func (r *reader) readWishes(c document.Value, own vmKind) {
	networks, zones := c.Get("networks"), c.Get("azs")
	for _, item := range networks.Items() {
		if item.IsMap() {
			sections.WarnUnknown(item, "instance_groups[].networks[]")
		}
	}
	fields := map[string]any{"instances": 1} // checkInstances reports other numbers
	if n, ok := c.Get("instances").Whole(instancesBound()); ok && r.many != nil {
		fields["instances"], fields["name"] = n, c.Get("name").Scalar()
	}
	for key, value := range map[string]document.Value{"azs": zones, "networks": networks} {
		if !value.IsNull() {
			fields[key] = value.Plain()
		}
	}
	group, problems := network.ParseGroup(c.Path(), fields, r.shared.networks, r.rules())
	if !r.top.Get("networks").Unsettled() {
		r.failAll(problems)
	}
	slices.Sort(group.Zones)
	group.Zones = slices.Compact(group.Zones)
	p := &Placement{
		Networks: r.shared.networks,
		Group:    group,
		Blocks:   map[string]netip.Prefix{},
		kinds:    map[string]map[string]any{"": own.properties},
		kind:     own,
	}
	for _, zone := range group.Zones {
		item := r.shared.zones.items[zone]
		item.place.Use()
		p.kinds[zone] = maps.Clone(item.cloudProperties)
		maps.Copy(p.kinds[zone], own.properties)
	}
	for i, w := range group.Wishes {
		r.use(w.Network)
		if items := networks.Items(); len(items) == len(group.Wishes) {
			r.checkWish(items[i], w, p)
		}
	}
	r.manifest.Placement = p
	if len(problems) > 0 || r.many != nil {
		return
	}
	members, err := network.Place(network.ByName(p.Networks), group, nil)
	if err != nil {
		networks.Fail("%v", err)
		return
	}
	p.Zone = members[0].Zone
	for name, addr := range members[0].Static {
		p.Blocks[name] = p.Block(name, addr)
	}
}

// checkWish warns of a nic_group that is not used, and reports a network with the VM's own
// address on which VMs get blocks: the agent would be expected at the first address of the
// block.
func (r *reader) checkWish(item document.Value, w network.Wish, p *Placement) {
	n, found := network.Find(p.Networks, w.Network)
	place := item.Get("name")
	if !found || place.Unsettled() {
		return
	}
	if n.Type == network.Dynamic {
		warnNICGroup(item)
	}
	main, _ := p.main()
	if main.Network != w.Network && !slices.Contains(w.Default, "gateway") {
		return
	}
	for _, s := range n.Subnets {
		if s.Prefix > 0 && s.Range.IsValid() && s.Prefix < s.Range.Addr().BitLen() {
			place.Fail("cannot be the network of the VM's own address, because VMs get blocks of /%d on it (prefix): add a network without prefix, with default: [dns, gateway]", s.Prefix)
			return
		}
	}
}

// warnNICGroup warns of the nic_group of a dynamic network, if it has one: as with the
// Director, the CPI does not get it.
func warnNICGroup(item document.Value) {
	if place := item.Get("nic_group"); !place.IsNull() {
		place.Warn("is not used, because the network is dynamic")
	}
}

// Sources returns, for people, which part of the cloud config sets each of the VM's
// cloud_properties, and which part set a removed one.
func (p *Placement) Sources() (of map[string]string, gone string) {
	of, gone = maps.Clone(p.kind.sources), "the VM"
	for key := range p.kinds[p.Zone] {
		if of[key] == "" {
			of[key] = "az " + p.Zone
		}
	}
	if !p.kind.extended && len(of) == len(p.kind.sources) {
		gone = p.kind.name // no other part has properties
	}
	return of, gone
}

// Block returns the block of an address: a single address, unless instances get larger
// blocks of its network.
func (p *Placement) Block(name string, addr netip.Addr) netip.Prefix {
	block := netip.PrefixFrom(addr, addr.BitLen())
	n, found := network.Find(p.Networks, name)
	if !found {
		return block
	}
	for _, s := range n.Subnets {
		if s.Range.IsValid() && s.Range.Contains(addr) && s.Prefix > 0 {
			block = netip.PrefixFrom(addr, s.Prefix).Masked()
		}
	}
	return block
}

// use records that the deployment uses a network of the cloud config.
func (r *reader) use(name string) {
	for _, item := range r.top.Get("networks").Items() {
		if item.Get("name").Scalar() == name {
			item.Use()
		}
	}
}
