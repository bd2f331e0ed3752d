package manifest

import (
	"slices"
	"strconv"
	"strings"

	"bootstrap/internal/number"
	"bootstrap/manifest/document"
	"bootstrap/network"
)

// readGroups reads the only instance group, in instance_groups or jobs.
func (r *reader) readGroups(top document.Value) {
	lists := spellings(top, "instance_groups", "jobs")
	first := true
	for _, list := range lists {
		items := list.Items()
		if list.IsNull() && len(lists) == 1 {
			list.Fail("must be provided: a list with the instance group, its name, jobs and networks")
		} else if len(items) != 1 && len(lists) == 1 && list.IsList() {
			list.Fail("must contain exactly one instance group, since a manifest describes one VM, but contains %d%s%s", len(items), document.Literal(groupNames(items)), document.Literal(r.needsCloudConfig(len(items))))
		}
		for _, item := range items {
			if !item.IsNull() && !sections.Map(item, "instance_groups[]") {
				continue
			}
			group := r.readGroup(item)
			if r.shared != nil {
				readOrigins(item)
			}
			if first {
				r.manifest.Group = group
			}
			first = false
		}
	}
}

// needsCloudConfig returns what a manifest needs to have so many groups or instances.
func (r *reader) needsCloudConfig(n int) string {
	if n < 2 || r.shared != nil {
		return ""
	}
	return "; for several, move networks, resource_pools and disk_pools to a cloud config (networks, vm_types, disk_types) and name it with --cloud-config FILE"
}

// hasSeveral reports whether the manifest describes several instances.
func hasSeveral(top document.Value) bool {
	groups := top.Get("instance_groups").Items()
	if len(groups) > 1 {
		return true
	}
	for _, group := range groups {
		if n, ok := group.Get("instances").Whole(instancesBound()); ok && n > 1 {
			return true
		}
	}
	return false
}

// groupNames returns the names of instance groups for the end of a message.
func groupNames(items []document.Value) string {
	var list []string
	for _, item := range items {
		if name := item.Get("name").Scalar(); plainName.MatchString(name) {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, ", ")
}

// spellings returns the value of the used key, of two with the same meaning. If both are
// used, it reports that and returns both.
func spellings(c document.Value, first, second string) []document.Value {
	one, other := c.Get(first), c.Get(second)
	if one.Len() > 0 && other.Len() > 0 {
		later := other
		if !one.Precedes(other) {
			later = one
		}
		later.Fail("%s and %s have the same meaning, so only one of them may be given", first, second)
		return []document.Value{one, other}
	}
	if one.Len() == 0 && !one.Pending() && other.HasKey() && (other.Len() > 0 || !one.HasKey()) {
		return []document.Value{other}
	}
	return []document.Value{one}
}

// readGroup reads an instance group.
func (r *reader) readGroup(c document.Value) InstanceGroup {
	group := InstanceGroup{Pos: c.Position()}
	group.Name, _ = c.Get("name").Required("the name of the instance group")
	r.checkInstances(c.Get("instances"))
	if place := c.Get("lifecycle"); !place.IsNull() && r.many == nil {
		if text, ok := place.Text(); ok && text != "" && text != "service" {
			place.Fail("must be service, or be left out, but is %q", text)
		}
	}
	group.Jobs = r.readJobs(c)
	if r.shared != nil {
		r.readPlacement(c, &group)
		r.addAddons(c, &group)
	} else {
		warnOfCloudKeys(c)
		group.Networks = r.readGroupNetworks(c.Get("networks"))
		r.manifest.ResourcePool = r.findPool(c.Get("resource_pool"))
		group.Disk = r.findDisk(c)
	}
	group.Properties = c.Get("properties").Properties()
	group.Health = readHealth(c.Get("healthcheck"))
	return group
}

// warnOfCloudKeys warns about keys of an instance group that are read only with a cloud config.
func warnOfCloudKeys(c document.Value) {
	for key, instead := range map[string]string{
		"azs": "", "vm_type": ", but resource_pool is", "vm_extensions": "", "vm_resources": "", "stemcell": ", but that of resource_pools[] is",
		"persistent_disk_type": ", but persistent_disk_pool is", "persistent_disks": "", "migrated_from": "",
		"env": "; it is read in resource_pools[]", "tags": "; it is read in the manifest itself", "update": "; it is read in the manifest itself",
	} {
		if place := c.Get(key); place.HasKey() {
			place.WarnKey("is not used without a cloud config%s", document.Literal(instead))
		}
	}
}

// checkInstances checks that there is one instance.
func (r *reader) checkInstances(c document.Value) {
	n, ok := c.Whole(instancesBound())
	switch {
	case r.many != nil && c.IsNull():
		c.Fail("must be provided: the number of instances, which may be 0")
	case r.many != nil:
		if before := r.total; before+n > MaxInstances {
			c.Fail("must be at most %d, but is %d: a deployment has at most %d instances, and the groups before have %d", MaxInstances-before, n, MaxInstances, before)
		}
		r.total = min(r.total+n, MaxInstances)
	case c.IsNull():
		c.Fail("must be provided, and be 1, since a manifest describes one VM")
	case ok && n != 1:
		c.Fail("must be 1, since a manifest describes one VM, but is %d%s", n, document.Literal(r.needsCloudConfig(n)))
	}
}

// readJobs reads jobs or templates of an instance group.
func (r *reader) readJobs(c document.Value) []JobRef {
	var jobs []JobRef
	for _, list := range spellings(c, "jobs", "templates") {
		seen := map[string]bool{}
		for _, item := range list.Items() {
			if !item.IsNull() && !sections.Map(item, "instance_groups[].jobs[]") {
				continue
			}
			job := r.readJobRef(item)
			if seen[job.Name] && job.Name != "" {
				item.Get("name").Fail("must be unique, but there is another job %q", document.Literal(job.Name))
			}
			seen[job.Name] = true
			job.Properties = item.Get("properties").Properties()
			job.Consumes = item.Get("consumes").Properties()
			job.Provides = item.Get("provides").Properties()
			job.Custom = readProviderDefinitions(item.Get("custom_provider_definitions"))
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// readProviderDefinitions reads custom_provider_definitions of a job.
func readProviderDefinitions(list document.Value) []ProviderDefinition {
	var all []ProviderDefinition
	seen := map[string]bool{}
	for _, item := range list.Items() {
		if !item.IsNull() && !sections.Map(item, "instance_groups[].jobs[].custom_provider_definitions[]") {
			continue
		}
		name, named := item.Get("name").Required("the name of a link that the job provides")
		kind, typed := item.Get("type").Required("the type of the link")
		if seen[name] && named {
			item.Get("name").Fail("must be unique, but there is another definition %q", document.Literal(name))
		}
		seen[name] = true
		if named && typed {
			all = append(all, ProviderDefinition{Name: name, Type: kind, Properties: item.Get("properties").Texts()})
		}
	}
	return all
}

// readJobRef reads the name and release of a job.
func (r *reader) readJobRef(c document.Value) JobRef {
	job := JobRef{Pos: c.Position(), Path: c.Path()}
	job.Name, _ = c.Get("name").Required("the name of a job of the release")
	place := c.Get("release")
	if name, ok := place.Required("the name of a release in releases"); ok {
		job.Release = name
		r.releases.check(place, name, "a release", "releases")
	}
	return job
}

// findPool returns the resource pool that the group names.
func (r *reader) findPool(c document.Value) ResourcePool {
	name, ok := c.Required("the name of a resource pool in resource_pools")
	if !ok {
		return ResourcePool{}
	}
	var known names
	for _, p := range r.pools {
		if p.named && p.Name == name {
			r.env = p.place.Get("env")
			r.checkTags(r.env)
			return p.ResourcePool
		}
		known.add(p.place.Get("name"), p.Name, p.named)
	}
	known.open = known.open || r.top.Get("resource_pools").Pending()
	known.check(c, name, "a resource pool", "resource_pools")
	return ResourcePool{}
}

// checkTags checks that tags can be put into the VM's env.
func (r *reader) checkTags(env document.Value) {
	bosh := env.Get("bosh")
	if len(r.manifest.Tags) == 0 || !bosh.HasKey() || bosh.Pending() {
		return
	}
	if !bosh.IsMap() {
		bosh.Fail("must be a map, or be left out, since the manifest's tags are added to it")
	}
}

// findDisk returns the group's persistent disk: of its disk pool, or of the given size.
func (r *reader) findDisk(c document.Value) *DiskPool {
	place := c.Get("persistent_disk")
	size, _ := place.Whole(diskBound(0, ""))
	place = c.Get("persistent_disk_pool")
	name, ok := place.Text()
	if !ok || name == "" {
		if size <= 0 {
			return nil
		}
		return &DiskPool{Size: size, CloudProperties: map[string]any{}}
	}
	if size > 0 {
		c.Get("persistent_disk").Warn("is not used, since persistent_disk_pool is given")
	}
	var known names
	for _, d := range r.disks {
		if d.named && d.Name == name {
			return &d.DiskPool
		}
		known.add(d.place.Get("name"), d.Name, d.named)
	}
	known.open = known.open || r.top.Get("disk_pools").Pending()
	known.check(place, name, "a disk pool", "disk_pools")
	return nil
}

// readNICGroup reads the number of an interface, which may be in quotes.
func readNICGroup(place document.Value) string {
	if place.IsNull() || place.Pending() {
		return ""
	}
	n, err := number.Bound{Most: network.MaxNIC, About: "networks with the same one share an interface"}.Text(place.Scalar())
	if err != nil {
		place.Fail("%s", err.Error())
		return ""
	}
	return strconv.Itoa(n)
}

// readGroupNetworks reads the networks of an instance group.
func (r *reader) readGroupNetworks(list document.Value) []GroupNetwork {
	items := list.Items()
	if len(items) == 0 && (list.IsNull() || list.IsList()) {
		list.Fail("must contain at least one network, with its name")
	}
	var refs []GroupNetwork
	for _, item := range items {
		if !item.IsNull() && !sections.Map(item, "instance_groups[].networks[]") {
			continue
		}
		ref := GroupNetwork{Default: r.readDefaults(item.Get("default")), NICGroup: readNICGroup(item.Get("nic_group"))}
		place := item.Get("name")
		name, ok := place.Required("the name of a network in networks")
		if ok {
			ref.Name = name
			r.networks.check(place, name, "a network", "networks")
			if slices.ContainsFunc(refs, func(other GroupNetwork) bool { return other.Name == name }) {
				place.Fail("the network %q is listed twice", document.Literal(name))
			}
		}
		if network := r.manifest.network(ref.Name); network != nil && network.Type == typeDynamic {
			warnNICGroup(item)
		}
		primary := len(items) == 1 || slices.Contains(ref.Default, "gateway")
		network, static := r.manifest.network(ref.Name), item.Get("static_ips")
		ref.StaticIPs = r.readStaticIPs(static, network, primary)
		ref.open = network != nil && network.Type == typeManual && static.Len() == 0 && (static.IsNull() || static.IsList())
		refs = append(refs, ref)
	}
	if len(items) == len(refs) {
		checkDefaults(list, items, refs)
	}
	return refs
}

// readDefaults reads the uses for which a network is the default.
func (r *reader) readDefaults(list document.Value) []string {
	for _, item := range list.Items() {
		if text, ok := item.Text(); item.IsNull() || ok && text != "dns" && text != "gateway" {
			item.Fail("must be dns or gateway, but is %q", text)
		}
	}
	if !list.IsList() {
		return nil
	}
	var defaults []string
	for _, item := range list.Items() {
		defaults = append(defaults, item.Scalar())
	}
	return defaults
}

// checkDefaults checks that exactly one of several networks is the default for
// dns, and one for the gateway.
func checkDefaults(list document.Value, items []document.Value, refs []GroupNetwork) {
	for _, use := range []string{"dns", "gateway"} {
		count, unsettled := 0, false
		for i, ref := range refs {
			place := items[i].Get("default")
			unsettled = unsettled || place.Pending() || slices.ContainsFunc(place.Items(), document.Value.Pending)
			for _, d := range ref.Default {
				if d != use {
					continue
				}
				count++
				if count == 2 {
					place.Fail("only one network can be the default for %s", use)
				}
			}
		}
		if len(refs) > 1 && count == 0 && !unsettled {
			list.Fail("with several networks, one of them must be the default for %s: add %q to its list default", use, use)
		}
	}
}

// readStaticIPs reads the addresses of the VM on a network, which is nil if it
// is unknown. primary is true if the address of the VM is on this network.
func (r *reader) readStaticIPs(list document.Value, network *Network, primary bool) []string {
	items := list.Items()
	if len(items) == 0 && !list.Pending() && network != nil && network.Type == typeVIP && primary {
		list.Fail("must contain the address of the VM, since the vip network %q is its default for the gateway", document.Literal(network.Name))
	}
	var ips []string
	for i, item := range items {
		text, ok := item.Text()
		if item.IsNull() {
			item.Fail("must be an IP address, but is empty")
		}
		if !ok {
			continue
		}
		ips = append(ips, text)
		addr, ok := parseAddress(text)
		switch {
		case !ok:
			item.Fail("must be an IP address, but is %q", text)
		case network != nil && network.Subnet != nil && network.Subnet.refuse(addr) != "":
			item.Fail("%s", network.Subnet.refuse(addr))
		case network != nil && network.Subnet != nil && network.Subnet.doubt(addr) != "":
			item.Warn("%s", network.Subnet.doubt(addr))
		}
		if i == 1 {
			item.Warn("only the first address is used, since there is one VM")
		}
	}
	return ips
}
