package manifest

import (
	"slices"
	"time"

	"go4.org/netipx"

	"bootstrap/internal/spelling"
	"bootstrap/manifest/document"
)

// reader reads the document into the manifest and reports problems.
type reader struct {
	manifest *Manifest
	top      document.Value
	dir      string // folder of the manifest
	releases names
	networks names
	pools    []pool
	disks    []disk
	within   time.Duration // certificates that expire within this time get a warning
	store    string        // path of the vars store; document checks its values
	lenient  bool
	lock     string         // path of the lock file
	many     *Deployment    // nil: the manifest describes one instance
	several  bool           // it describes several, and many is nil
	total    int            // instances of the groups so far
	env      document.Value // env of the group's resource pool

	shared       *shared // nil: there is no cloud config
	stemcells    names   // by alias; with a cloud config
	stemcellRefs map[string]StemcellRef
	addons       []addon
	stemcellOS   func(path string) string // of the archive of a stemcell; nil: archives are not read

	runtimeConfigs []string // files of runtime configs
}

// pool is a resource pool with its value in the document.
type pool struct {
	ResourcePool
	place document.Value
	named bool
}

// disk is a disk pool with its value in the document.
type disk struct {
	DiskPool
	place document.Value
	named bool
}

// read reads and checks the complete document.
func (r *reader) read(top document.Value) {
	r.top = top
	if !sections.Map(top, "") {
		if top.IsNull() {
			top.Fail("the manifest is empty")
		}
		return
	}
	r.manifest.Name, _ = top.Get("name").Required("the name of the deployment")
	r.readReleases(top.Get("releases"))
	r.manifest.CloudConfigs = top.CloudConfigs()
	if len(r.runtimeConfigs) > 0 && len(r.manifest.CloudConfigs) == 0 {
		top.Fail("has runtime configs, but no cloud config, and the addons of runtime configs need one: name it with --cloud-config FILE")
		return
	}
	defer r.dropUnused()
	if r.several = r.many == nil && len(r.manifest.CloudConfigs) > 0 && hasSeveral(top); r.several {
		r.many = &Deployment{} // so that all mistakes are reported
	}
	switch {
	case len(r.manifest.CloudConfigs) > 0:
		r.readCloudConfig(top)
		r.readStemcells(top.Get("stemcells"))
		r.readAddons(top.Get("addons"))
	case lacksCloudConfig(top):
		top.Fail("the manifest is in the Director's style (stemcells, vm_type), without networks and resource_pools of its own: name its cloud config with --cloud-config FILE, or in the key cloud_config")
		return
	default:
		r.readNetworks(top.Get("networks"))
		r.readResourcePools(top.Get("resource_pools"))
		r.readDiskPools(top.Get("disk_pools"))
	}
	r.manifest.Properties = settings(top.Get("properties"))
	r.manifest.Tags = readTags(top.Get("tags"))
	r.manifest.Update.WatchTime = WatchTime{Max: 5 * time.Minute}
	r.readUpdate(top.Get("update"))
	r.manifest.Protect = top.Get("protect").LenientFlag(true)
	r.readFeatures(top.Get("features"))
	if r.many != nil {
		r.readInstallation(top.Get("cloud_provider"))
		r.readMany(top)
		return
	}
	r.readGroups(top)
	if r.shared == nil {
		r.readOpen(top.Get("networks"))
	}
	r.readInstallation(top.Get("cloud_provider"))
	if p := r.manifest.Placement; p != nil {
		p.mbus, p.tunnel = r.manifest.CPI.MBusURL, r.manifest.CPI.SSHTunnel
		r.manifest.settle()
		r.checkMBus(p, top.Get("cloud_provider").Get("mbus"))
	}
	r.checkCertificates()
	r.checkBlobstore()
	if r.manifest.Placement != nil {
		r.manifest.settle() // it uses the names of the agent's certificate
	}
	r.readCompilation()
}

// lacksCloudConfig reports whether a manifest without a cloud config is in the
// Director's style: it has stemcells, or a group with a vm_type, and nothing of
// create-env's style.
func lacksCloudConfig(top document.Value) bool {
	for _, key := range []string{"networks", "resource_pools", "jobs"} {
		if top.Get(key).HasKey() {
			return false
		}
	}
	groups := top.Get("instance_groups")
	if !groups.IsList() {
		return false
	}
	for _, group := range groups.Items() {
		if group.Get("resource_pool").HasKey() {
			return false
		}
		if group.Get("vm_type").HasKey() || group.Get("stemcell").HasKey() {
			return true
		}
	}
	return top.Get("stemcells").Len() > 0
}

// settings returns a map in the types of JSON, an empty one if the value is
// absent.
func settings(v document.Value) map[string]any {
	if m := v.Properties(); m != nil {
		return m
	}
	return map[string]any{}
}

// readReleases reads releases.
func (r *reader) readReleases(list document.Value) {
	items := list.Items()
	r.releases.open = list.Pending()
	if len(items) == 0 && (list.IsNull() || list.IsList()) {
		list.Fail("must contain at least one release, that of the CPI")
	}
	for _, item := range items {
		if !item.IsNull() && !sections.Map(item, "releases[]") {
			r.releases.open = true
			continue
		}
		name, ok := item.Get("name").Required("the name of the release")
		if ok && slices.Contains(r.releases.list, name) {
			item.Get("name").Fail("must be unique, but there is another release %q", document.Literal(name))
		}
		r.releases.add(item.Get("name"), name, ok)
		what := "release"
		if len(list.CloudConfigs()) > 0 {
			what += "; or its source, with --release NAME=SOURCE"
		}
		url := r.sourceURL(item.Get("url"), what)
		r.manifest.Releases = append(r.manifest.Releases, Release{
			Name: name,
			URL:  url,
			SHA1: digestField(item.Get("sha1"), isRemote(url)),
			Pos:  item.Position(),
			Lock: r.lockOf(item),
		})
	}
}

// readNetworks reads networks.
func (r *reader) readNetworks(list document.Value) {
	r.networks.open = list.Pending()
	for _, item := range list.Items() {
		if !item.IsNull() && !sections.Map(item, "networks[]") {
			r.networks.open = true
			continue
		}
		network := Network{
			DNS:             item.Get("dns").Texts(),
			CloudProperties: settings(item.Get("cloud_properties")),
		}
		name, ok := item.Get("name").Required("the name of the network")
		if ok && slices.Contains(r.networks.list, name) {
			item.Get("name").Warn("there is another network %q; the last one is used", document.Literal(name))
		}
		r.networks.add(item.Get("name"), name, ok)
		network.Name = name
		const types = "must be manual, dynamic or vip"
		place := item.Get("type")
		kind, ok := place.Text()
		switch {
		case place.IsNull():
			place.Fail("must be provided: manual, dynamic or vip")
		case ok && kind != typeManual && kind != typeDynamic && kind != typeVIP:
			place.Fail(types+", but is %q%s", kind, spelling.Suggest(kind, []string{typeManual, typeDynamic, typeVIP}))
		}
		network.Type = kind
		if kind == typeManual {
			network.Subnet = r.readSubnets(item)
		} else if subnets := item.Get("subnets"); ok && subnets.Len() > 0 {
			subnets.Warn("are not used in a network of type %s; put its dns and cloud_properties in the network itself", kind)
		}
		r.manifest.Networks = append(r.manifest.Networks, network)
	}
}

// readSubnets reads the one subnet of a manual network.
func (r *reader) readSubnets(network document.Value) *Subnet {
	for _, key := range []string{"dns", "cloud_properties"} {
		if value := network.Get(key); value.Len() > 0 {
			value.Warn("is not used in a manual network; put it in subnets[0].%s", key)
		}
	}
	list := network.Get("subnets")
	items := list.Items()
	if list.Pending() || !list.IsNull() && !list.IsList() {
		return &Subnet{}
	}
	if len(items) != 1 {
		list.Fail("must contain exactly one subnet in a manual network, but contains %d", len(items))
	}
	var first *Subnet
	for _, item := range items {
		if !item.IsNull() && !sections.Map(item, "networks[].subnets[]") {
			continue
		}
		if subnet := r.readSubnet(item); first == nil {
			first = subnet
		}
	}
	if first == nil {
		return &Subnet{}
	}
	return first
}

// readSubnet reads a subnet.
func (r *reader) readSubnet(item document.Value) *Subnet {
	subnet := &Subnet{
		DNS:             item.Get("dns").Texts(),
		CloudProperties: settings(item.Get("cloud_properties")),
	}
	subnet.reserved = subnet.readRanges(item.Get("reserved"))
	subnet.static = subnet.readRanges(item.Get("static"))
	place := item.Get("range")
	if text, ok := place.Required("the addresses of the network in CIDR form, such as 10.0.0.0/24"); ok {
		subnet.Range, ok = parsePrefix(text)
		if !ok {
			place.Fail("must be a range of addresses in CIDR form, such as 10.0.0.0/24, but is %q", text)
		}
	}
	place = item.Get("gateway")
	text, ok := place.Required("the address of the network's router, such as 10.0.0.1")
	if !ok {
		return subnet
	}
	subnet.Gateway = text
	gateway, ok := parseAddress(text)
	if !ok {
		place.Fail("must be an IP address, such as 10.0.0.1, but is %q", text)
	} else if subnet.Range.IsValid() {
		if why := refuseGateway(gateway, subnet.Range); why != "" {
			place.Fail("%s", why)
		}
	}
	return subnet
}

// readRanges reads a list of addresses and ranges, for warnings.
func (s *Subnet) readRanges(list document.Value) netipx.IPSet {
	if !list.IsList() {
		return netipx.IPSet{}
	}
	var set netipx.IPSetBuilder
	for _, item := range list.Items() {
		if item.IsNull() || !item.IsScalar() || item.Pending() {
			return netipx.IPSet{}
		}
		parsed, ok := parseRange(item.Scalar())
		if !ok {
			s.ignored = append(s.ignored, item)
			continue
		}
		set.AddRange(parsed)
	}
	addresses, err := set.IPSet()
	if err != nil { // the ranges are all valid
		return netipx.IPSet{}
	}
	return *addresses
}

// readResourcePools reads resource_pools.
func (r *reader) readResourcePools(list document.Value) {
	for _, item := range list.Items() {
		if !item.IsNull() && !sections.Map(item, "resource_pools[]") {
			continue
		}
		p := pool{place: item}
		p.Name, p.named = item.Get("name").Required("the name of the resource pool")
		if p.named && slices.ContainsFunc(r.pools, func(other pool) bool { return other.named && other.Name == p.Name }) {
			item.Get("name").Warn("there is another resource pool %q; the first one is used", document.Literal(p.Name))
		}
		network := item.Get("network")
		if name, ok := network.Required("the name of a network in networks"); ok {
			p.Network = name
			r.networks.check(network, name, "a network", "networks")
		}
		p.CloudProperties = settings(item.Get("cloud_properties"))
		p.Env = settings(item.Get("env"))
		stemcell := item.Get("stemcell")
		if stemcell.IsNull() {
			stemcell.Fail("must be provided: a map with the url of the stemcell and, for an http(s) URL, its sha1")
		} else if sections.Map(stemcell, "resource_pools[].stemcell") {
			url := r.sourceURL(stemcell.Get("url"), "stemcell")
			p.Stemcell = StemcellRef{
				URL:  url,
				SHA1: digestField(stemcell.Get("sha1"), isRemote(url)),
				Pos:  stemcell.Position(),
			}
		}
		r.pools = append(r.pools, p)
	}
}

// readDiskPools reads disk_pools.
func (r *reader) readDiskPools(list document.Value) {
	for _, item := range list.Items() {
		if !item.IsNull() && !sections.Map(item, "disk_pools[]") {
			continue
		}
		d := disk{place: item}
		d.Name, d.named = item.Get("name").Required("the name of the disk pool")
		if d.named && slices.ContainsFunc(r.disks, func(other disk) bool { return other.named && other.Name == d.Name }) {
			item.Get("name").Warn("there is another disk pool %q; the first one is used", document.Literal(d.Name))
		}
		place := item.Get("disk_size")
		size, _ := place.Whole(diskBound(1, ""))
		if place.IsNull() {
			place.Fail("must be provided: the size of the disk in MiB")
		}
		d.Size = size
		d.CloudProperties = settings(item.Get("cloud_properties"))
		r.disks = append(r.disks, d)
	}
}

// readTags returns the tags of the deployment or of its group.
func readTags(c document.Value) map[string]string {
	tags := map[string]string{}
	if c.IsNull() || c.Pending() {
		return tags
	}
	if !c.IsMap() {
		c.Fail(`must be a map (lines "key: value"), not %s`, c.Describe())
		return tags
	}
	for key, value := range c.All() {
		tags[key], _ = value.Text()
	}
	return tags
}

// readFeatures reads features. create-env ignores them, so wrong values are only
// warnings.
func (r *reader) readFeatures(c document.Value) {
	if c.IsNull() || c.Pending() {
		return
	}
	if !c.IsMap() {
		c.Warn(`must be a map (lines "key: value"), not %s; it is ignored`, c.Describe())
		return
	}
	sections.WarnUnknown(c, "features")
	use := c.Get("use_dns_addresses")
	r.manifest.UseDNS = use.LenientFlag(false)
	if r.many == nil {
		return // the others are about several instances, or about package document
	}
	links, short := c.Get("use_link_dns_names"), c.Get("use_short_dns_addresses")
	names := DNS{Links: links.LenientFlag(false)}
	names.Addresses, names.Short = names.Links || use.LenientFlag(false), names.Links || short.LenientFlag(false)
	for _, other := range []document.Value{use, short} {
		if names.Links && !other.IsNull() && !other.LenientFlag(true) {
			other.Fail("must be true or be left out, because use_link_dns_names is true: those names are short names in place of addresses")
		}
	}
	r.manifest.DNS = names
	warnUnused(c.Get("randomize_az_placement"), "a new instance gets the zone with the fewest, the first by name")
}

// warnUnused warns of a feature that is switched on and not used.
func warnUnused(c document.Value, why string) {
	if c.LenientFlag(false) {
		c.WarnKey("is not used: %s", why)
	}
}
