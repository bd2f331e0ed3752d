package manifest

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"bootstrap/internal/number"
	"bootstrap/manifest/document"
	"bootstrap/network"
)

// shared is the cloud config, which the deployments of a cloud share. Names in
// parentheses in its messages are the Director's names of errors.
type shared struct {
	zones, types, extensions, disks catalog
	networks                        []network.Network
}

// catalog is a section of the cloud config, with items that instance groups name.
type catalog struct {
	names
	items map[string]catalogItem
}

// catalogItem is an availability zone, a VM type, a VM extension or a disk type.
type catalogItem struct {
	place           document.Value
	cloudProperties map[string]any
	size            int // size of a disk type, in MiB
}

// readCloudConfig reads the cloud config. It checks all of it, including parts that this
// deployment does not use.
func (r *reader) readCloudConfig(top document.Value) {
	r.shared = &shared{
		zones:      readCatalog(top.Get("azs"), "cloud.azs[]", "availability zone", "DeploymentDuplicateAvailabilityZoneName"),
		types:      readCatalog(top.Get("vm_types"), "cloud.vm_types[]", "VM type", "DeploymentDuplicateVmTypeName"),
		extensions: readCatalog(top.Get("vm_extensions"), "cloud.vm_extensions[]", "VM extension", "DeploymentDuplicateVmExtensionName"),
		disks:      readCatalog(top.Get("disk_types"), "cloud.disk_types[]", "disk type", "DeploymentDuplicateDiskTypeName"),
	}
	for name, item := range r.shared.disks.items {
		place := item.place.Get("disk_size")
		size, _ := place.Whole(diskBound(1, "DiskTypeInvalidDiskSize"))
		if place.IsNull() {
			place.Fail("must be provided: the size of the disk in MiB")
		}
		item.size = size
		r.shared.disks.items[name] = item
	}
	r.readSharedNetworks(top.Get("networks"))
	sections.Map(top.Get("compilation"), "cloud.compilation")
}

// readCatalog reads a section; what is the kind of its items, and duplicate the
// Director's name of the error for two items of one name.
func readCatalog(list document.Value, name, what, duplicate string) catalog {
	c := catalog{items: map[string]catalogItem{}}
	c.open = list.Pending()
	for _, item := range list.Items() {
		if !item.IsNull() && !sections.Map(item, name) {
			c.open = true
			continue
		}
		place := item.Get("name")
		text, ok := place.Required("the name of the " + what)
		if first, twice := c.items[text]; ok && twice {
			place.Fail("must be unique, but there is another %s %q, in %s (%s)", document.Literal(what), document.Literal(text), first.place.Position(), document.Literal(duplicate))
			continue
		}
		c.add(place, text, ok)
		entry := catalogItem{place: item, cloudProperties: settings(item.Get("cloud_properties"))}
		if ok {
			c.items[text] = entry
		}
	}
	return c
}

// find returns the item that a value of the manifest names, and records that the
// deployment uses it. unknown is the Director's name of the error.
func (c *catalog) find(v document.Value, name, what, where, unknown string) (catalogItem, bool) {
	item, ok := c.items[name]
	if !ok {
		c.checkAs(v, name, what, where+" of the cloud config", unknown)
		return catalogItem{}, false
	}
	item.place.Use()
	return item, true
}

// readPlacement reads the parts of an instance group that refer to the cloud config:
// zones, networks, kind of VM and disk, and its stemcell.
func (r *reader) readPlacement(c document.Value, group *InstanceGroup) {
	if place := c.Get("resource_pool"); !place.IsNull() {
		place.Fail("cannot be used with a cloud config: name a vm_type in its place (V1DeprecatedResourcePool)")
	}
	pool := &r.manifest.ResourcePool
	pool.Stemcell = r.findStemcell(c.Get("stemcell"))
	pool.Env = settings(c.Get("env"))
	r.env = c.Get("env")
	r.addTmpfs(pool.Env)
	if tags := c.Get("tags"); !tags.IsNull() {
		maps.Copy(r.manifest.Tags, readTags(tags))
	}
	r.checkTags(r.env)
	r.readUpdate(c.Get("update"))
	group.Disk = r.findSharedDisk(c)
	group.Disks = r.readNamedDisks(c)
	r.readWishes(c, r.readKind(c))
}

// vmKind is the content of the VM type and the VM extensions of a group.
type vmKind struct {
	name       string // for example: vm_type small
	extended   bool   // there are extensions
	properties map[string]any
	sources    map[string]string // the part of the cloud config that sets each property
}

// add adds cloud_properties. They replace values of the same name.
func (k *vmKind) add(source string, properties map[string]any) {
	for key, value := range properties {
		k.properties[key], k.sources[key] = value, source
	}
}

// readKind returns the cloud_properties of the group's VM type and of its VM
// extensions.
func (r *reader) readKind(c document.Value) vmKind {
	own := vmKind{name: "the VM", properties: map[string]any{}, sources: map[string]string{}}
	place, resources := c.Get("vm_type"), c.Get("vm_resources")
	switch {
	case !resources.IsNull() && !place.IsNull():
		resources.Fail("cannot be used together with vm_type (InstanceGroupBadVmConfiguration)")
	case !resources.IsNull():
		own.name = resourcesKey
		own.add(own.name, map[string]any{resourcesKey: readResources(resources)})
	default:
		name, ok := place.Required("the name of a VM type in vm_types of the cloud config, or vm_resources in its place")
		if !ok {
			break
		}
		if item, ok := r.shared.types.find(place, name, "a VM type", "vm_types", "InstanceGroupUnknownVmType"); ok {
			own.name = "vm_type " + name
			own.add(own.name, item.cloudProperties)
		}
	}
	for _, place := range c.Get("vm_extensions").Items() {
		name, ok := place.Required("the name of a VM extension in vm_extensions of the cloud config")
		if !ok {
			continue
		}
		if item, ok := r.shared.extensions.find(place, name, "a VM extension", "vm_extensions", ""); ok {
			own.extended = true
			own.add("vm_extension "+name, item.cloudProperties)
		}
	}
	return own
}

// resourcesKey is the key of a group with the resources of its VMs, and the name of the
// cloud property that stands for them until the CPI is asked.
const resourcesKey = "vm_resources"

// readResources reads vm_resources.
func readResources(c document.Value) map[string]any {
	resources := map[string]any{}
	if !sections.Map(c, "instance_groups[].vm_resources") {
		return resources
	}
	for key, place := range map[string]document.Value{"cpu": c.Get("cpu"), "ram": c.Get("ram"), "ephemeral_disk_size": c.Get("ephemeral_disk_size")} {
		bound := number.Bound{Least: 1, Most: number.MaxMiB, About: "in MiB"}
		if key == "cpu" {
			bound = number.Bound{Least: 1, Most: maxCPUs, About: "the number of CPUs"}
		}
		n, ok := place.Whole(bound)
		switch {
		case place.IsNull():
			place.Fail("must be provided: a whole number")
		case ok:
			resources[key] = n
		}
	}
	return resources
}

// Resources returns the resources that the VM needs, and its other cloud_properties; nil if
// the manifest names a VM type. Those of set win over the answer of the CPI.
func (m *Manifest) Resources() (resources, zone, set map[string]any) {
	if m.Placement == nil || m.Placement.kind.sources[resourcesKey] != resourcesKey {
		return nil, nil, nil
	}
	zone, set = map[string]any{}, map[string]any{}
	for key, value := range m.ResourcePool.CloudProperties {
		switch {
		case key == resourcesKey:
			resources, _ = value.(map[string]any)
		case m.Placement.kind.sources[key] != "":
			set[key] = value
		default:
			zone[key] = value
		}
	}
	return resources, zone, set
}

// findSharedDisk returns the group's persistent disk: of its disk type, or of the given
// size.
func (r *reader) findSharedDisk(c document.Value) *DiskPool {
	kind, pool := c.Get("persistent_disk_type"), c.Get("persistent_disk_pool")
	if !pool.IsNull() {
		pool.Fail("cannot be used with a cloud config: name a persistent_disk_type in its place (V1DeprecatedDiskPools)")
	}
	place := c.Get("persistent_disk")
	size, _ := place.Whole(diskBound(0, "InstanceGroupInvalidPersistentDisk"))
	name, named := kind.Text()
	switch {
	case named && name != "" && !place.IsNull():
		kind.Fail("cannot be used together with persistent_disk (InstanceGroupInvalidPersistentDisk)")
	case named && name != "":
		item, ok := r.shared.disks.find(kind, name, "a disk type", "disk_types", "InstanceGroupUnknownDiskType")
		if !ok {
			return nil
		}
		return &DiskPool{Name: name, Size: item.size, CloudProperties: item.cloudProperties}
	case size > 0:
		return &DiskPool{Size: size, CloudProperties: map[string]any{}}
	}
	return nil
}

// readNamedDisks reads the group's persistent_disks.
func (r *reader) readNamedDisks(c document.Value) []NamedDisk {
	list := c.Get("persistent_disks")
	for _, key := range []string{"persistent_disk", "persistent_disk_type"} {
		if !list.IsNull() && !c.Get(key).IsNull() {
			list.Fail("cannot be used together with %s (InstanceGroupInvalidPersistentDisk)", key)
		}
	}
	var disks []NamedDisk
	for _, item := range list.Items() {
		if !sections.Map(item, "instance_groups[].persistent_disks[]") {
			continue
		}
		place := item.Get("name")
		name, ok := place.Required("the name under which jobs find the disk")
		switch {
		case !ok:
			continue
		case !diskName.MatchString(name):
			place.Fail("must be letters, digits, '.', '_' and '-', because it is the name of a file on the VM, but it is %q", document.Literal(name))
			continue
		case slices.ContainsFunc(disks, func(d NamedDisk) bool { return d.Name == name }):
			place.Fail("must be unique, but there is another disk %q (InstanceGroupInvalidPersistentDisk)", document.Literal(name))
			continue
		}
		kind := item.Get("type")
		named, ok := kind.Required("the name of a disk type in disk_types")
		if !ok {
			continue
		}
		if of, found := r.shared.disks.find(kind, named, "a disk type", "disk_types", "InstanceGroupUnknownDiskType"); found {
			disks = append(disks, NamedDisk{Name: name, Pool: DiskPool{Name: named, Size: of.size, CloudProperties: of.cloudProperties}})
		}
	}
	return disks
}

// diskName matches names of files that are neither hidden nor other folders.
var diskName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// readStemcells reads stemcells.
func (r *reader) readStemcells(list document.Value) {
	items := list.Items()
	r.stemcells.open, r.stemcellRefs = list.Pending(), map[string]StemcellRef{}
	if len(items) == 0 && (list.IsNull() || list.IsList()) {
		list.Fail("must contain the stemcell of the instance group: its alias, url and, for an http(s) URL, sha1")
	}
	for _, item := range items {
		if !item.IsNull() && !sections.Map(item, "stemcells[]") {
			r.stemcells.open = true
			continue
		}
		place := item.Get("alias")
		alias, ok := place.Required("the name that instance groups have for the stemcell")
		if ok && slices.Contains(r.stemcells.list, alias) {
			place.Fail("must be unique, but there is another stemcell %q (StemcellAliasAlreadyExists)", document.Literal(alias))
			continue
		}
		r.stemcells.add(place, alias, ok)
		ref := StemcellRef{Pos: item.Position()}
		ref.Name, _ = item.Get("name").Text()
		ref.OS, _ = item.Get("os").Text()
		ref.Version, _ = item.Get("version").Text()
		if url := item.Get("url"); url.IsNull() {
			url.Fail("must be provided, because there is no Director to which the stemcell was uploaded: the URL of the stemcell, or file:// and a path; and for an http(s) URL, its sha1; or its source, with --stemcell OS=SOURCE")
		} else {
			ref.URL = r.sourceURL(url, "stemcell")
			ref.Instead = strings.HasPrefix(ref.URL, "embedded:") && url.Position().File != item.Position().File
			ref.SHA1, ref.Lock = digestField(item.Get("sha1"), isRemote(ref.URL)), r.lockOf(item)
		}
		if ok {
			r.stemcellRefs[alias] = ref
		}
	}
}

// findStemcell returns the stemcell that the group names.
func (r *reader) findStemcell(c document.Value) StemcellRef {
	alias, ok := c.Required("the alias of a stemcell in stemcells")
	if !ok {
		return StemcellRef{}
	}
	if ref, ok := r.stemcellRefs[alias]; ok {
		return ref
	}
	r.stemcells.checkAs(c, alias, "a stemcell", "stemcells", "InstanceGroupUnknownStemcell")
	return StemcellRef{}
}

// addTmpfs adds the meaning of features.use_tmpfs_config to the agent's settings.
func (r *reader) addTmpfs(env map[string]any) {
	place := r.top.Get("features").Get("use_tmpfs_config")
	if place.IsNull() {
		return
	}
	tmpfs := place.LenientFlag(true)
	for _, keys := range [][]string{{"bosh", "job_dir", "tmpfs"}, {"bosh", "agent", "settings", "tmpfs"}} {
		at := env
		for _, key := range keys[:len(keys)-1] {
			next, ok := at[key].(map[string]any)
			if !ok && at[key] != nil {
				return // checkTags or the agent reports it
			}
			if !ok {
				next = map[string]any{}
				at[key] = next
			}
			at = next
		}
		if _, given := at["tmpfs"]; !given {
			at["tmpfs"] = tmpfs
		}
	}
}
