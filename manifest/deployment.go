package manifest

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go4.org/netipx"
)

// reader turns the document into the manifest, and reports what is wrong.
type reader struct {
	*document
	*Manifest
	dir      string // of the manifest
	releases names
	networks names
	pools    []pool
	disks    []disk
	within   time.Duration // how soon a certificate ends that is warned of
	store    string        // file of the vars store, of which others warn
	lenient  bool
}

// names are the names that other parts of the manifest may refer to.
type names struct {
	list []string
	open bool // some are not known yet, because of variables
}

// add notes a name that was read from c.
func (n *names) add(c cursor, name string, ok bool) {
	if ok {
		n.list = append(n.list, name)
	}
	n.open = n.open || c.unsettled()
}

// check reports a reference to a name that is not there. what is the kind of
// thing, with an article; where is the list that holds them.
func (n *names) check(c cursor, name, what, where string) {
	if n.open || slices.Contains(n.list, name) {
		return
	}
	known := "; there is none"
	if len(n.list) > 0 {
		shown := make([]string, len(n.list))
		for i, option := range n.list {
			shown[i] = option
			if !simpleKey(option) {
				shown[i] = strconv.Quote(option)
			}
		}
		known = ": " + strings.Join(shown, ", ")
	}
	c.fail("must be the name of %s in %s%s, but is %q%s", what, where, known, name, didYouMean(name, n.list))
}

// pool is a resource pool with its place.
type pool struct {
	ResourcePool
	place cursor
	named bool
}

// disk is a disk pool with its place.
type disk struct {
	DiskPool
	place cursor
	named bool
}

// read reads and checks the whole document.
func (r *reader) read() {
	top := r.cursor()
	if !top.section("") {
		if top.node == nil {
			top.fail("the manifest is empty")
		}
		return
	}
	r.Name, _ = top.get("name").need("the name of the deployment")
	r.readReleases(top.get("releases"))
	r.readNetworks(top.get("networks"))
	r.readResourcePools(top.get("resource_pools"))
	r.readDiskPools(top.get("disk_pools"))
	r.Properties = top.get("properties").propertiesOrEmpty()
	r.readTags(top.get("tags"))
	r.readUpdate(top.get("update"))
	r.Protect = top.get("protect").lenientFlag(true)
	r.readFeatures(top.get("features"))
	r.readGroups(top)
	r.readInstallation(top.get("cloud_provider"))
	r.checkCertificates()
}

// readReleases reads releases.
func (r *reader) readReleases(list cursor) {
	items := list.items()
	r.releases.open = list.unsettled()
	if len(items) == 0 && (list.node == nil || list.node.kind == listKind) {
		list.fail("must list at least one release: that of the CPI")
	}
	for _, item := range items {
		if item.node != nil && !item.section("releases[]") {
			r.releases.open = true
			continue
		}
		name, ok := item.get("name").need("the name of the release")
		if ok && slices.Contains(r.releases.list, name) {
			item.get("name").fail("must be unique, but another release is called %q, too", literal(name))
		}
		r.releases.add(item.get("name"), name, ok)
		url := r.sourceURL(item.get("url"), "release")
		r.Releases = append(r.Releases, Release{
			Name: name,
			URL:  url,
			SHA1: item.get("sha1").digestField(strings.HasPrefix(url, "http")),
			Pos:  item.pos,
		})
	}
}

// readNetworks reads networks.
func (r *reader) readNetworks(list cursor) {
	r.networks.open = list.unsettled()
	for _, item := range list.items() {
		if item.node != nil && !item.section("networks[]") {
			r.networks.open = true
			continue
		}
		network := Network{
			DNS:             item.get("dns").texts(),
			CloudProperties: item.get("cloud_properties").propertiesOrEmpty(),
		}
		name, ok := item.get("name").need("the name of the network")
		if ok && slices.Contains(r.networks.list, name) {
			item.get("name").warn("another network is called %q, too; the last one counts", literal(name))
		}
		r.networks.add(item.get("name"), name, ok)
		network.Name = name
		const types = "must be manual, dynamic or vip"
		place := item.get("type")
		kind, ok := place.text()
		switch {
		case place.node == nil:
			place.fail("must be provided: manual, dynamic or vip")
		case ok && kind != typeManual && kind != typeDynamic && kind != typeVIP:
			place.fail(types+", but is %q%s", kind, didYouMean(kind, []string{typeManual, typeDynamic, typeVIP}))
		}
		network.Type = kind
		if kind == typeManual {
			network.Subnet = r.readSubnets(item)
		} else if subnets := item.get("subnets"); ok && subnets.length() > 0 {
			subnets.warn("are not used in a network of type %s; its dns and cloud_properties stand in the network itself", kind)
		}
		r.Networks = append(r.Networks, network)
	}
}

// readSubnets reads the one subnet of a manual network.
func (r *reader) readSubnets(network cursor) *Subnet {
	for _, key := range []string{"dns", "cloud_properties"} {
		if value := network.get(key); value.node != nil && len(value.node.items)+len(value.node.entries) > 0 {
			value.warn("is not used in a manual network; put it in subnets[0].%s", key)
		}
	}
	list := network.get("subnets")
	items := list.items()
	if list.unsettled() || list.node != nil && list.node.kind != listKind {
		return &Subnet{}
	}
	if len(items) != 1 {
		list.fail("must hold exactly one subnet in a manual network, but holds %d", len(items))
	}
	var first *Subnet
	for _, item := range items {
		if item.node != nil && !item.section("networks[].subnets[]") {
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
func (r *reader) readSubnet(item cursor) *Subnet {
	subnet := &Subnet{
		DNS:             item.get("dns").texts(),
		CloudProperties: item.get("cloud_properties").propertiesOrEmpty(),
		reserved:        readRanges(item.get("reserved")),
		static:          readRanges(item.get("static")),
	}
	place := item.get("range")
	if text, ok := place.need("the addresses of the network in CIDR form, such as 10.0.0.0/24"); ok {
		subnet.Range, ok = parsePrefix(text)
		if !ok {
			place.fail("must be a range of addresses in CIDR form, such as 10.0.0.0/24, but is %q", text)
		}
	}
	place = item.get("gateway")
	text, ok := place.need("the address of the network's router, such as 10.0.0.1")
	if !ok {
		return subnet
	}
	subnet.Gateway = text
	gateway, ok := parseAddress(text)
	if !ok {
		place.fail("must be an IP address, such as 10.0.0.1, but is %q", text)
	} else if subnet.Range.IsValid() {
		if why := refuseGateway(gateway, subnet.Range); why != "" {
			place.fail("%s", why)
		}
	}
	return subnet
}

// readRanges reads lists of addresses; they only serve for warnings.
func readRanges(list cursor) netipx.IPSet {
	if list.node == nil || list.node.kind != listKind {
		return netipx.IPSet{}
	}
	var set netipx.IPSetBuilder
	for _, item := range list.items() {
		if item.node == nil || item.node.kind != scalarKind || item.unsettled() {
			return netipx.IPSet{}
		}
		parsed, ok := parseRange(scalarText(item.node.value))
		if !ok {
			item.warn("is neither an IP address nor a range such as 10.0.0.2-10.0.0.9; it is ignored")
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
func (r *reader) readResourcePools(list cursor) {
	for _, item := range list.items() {
		if item.node != nil && !item.section("resource_pools[]") {
			continue
		}
		p := pool{place: item}
		p.Name, p.named = item.get("name").need("the name of the resource pool")
		if p.named && slices.ContainsFunc(r.pools, func(other pool) bool { return other.named && other.Name == p.Name }) {
			item.get("name").warn("another resource pool is called %q, too; the first one counts", literal(p.Name))
		}
		network := item.get("network")
		if name, ok := network.need("the name of a network in networks"); ok {
			p.Network = name
			r.networks.check(network, name, "a network", "networks")
		}
		p.CloudProperties = item.get("cloud_properties").propertiesOrEmpty()
		p.Env = item.get("env").propertiesOrEmpty()
		stemcell := item.get("stemcell")
		if stemcell.node == nil {
			stemcell.fail("must be provided: a map with the url of the stemcell and, for an http(s) URL, its sha1")
		} else if stemcell.section("resource_pools[].stemcell") {
			url := r.sourceURL(stemcell.get("url"), "stemcell")
			p.Stemcell = StemcellRef{
				URL:  url,
				SHA1: stemcell.get("sha1").digestField(strings.HasPrefix(url, "http")),
				Pos:  stemcell.pos,
			}
		}
		r.pools = append(r.pools, p)
	}
}

// readDiskPools reads disk_pools.
func (r *reader) readDiskPools(list cursor) {
	for _, item := range list.items() {
		if item.node != nil && !item.section("disk_pools[]") {
			continue
		}
		d := disk{place: item}
		d.Name, d.named = item.get("name").need("the name of the disk pool")
		if d.named && slices.ContainsFunc(r.disks, func(other disk) bool { return other.named && other.Name == d.Name }) {
			item.get("name").warn("another disk pool is called %q, too; the first one counts", literal(d.Name))
		}
		place := item.get("disk_size")
		size, ok := place.whole()
		switch {
		case place.node == nil:
			place.fail("must be provided: the size of the disk in MiB")
		case ok && size <= 0:
			place.fail("must be greater than 0: the size of the disk in MiB")
		}
		d.Size = size
		d.CloudProperties = item.get("cloud_properties").propertiesOrEmpty()
		r.disks = append(r.disks, d)
	}
}

// readTags reads tags.
func (r *reader) readTags(c cursor) {
	r.Tags = map[string]string{}
	if c.node == nil || c.unsettled() {
		return
	}
	if c.node.kind != mapKind {
		c.fail(`must be a map (lines "key: value"), not %s`, c.node.describe())
		return
	}
	for _, e := range c.node.entries {
		key := scalarText(e.key)
		value, _ := c.get(key).text()
		r.Tags[key] = value
	}
}

// readUpdate reads update.
func (r *reader) readUpdate(c cursor) {
	r.Update.WatchTime = WatchTime{Max: 5 * time.Minute}
	if !c.section("update") {
		return
	}
	place := c.get("update_watch_time")
	if text, ok := place.text(); ok {
		watch, wrong := parseWatchTime(text)
		if wrong != "" {
			place.fail(`%s; expected "SHORTEST-LONGEST" in milliseconds, such as 0-300000`, wrong)
		}
		r.Update.WatchTime = watch
	}
	place = c.get("vm_strategy")
	if text, ok := place.text(); ok {
		if text != "delete-create" && text != "create-swap-delete" {
			place.fail("must be delete-create or create-swap-delete, or be left out, but is %q", text)
		}
		r.Update.VMStrategy = text
	}
	r.Update.Snapshot = c.get("snapshot").lenientFlag(true)
}

// readFeatures reads features, which create-env ignores whatever they are.
func (r *reader) readFeatures(c cursor) {
	if c.node == nil || c.unsettled() {
		return
	}
	if c.node.kind != mapKind {
		c.warn(`must be a map (lines "key: value"), not %s; it is ignored`, c.node.describe())
		return
	}
	c.warnUnknownKeys("features")
	r.UseDNS = c.get("use_dns_addresses").lenientFlag(false)
}

// parseWatchTime reads "min-max" in milliseconds; wrong says why it cannot.
func parseWatchTime(text string) (watch WatchTime, wrong string) {
	parts := strings.Split(text, "-")
	if len(parts) != 2 {
		return WatchTime{}, "is not a range of two times"
	}
	var limits [2]time.Duration
	for i, part := range parts {
		ms, err := strconv.Atoi(strings.Trim(part, " "))
		if err != nil || ms < 0 {
			return WatchTime{}, "is not a range of two whole numbers"
		}
		if ms > 1000*60*60*24*365 {
			return WatchTime{}, "is longer than a year"
		}
		limits[i] = time.Duration(ms) * time.Millisecond
	}
	if limits[1] < limits[0] {
		return WatchTime{}, "ends before it begins"
	}
	return WatchTime{Min: limits[0], Max: limits[1]}, ""
}

// prefixOf returns the range of a network's subnet, if it is known.
func (n *Network) prefixOf() netip.Prefix {
	if n == nil || n.Subnet == nil {
		return netip.Prefix{}
	}
	return n.Subnet.Range
}
