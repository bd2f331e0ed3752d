package manifest

import "slices"

// readGroups reads jobs or instance_groups, of which exactly one must hold
// exactly one instance group.
func (r *reader) readGroups(top cursor) {
	lists := spellings(top, "instance_groups", "jobs")
	first := true
	for _, list := range lists {
		items := list.items()
		if len(items) != 1 && len(lists) == 1 && (list.node == nil || list.node.kind == listKind) {
			list.fail("must hold exactly one instance group, since a manifest describes one VM, but holds %d", len(items))
		}
		for _, item := range items {
			if item.node != nil && !item.section("instance_groups[]") {
				continue
			}
			group := r.readGroup(item)
			if first {
				r.Group = group
			}
			first = false
		}
	}
}

// spellings returns the place of the one of two keys that is used; they mean
// the same. If both are, which is reported, it returns both.
func spellings(c cursor, first, second string) []cursor {
	one, other := c.get(first), c.get(second)
	if one.length() > 0 && other.length() > 0 {
		later := other
		if one.key.Line > other.key.Line {
			later = one
		}
		later.fail("%s and %s mean the same, and only one of them may be given", first, second)
		return []cursor{one, other}
	}
	if one.length() == 0 && !one.unsettled() && other.given() && (other.length() > 0 || !one.given()) {
		return []cursor{other}
	}
	return []cursor{one}
}

// readGroup reads an instance group.
func (r *reader) readGroup(c cursor) InstanceGroup {
	group := InstanceGroup{Pos: c.pos}
	group.Name, _ = c.get("name").need("the name of the instance group")
	r.checkInstances(c.get("instances"))
	if place := c.get("lifecycle"); place.node != nil {
		if text, ok := place.text(); ok && text != "" && text != "service" {
			place.fail("must be service, or be left out, but is %q", text)
		}
	}
	group.Jobs = r.readJobs(c)
	group.Networks = r.readGroupNetworks(c.get("networks"))
	r.ResourcePool = r.findPool(c.get("resource_pool"))
	group.Disk = r.findDisk(c)
	group.Properties = c.get("properties").properties()
	return group
}

// checkInstances checks that there is one instance.
func (r *reader) checkInstances(c cursor) {
	n, ok := c.whole()
	switch {
	case c.node == nil:
		c.fail("must be provided, and be 1, since a manifest describes one VM")
	case ok && n != 1:
		c.fail("must be 1, since a manifest describes one VM, but is %d", n)
	}
}

// readJobs reads jobs or templates of an instance group.
func (r *reader) readJobs(c cursor) []JobRef {
	var jobs []JobRef
	for _, list := range spellings(c, "jobs", "templates") {
		seen := map[string]bool{}
		for _, item := range list.items() {
			if item.node != nil && !item.section("instance_groups[].jobs[]") {
				continue
			}
			job := r.readJobRef(item)
			if seen[job.Name] && job.Name != "" {
				item.get("name").fail("must be unique, but another job is called %q, too", literal(job.Name))
			}
			seen[job.Name] = true
			job.Properties = item.get("properties").properties()
			job.Consumes = item.get("consumes").properties()
			job.Provides = item.get("provides").properties()
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// readJobRef reads the name and release of a job.
func (r *reader) readJobRef(c cursor) JobRef {
	job := JobRef{Pos: c.pos, Path: c.at.String()}
	job.Name, _ = c.get("name").need("the name of a job of the release")
	place := c.get("release")
	if name, ok := place.need("the name of a release in releases"); ok {
		job.Release = name
		r.releases.check(place, name, "a release", "releases")
	}
	return job
}

// findPool returns the resource pool that the group names.
func (r *reader) findPool(c cursor) ResourcePool {
	name, ok := c.need("the name of a resource pool in resource_pools")
	if !ok {
		return ResourcePool{}
	}
	var known names
	for _, p := range r.pools {
		if p.named && p.Name == name {
			r.checkTags(p)
			return p.ResourcePool
		}
		known.add(p.place.get("name"), p.Name, p.named)
	}
	known.open = known.open || r.cursor().get("resource_pools").unsettled()
	known.check(c, name, "a resource pool", "resource_pools")
	return ResourcePool{}
}

// checkTags checks that tags can be put into the pool's env.
func (r *reader) checkTags(p pool) {
	bosh := p.place.get("env").get("bosh")
	if len(r.Tags) == 0 || !bosh.given() || bosh.unsettled() {
		return
	}
	if bosh.node == nil || bosh.node.kind != mapKind {
		bosh.fail("must be a map, or be left out, since the manifest's tags are added to it")
	}
}

// findDisk returns the group's persistent disk: of a pool, or by its size.
func (r *reader) findDisk(c cursor) *DiskPool {
	place := c.get("persistent_disk")
	size, ok := place.whole()
	if ok && size < 0 {
		place.fail("must not be negative: the size of the disk in MiB, 0 for none")
	}
	place = c.get("persistent_disk_pool")
	name, ok := place.text()
	if !ok || name == "" {
		if size <= 0 {
			return nil
		}
		return &DiskPool{Size: size, CloudProperties: map[string]any{}}
	}
	if size > 0 {
		c.get("persistent_disk").warn("is not used, since persistent_disk_pool is given, too")
	}
	var known names
	for _, d := range r.disks {
		if d.named && d.Name == name {
			return &d.DiskPool
		}
		known.add(d.place.get("name"), d.Name, d.named)
	}
	known.open = known.open || r.cursor().get("disk_pools").unsettled()
	known.check(place, name, "a disk pool", "disk_pools")
	return nil
}

// readGroupNetworks reads the networks of an instance group.
func (r *reader) readGroupNetworks(list cursor) []GroupNetwork {
	items := list.items()
	if len(items) == 0 && (list.node == nil || list.node.kind == listKind) {
		list.fail("must list at least one network, with its name and static_ips")
	}
	var refs []GroupNetwork
	for _, item := range items {
		if item.node != nil && !item.section("instance_groups[].networks[]") {
			continue
		}
		ref := GroupNetwork{Default: r.readDefaults(item.get("default"))}
		place := item.get("name")
		name, ok := place.need("the name of a network in networks")
		if ok {
			ref.Name = name
			r.networks.check(place, name, "a network", "networks")
			if slices.ContainsFunc(refs, func(other GroupNetwork) bool { return other.Name == name }) {
				place.fail("the network %q is listed twice", literal(name))
			}
		}
		primary := len(items) == 1 || slices.Contains(ref.Default, "gateway")
		ref.StaticIPs = r.readStaticIPs(item.get("static_ips"), r.network(ref.Name), primary)
		refs = append(refs, ref)
	}
	if len(items) == len(refs) {
		checkDefaults(list, items, refs)
	}
	return refs
}

// readDefaults reads what a network is the default for.
func (r *reader) readDefaults(list cursor) []string {
	for _, item := range list.items() {
		if text, ok := item.text(); item.node == nil || ok && text != "dns" && text != "gateway" {
			item.fail("must be dns or gateway, but is %q", text)
		}
	}
	if list.node == nil || list.node.kind != listKind {
		return nil
	}
	var defaults []string
	for _, item := range list.node.items {
		defaults = append(defaults, scalarText(item.value))
	}
	return defaults
}

// checkDefaults checks that among several networks exactly one is the default
// for dns and one for the gateway.
func checkDefaults(list cursor, items []cursor, refs []GroupNetwork) {
	for _, use := range []string{"dns", "gateway"} {
		count, unsettled := 0, false
		for i, ref := range refs {
			place := items[i].get("default")
			unsettled = unsettled || place.unsettled() || slices.ContainsFunc(place.items(), cursor.unsettled)
			for _, d := range ref.Default {
				if d != use {
					continue
				}
				count++
				if count == 2 {
					place.fail("only one network can be the default for %s", use)
				}
			}
		}
		if len(refs) > 1 && count == 0 && !unsettled {
			list.fail("with several networks, one of them must be the default for %s: add %q to its list default", use, use)
		}
	}
}

// readStaticIPs reads the addresses of the VM on a network (nil: unknown);
// primary tells that it is the VM's address.
func (r *reader) readStaticIPs(list cursor, network *Network, primary bool) []string {
	items := list.items()
	if len(items) == 0 && !list.unsettled() && network != nil {
		switch {
		case network.Type == typeManual:
			list.fail("must hold the address of the VM, since %q is a manual network%s", literal(network.Name), example(network))
		case network.Type == typeVIP && primary:
			list.fail("must hold the address of the VM, since the vip network %q is its default for the gateway", literal(network.Name))
		}
	}
	var ips []string
	for i, item := range items {
		text, ok := item.text()
		if item.node == nil {
			item.fail("must be an IP address, but is empty")
		}
		if !ok {
			continue
		}
		ips = append(ips, text)
		addr, ok := parseAddress(text)
		switch {
		case !ok:
			item.fail("must be an IP address, but is %q", text)
		case network != nil && network.Subnet != nil && network.Subnet.refuse(addr) != "":
			item.fail("%s", network.Subnet.refuse(addr))
		case network != nil && network.Subnet != nil && network.Subnet.doubt(addr) != "":
			item.warn("%s", network.Subnet.doubt(addr))
		}
		if i == 1 {
			item.warn("only the first address is used, since there is one VM")
		}
	}
	return ips
}

// example returns the end of a message that shows the range of a network.
func example(network *Network) string {
	prefix := network.prefixOf()
	if !prefix.IsValid() {
		return ""
	}
	return ": an address of " + prefix.String()
}
