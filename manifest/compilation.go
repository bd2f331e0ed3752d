package manifest

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"bootstrap/internal/number"
	"bootstrap/manifest/document"
	"bootstrap/network"
)

// CompilationGroup is the name of the instance group of compilation VMs.
const CompilationGroup = "compilation"

// Compilation says on which VMs packages are compiled apart from those of instances.
type Compilation struct {
	Asked   bool // the cloud config has a section compilation
	Workers int  // how many VMs there are at the same time
	Reuse   bool // a VM compiles several packages, one after another
	// Worker is the manifest of such a VM, without jobs and without a persistent disk;
	// nil: Refused says why there can be none.
	Worker  *Manifest
	Refused string
	// Fixed is true if the agent of the VM is expected at the address of the instance's own
	// agent, so that only one of both can exist.
	Fixed bool
}

// readCompilation reads the section compilation of the cloud config, for the packages of an
// instance group. Without one, the VM is like that of the group.
func (r *reader) readCompilation() {
	m := r.manifest
	if m.CPI.MBusURL == nil { // that is reported
		return
	}
	c := Compilation{Workers: 1, Reuse: true}
	w := *m
	w.Group, w.Properties, w.Tags = InstanceGroup{Name: CompilationGroup, Pos: m.Group.Pos}, map[string]any{}, maps.Clone(m.Tags)
	w.Update, w.Protect, w.UseDNS, w.Own = Update{WatchTime: m.Update.WatchTime}, false, false, nil
	w.ResourcePool.Env = workerEnv(m.ResourcePool.Env, nil)
	section := r.top.Get("compilation")
	switch {
	case r.shared == nil:
		w.Group.Networks, w.Placement = r.ownWorkerNetworks()
	case section.IsMap() && section.HasKey():
		c.Asked, c.Reuse = true, section.Get("reuse_compilation_vms").LenientFlag(false)
		c.Workers = r.readWorkers(section.Get("workers"))
		w.ResourcePool.Env = workerEnv(m.ResourcePool.Env, settings(section.Get("env")))
		w.Placement = r.workerPlacement(section)
	case m.Placement != nil:
		p := *m.Placement
		p.Blocks, p.Group.Wishes = map[string]netip.Prefix{}, nil
		for _, wish := range m.Placement.Group.Wishes {
			if n, found := network.Find(p.Networks, wish.Network); !found || n.Type != network.VIP {
				wish.Static = nil
				p.Group.Wishes = append(p.Group.Wishes, wish)
			}
		}
		p.Group.Instances, w.Placement = 1, &p
	}
	c.Worker = &w
	c.reach(m)
	if w.Placement != nil && c.Worker != nil {
		w.settle()
	}
	m.Compilation = c
}

// completeWorker gives the manifest of compilation VMs the secrets and public names of this
// one, which has the same values.
func (m *Manifest) completeWorker() {
	if w := m.Compilation.Worker; w != nil {
		w.Secrets, w.Names = m.Secrets, m.Names
	}
}

// readWorkers reads the number of VMs.
func (r *reader) readWorkers(place document.Value) int {
	const about = "how many VMs compile packages at the same time"
	n, _ := place.Whole(number.Bound{Least: 1, Most: MaxWorkers, About: about})
	if place.IsNull() {
		place.Fail("must be provided: %s", about)
	}
	return max(n, 1)
}

// reach gives the agent of the VM an address of its own, in place of the instance's
// address in the manifest m.
func (c *Compilation) reach(m *Manifest) {
	w, mbus, tunnel := c.Worker, m.CPI.MBusURL, m.CPI.SSHTunnel
	if p := m.Placement; p != nil && p.mbus != nil {
		mbus, tunnel = p.mbus, p.tunnel
	}
	own, _ := m.Address()
	if !unspecified(mbus) && mbus.Hostname() != own || w.Placement == nil {
		c.Fixed, c.Workers = true, 1
		return
	}
	if main, found := w.Placement.main(); !found || w.Placement.dynamic(main) {
		c.Worker, c.Refused = nil, "the network "+main.Network+" is dynamic, so the address of the VM's agent is not known"
		return
	}
	w.Placement.mbus, w.Placement.tunnel = onAnyAddress(mbus), tunnel
	if m.Placement != nil {
		w.Placement.leaf = m.Placement.leaf
	}
	if tunnel != nil && tunnel.Host == own {
		to := *tunnel
		to.Host, w.Placement.tunnel = netip.IPv4Unspecified().String(), &to
	}
	agent, _ := m.CPI.Properties["agent"].(map[string]any)
	text, _ := agent["mbus"].(string)
	if listens, err := url.Parse(text); err == nil && listens.Hostname() == own && own != "" {
		listens.Host = onAnyAddress(listens).Host
		w.CPI.Properties, agent = maps.Clone(m.CPI.Properties), maps.Clone(agent)
		agent["mbus"] = listens.String()
		w.CPI.Properties["agent"] = agent
	}
}

// onAnyAddress returns the URL with a host that stands for the address of any VM. The
// certificate of the agent is checked for the same name as before.
func onAnyAddress(mbus *url.URL) *url.URL {
	if unspecified(mbus) {
		return mbus
	}
	open := *mbus
	if open.Fragment == "" {
		open.Fragment = mbus.Hostname()
	}
	if open.Host = netip.IPv4Unspecified().String(); mbus.Port() != "" {
		open.Host = net.JoinHostPort(open.Host, mbus.Port())
	}
	return &open
}

// workerEnv returns the settings of the agent of a compilation VM: the given ones, with
// those of the group that say how the agent is reached; or all of the group, if none are
// given. It leaves out remove_dev_tools and remove_static_libraries, because packages need
// the compilers and libraries.
func workerEnv(group, given map[string]any) map[string]any {
	env := map[string]any{}
	of, _ := group["bosh"].(map[string]any)
	bosh := maps.Clone(of)
	if given == nil {
		env = maps.Clone(group)
	} else {
		maps.DeleteFunc(bosh, func(key string, _ any) bool {
			return !slices.Contains([]string{"mbus", "blobstores", "agent", "ntp"}, key)
		})
	}
	maps.DeleteFunc(bosh, func(key string, _ any) bool { return key == "remove_dev_tools" || key == "remove_static_libraries" })
	more, isMap := given["bosh"].(map[string]any)
	for key, value := range given {
		env[key] = value
	}
	if bosh == nil && more != nil {
		bosh = map[string]any{}
	}
	maps.Copy(bosh, more)
	if (isMap || given["bosh"] == nil) && bosh != nil {
		env["bosh"] = bosh
	}
	return env
}

// workerPlacement returns the network, the zone and the cloud_properties of the VMs that
// the section describes. The digest of the deployment does not contain them, because they
// do not change an instance.
func (r *reader) workerPlacement(section document.Value) *Placement {
	fields := map[string]any{"instances": 1}
	place := section.Get("network")
	name, ok := place.Required("the name of a network of the cloud config")
	if ok {
		fields["networks"] = []any{map[string]any{"name": name}}
	}
	zone, _ := section.Get("az").Text()
	var zones []string
	if zone != "" {
		zones = []string{zone}
	} else if n, found := network.Find(r.shared.networks, name); found {
		for _, s := range n.Subnets {
			zones = append(zones, s.Zones...)
		}
		slices.Sort(zones)
		zones = slices.Compact(zones)
	}
	if len(zones) > 0 {
		list := make([]any, len(zones))
		for i, zone := range zones {
			list[i] = zone
		}
		fields["azs"] = list
	}
	group, problems := network.ParseGroup("compilation", fields, r.shared.networks, r.rules())
	for _, p := range problems {
		at := place
		if strings.HasPrefix(p.Path, "compilation.azs") {
			at = section.Get("az")
		}
		if ok && !at.Unsettled() && !r.top.Get("networks").Unsettled() {
			at.Fail("%s (%s)", p.Message, document.Literal(p.Kind))
		}
	}
	own := r.workerKind(section)
	p := &Placement{Networks: r.shared.networks, Group: group, Blocks: map[string]netip.Prefix{}, kinds: map[string]map[string]any{"": own.properties}, kind: own}
	for _, zone := range zones {
		p.kinds[zone] = maps.Clone(r.shared.zones.items[zone].cloudProperties)
		if p.kinds[zone] == nil {
			p.kinds[zone] = map[string]any{}
		}
		maps.Copy(p.kinds[zone], own.properties)
	}
	if members, err := network.Place(network.ByName(p.Networks), group, nil); len(problems) == 0 && err == nil {
		p.Zone = members[0].Zone
	}
	return p
}

// workerKind returns the cloud_properties of the VMs that the section describes.
func (r *reader) workerKind(section document.Value) vmKind {
	own := vmKind{name: "compilation", properties: map[string]any{}, sources: map[string]string{}}
	given := 0
	for _, key := range []string{"vm_type", resourcesKey, "cloud_properties"} {
		place := section.Get(key)
		if place.IsNull() {
			continue
		}
		if given++; given > 1 {
			place.Fail("cannot be used together with another one of vm_type, vm_resources and cloud_properties (CompilationConfigBadVmConfiguration)")
			continue
		}
		switch key {
		case "vm_type":
			name, _ := place.Required("the name of a VM type in vm_types of the cloud config")
			if item, ok := r.shared.types.items[name]; ok {
				own.add("vm_type "+name, item.cloudProperties)
			} else {
				r.shared.types.checkAs(place, name, "a VM type", "vm_types of the cloud config", "CompilationConfigInvalidVmType")
			}
		case resourcesKey:
			own.add(resourcesKey, map[string]any{resourcesKey: readResources(place)})
		default:
			own.add("compilation", settings(place))
		}
	}
	for _, place := range section.Get("vm_extensions").Items() {
		name, _ := place.Required("the name of a VM extension in vm_extensions of the cloud config")
		if item, ok := r.shared.extensions.items[name]; ok {
			own.extended = true
			own.add("vm_extension "+name, item.cloudProperties)
		} else {
			r.shared.extensions.checkAs(place, name, "a VM extension", "vm_extensions of the cloud config", "")
		}
	}
	return own
}

// ownWorkerNetworks returns the networks of a VM like that of a manifest with networks of
// its own, with automatic addresses in place of static_ips. The address of the instance is
// not among them.
func (r *reader) ownWorkerNetworks() ([]GroupNetwork, *Placement) {
	m := r.manifest
	p := &Placement{Own: true, Blocks: map[string]netip.Prefix{}, Group: network.Group{Name: CompilationGroup, Instances: 1}}
	last := map[string]document.Value{}
	for _, item := range r.top.Get("networks").Items() {
		if item.IsMap() {
			last[item.Get("name").Scalar()] = item
		}
	}
	var refs []GroupNetwork
	for _, ref := range m.Group.Networks {
		n := m.network(ref.Name)
		if n == nil || n.Type == typeVIP {
			continue
		}
		taken := ref.StaticIPs
		ref.StaticIPs, ref.open = nil, n.Type == typeManual
		refs = append(refs, ref)
		if !ref.open {
			continue
		}
		parsed, ok := r.parseOwn(n, last[n.Name], false)
		if !ok {
			continue
		}
		p.Networks = append(p.Networks, parsed)
		p.Avoid(ref.Name, taken...)
		wish := network.Wish{Network: ref.Name, Default: ref.Default}
		if len(m.Group.Networks) == 1 {
			wish.Default = []string{"dns", "gateway"}
		}
		p.Group.Wishes = append(p.Group.Wishes, wish)
	}
	if len(p.Group.Wishes) == 0 {
		return refs, nil
	}
	return refs, p
}

// Avoid excludes addresses of a network from the placement.
func (p *Placement) Avoid(name string, addresses ...string) {
	for _, text := range addresses {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		for i := range p.Networks {
			if p.Networks[i].Name != name {
				continue
			}
			p.Networks[i].Reserve(addr)
		}
	}
}
