package manifest

// form is the form of a key's value. A variable is allowed in place of any value.
type form uint8

const (
	formText      form = iota
	formWord           // text that is not blank
	formChoice         // one of the field's values
	formWhole          // a whole number from the field's least to its most
	formFlag           // true or false
	formDuration       // seconds, or a text such as 2m30s
	formWatch          // two times in milliseconds
	formDigest         // a multi-digest
	formAddress        // an IP address
	formAddresses      // an IP address, a range or a block, or a list of these
	formPaths          // a path or a list of paths
	formCIDR           // a range of addresses in CIDR form
	formMap            // a map of anything
	formTags           // a map of texts
	formType           // a type of variable
	formSection        // a map with the keys of the field's section
)

// field describes a key and its value.
type field struct {
	key   string
	form  form
	about string
	list  bool // of values of the form
	need  bool
	// of is the section of formSection.
	of          string
	values      []string
	least, most int // most 0: no limit
}

// keySection lists the keys of one map of the manifest: those that have a meaning
// and those of other tools, which get no warning.
type keySection struct {
	name    string // with [] for any index
	read    []field
	ignored []string
	open    bool // other keys get no warning either
}

// reads reports whether the key has a meaning in this section.
func (s keySection) reads(key string) bool {
	for _, f := range s.read {
		if f.key == key {
			return true
		}
	}
	return false
}

// keys returns the keys that have a meaning in this section.
func (s keySection) keys() []string {
	keys := make([]string, len(s.read))
	for i, f := range s.read {
		keys[i] = f.key
	}
	return keys
}

// sections are all maps of the manifest with fixed keys, for the reader and for
// the schema.
var sections = []keySection{
	{name: "", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the deployment."},
		{key: "releases", form: formSection, of: "releases[]", list: true, need: true, least: 1, about: "Releases with the jobs and the CPI."},
		{key: "cloud_config", form: formPaths, about: "Path of the cloud config, or a list of paths, from the manifest's folder; --cloud-config replaces it."},
		{key: "networks", form: formSection, of: "networks[]", list: true, about: "Networks that the VM can be attached to. Not with a cloud config."},
		{key: "resource_pools", form: formSection, of: "resource_pools[]", list: true, about: "VM and stemcell. Not with a cloud config."},
		{key: "disk_pools", form: formSection, of: "disk_pools[]", list: true, about: "Kinds of persistent disk. Not with a cloud config."},
		{key: "stemcells", form: formSection, of: "stemcells[]", list: true, about: "With a cloud config: the stemcell of the VM."},
		{key: "instance_groups", form: formSection, of: "instance_groups[]", list: true, most: 1, about: "The one VM: its jobs, networks and disk."},
		{key: "jobs", form: formSection, of: "instance_groups[]", list: true, most: 1, about: "Old name of instance_groups."},
		{key: "properties", form: formMap, about: "Properties of all jobs."},
		{key: "addons", form: formMap, list: true, about: "Not supported: list the jobs in the instance group. Ignored without a cloud config."},
		{key: "tags", form: formTags, about: "Tags that the CPI puts on the VM and its disk."},
		{key: "update", form: formSection, of: "update", about: "How the VM is updated."},
		{key: "protect", form: formFlag, about: "Whether delete refuses to delete the VM and its disk."},
		{key: "features", form: formSection, of: "features", about: "Features to switch on."},
		{key: "cloud_provider", form: formSection, of: "cloud_provider", need: true, about: "The CPI that creates the VM, and how to reach the VM's agent."},
		{key: "variables", form: formSection, of: "variables[]", list: true, about: "Variables that are generated with --vars-store."},
	}, ignored: []string{
		"director_uuid", "azs", "vm_types", "vm_extensions", "disk_types", "compilation",
	}},
	{name: "stemcells[]", read: []field{
		{key: "alias", form: formWord, need: true, about: "Name that the instance group has for the stemcell."},
		{key: "url", form: formWord, need: true, about: "http(s)://, file://, or embedded:NAME."},
		{key: "sha1", form: formDigest, about: "Digest of the file: SHA-1 as hex, or sha256:HEX or sha512:HEX. Needed for http(s)."},
		{key: "name", form: formText, about: "Name of the stemcell."},
		{key: "os", form: formText, about: "Operating system of the stemcell, such as ubuntu-noble."},
		{key: "version", form: formText, about: "Version of the stemcell, or latest."},
	}},
	{name: "releases[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the release."},
		{key: "url", form: formWord, need: true, about: "http(s)://, file://, or embedded:NAME. A relative path starts from the manifest's folder. A folder in release layout is allowed."},
		{key: "sha1", form: formDigest, about: "Digest of the file: SHA-1 as hex, or sha256:HEX or sha512:HEX. Needed for http(s)."},
	}, ignored: []string{"version", "stemcell", "exported_from"}},
	{name: "networks[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the network."},
		{key: "type", form: formChoice, need: true, values: []string{typeManual, typeDynamic, typeVIP}, about: "manual: addresses from this manifest; dynamic: from the cloud; vip: floating addresses."},
		{key: "cloud_properties", form: formMap, about: "Properties of a dynamic or vip network for the CPI."},
		{key: "dns", form: formText, list: true, about: "DNS servers of a dynamic network."},
		{key: "subnets", form: formSection, of: "networks[].subnets[]", list: true, about: "The one subnet of a manual network."},
	}, ignored: []string{"ip", "netmask", "gateway"}},
	{name: "networks[].subnets[]", read: []field{
		{key: "range", form: formCIDR, need: true, about: "Addresses of the network, such as 10.0.0.0/24."},
		{key: "gateway", form: formAddress, need: true, about: "Address of the network's router."},
		{key: "dns", form: formText, list: true, about: "DNS servers."},
		{key: "cloud_properties", form: formMap, about: "Properties of the network for the CPI."},
		{key: "static", form: formText, list: true, about: "Addresses, or ranges such as 10.0.0.2-10.0.0.9, for static_ips; others get a warning."},
		{key: "reserved", form: formText, list: true, about: "Addresses, or ranges such as 10.0.0.2-10.0.0.9, that should not be used; these get a warning."},
	}, ignored: []string{"az", "azs", "name"}},
	{name: "resource_pools[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the resource pool."},
		{key: "network", form: formWord, need: true, about: "Name of a network in networks."},
		{key: "cloud_properties", form: formMap, about: "Properties of the VM for the CPI, such as size and zone."},
		{key: "env", form: formSection, of: "resource_pools[].env", about: "Settings of the VM's agent."},
		{key: "stemcell", form: formSection, of: "resource_pools[].stemcell", need: true, about: "Image of the VM."},
	}, ignored: []string{"size"}},
	{name: "resource_pools[].env", open: true, read: []field{
		{key: "bosh", form: formSection, of: "resource_pools[].env.bosh", about: "Settings of BOSH's agent."},
	}},
	{name: "resource_pools[].env.bosh", open: true, read: []field{
		{key: "mbus", form: formSection, of: "resource_pools[].env.bosh.mbus", about: "The agent's server."},
	}},
	{name: "resource_pools[].env.bosh.mbus", open: true, read: []field{
		{key: "cert", form: formSection, of: "resource_pools[].env.bosh.mbus.cert", about: "Certificate of the agent; usually a variable of the type certificate."},
	}},
	{name: "resource_pools[].env.bosh.mbus.cert", open: true, read: []field{
		{key: "certificate", form: formText, about: "Certificate in PEM, with the host of cloud_provider.mbus among its names."},
		{key: "private_key", form: formText, about: "Its private key in PEM."},
	}},
	{name: "resource_pools[].stemcell", read: []field{
		{key: "url", form: formWord, need: true, about: "http(s)://, file://, or embedded:NAME."},
		{key: "sha1", form: formDigest, about: "Digest of the file: SHA-1 as hex, or sha256:HEX or sha512:HEX. Needed for http(s)."},
	}, ignored: []string{"name", "version", "os", "alias"}},
	{name: "disk_pools[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the disk pool."},
		{key: "disk_size", form: formWhole, need: true, least: 1, about: "Size of the disk in MiB."},
		{key: "cloud_properties", form: formMap, about: "Properties of the disk for the CPI."},
	}},
	{name: "instance_groups[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the instance group."},
		{key: "instances", form: formWhole, need: true, least: 1, most: 1, about: "Always 1: a manifest describes one VM."},
		{key: "lifecycle", form: formChoice, values: []string{"service", ""}, about: "Always service."},
		{key: "templates", form: formSection, of: "instance_groups[].jobs[]", list: true, about: "Old name of jobs."},
		{key: "jobs", form: formSection, of: "instance_groups[].jobs[]", list: true, about: "Jobs on the VM."},
		{key: "networks", form: formSection, of: "instance_groups[].networks[]", list: true, need: true, least: 1, about: "Networks of the VM."},
		{key: "persistent_disk", form: formWhole, about: "Size of the persistent disk in MiB; 0 for none."},
		{key: "persistent_disk_pool", form: formText, about: "Name of a disk pool in disk_pools, for a persistent disk."},
		{key: "resource_pool", form: formWord, about: "Name of a resource pool in resource_pools. Not with a cloud config."},
		{key: "properties", form: formMap, about: "Properties of the jobs, in place of the manifest's properties."},
		{key: "azs", form: formWord, list: true, about: "With a cloud config: zones that the VM may be in."},
		{key: "vm_type", form: formWord, about: "With a cloud config: name of a VM type in vm_types."},
		{key: "vm_extensions", form: formWord, list: true, about: "With a cloud config: names of VM extensions in vm_extensions."},
		{key: "vm_resources", form: formMap, about: "Not supported: name a vm_type."},
		{key: "stemcell", form: formWord, about: "With a cloud config: alias of a stemcell in stemcells."},
		{key: "persistent_disk_type", form: formText, about: "With a cloud config: name of a disk type in disk_types, for a persistent disk."},
		{key: "persistent_disks", form: formMap, list: true, about: "Not supported: name a persistent_disk_type."},
		{key: "env", form: formSection, of: "resource_pools[].env", about: "With a cloud config: settings of the VM's agent."},
		{key: "tags", form: formTags, about: "With a cloud config: tags that the CPI puts on the VM, beside those of the manifest."},
		{key: "update", form: formSection, of: "update", about: "With a cloud config: how the VM is updated, in place of the manifest's update."},
	}, ignored: []string{"migrated_from", "consumes", "provides"}},
	{name: "instance_groups[].jobs[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of a job of the release."},
		{key: "release", form: formWord, need: true, about: "Name of a release in releases."},
		{key: "properties", form: formMap, about: "Properties of this job, in place of all others."},
		{key: "consumes", form: formMap, about: "Sources of the links that the job consumes."},
		{key: "provides", form: formMap, about: "Names of the links that the job provides."},
	}, ignored: []string{"custom_provider_definitions"}},
	{name: "instance_groups[].networks[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of a network in networks."},
		{key: "static_ips", form: formAddresses, about: "Address of the VM, which a manual network needs unless it is one of a cloud config."},
		{key: "default", form: formChoice, list: true, values: []string{"dns", "gateway", "addressable"}, about: "Uses for which this network is the VM's default, if there are several; addressable needs a cloud config."},
		{key: "nic_group", form: formText, about: "Not supported: each network has an interface of its own."},
	}},
	{name: "update", read: []field{
		{key: "update_watch_time", form: formWatch, about: "How long to wait until the jobs run: SHORTEST-LONGEST in milliseconds, such as 0-300000; with a cloud config, also one number."},
		{key: "vm_strategy", form: formChoice, values: []string{"delete-create", "create-swap-delete"}, about: "Order of deletion and creation when the VM is replaced."},
		{key: "snapshot", form: formFlag, about: "Whether to take a snapshot of the disk before the VM or disk is changed, if the CPI can."},
	}, ignored: []string{
		"canaries", "canary_watch_time", "max_in_flight", "serial", "initial_deploy_az_update_strategy",
	}},
	{name: "features", read: []field{
		{key: "use_dns_addresses", form: formFlag, about: "Whether the VM gets the DNS records of its instance."},
		{key: "use_tmpfs_config", form: formFlag, about: "With a cloud config: whether the agent keeps settings and jobs in memory."},
	}, ignored: []string{
		"converge_variables", "randomize_az_placement", "use_link_dns_names", "use_short_dns_addresses",
	}},
	{name: "cloud_provider", read: []field{
		{key: "template", form: formSection, of: "cloud_provider.template", about: "Job of the CPI."},
		{key: "templates", form: formSection, of: "cloud_provider.template", list: true, about: "Jobs of the CPI, in place of template."},
		{key: "properties", form: formMap, about: "Properties of the CPI's jobs."},
		{key: "mbus", form: formWord, need: true, about: "URL at which the agent is reached: https://USER:PASSWORD@HOST:PORT. A name behind it, #NAME, is the one for which the agent's certificate is verified."},
		{key: "cert", form: formSection, of: "cloud_provider.cert", about: "Certificate of the agent; usually a variable of the type certificate."},
		{key: "ssh_tunnel", form: formSection, of: "cloud_provider.ssh_tunnel", about: "SSH connection to the VM, for CPIs and stemcells that need a registry."},
		{key: "registry", form: formSection, of: "cloud_provider.registry", about: "The registry, for CPIs and stemcells that need one."},
	}},
	{name: "cloud_provider.template", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the CPI's job."},
		{key: "release", form: formWord, need: true, about: "Name of a release in releases."},
	}},
	{name: "cloud_provider.cert", read: []field{
		{key: "ca", form: formText, about: "CA that signed the agent's certificate, in PEM."},
	}, ignored: []string{"certificate", "private_key"}},
	{name: "cloud_provider.ssh_tunnel", read: []field{
		{key: "user", form: formText, about: "User to log in as on the VM."},
		{key: "host", form: formText, about: "Host name or address of the VM's SSH server."},
		{key: "port", form: formWhole, most: 65535, about: "Port of the VM's SSH server; 22 unless given."},
		{key: "password", form: formText, about: "Password of the user."},
		{key: "private_key", form: formText, about: "Private key in PEM, or the path of a file with it."},
		{key: "connection_refused_timeout", form: formDuration, about: "How long the SSH server may refuse connections: seconds, or a time such as 2m30s."},
		{key: "auth_failure_timeout", form: formDuration, about: "How long the SSH server may refuse the user: seconds, or a time such as 2m30s."},
	}},
	{name: "cloud_provider.registry", read: []field{
		{key: "host", form: formText, about: "Address to listen on; 127.0.0.1 unless given."},
		{key: "port", form: formWhole, most: 65535, about: "Port to listen on; 6901 unless given, 0 for a free one."},
		{key: "username", form: formText, about: "User that the CPI logs in as."},
		{key: "password", form: formText, about: "Password of the user; generated unless given."},
		{key: "unauthenticated_get", form: formFlag, about: "Whether agents read their settings without credentials through the tunnel; true unless given."},
	}},
	{name: "cloud", read: []field{
		{key: "azs", form: formSection, of: "cloud.azs[]", list: true, about: "Availability zones."},
		{key: "networks", form: formSection, of: "cloud.networks[]", list: true, about: "Networks that VMs can be attached to."},
		{key: "vm_types", form: formSection, of: "cloud.vm_types[]", list: true, about: "Kinds of VM."},
		{key: "vm_extensions", form: formSection, of: "cloud.vm_extensions[]", list: true, about: "Additions to kinds of VM."},
		{key: "disk_types", form: formSection, of: "cloud.disk_types[]", list: true, about: "Kinds of persistent disk."},
		{key: "compilation", form: formSection, of: "cloud.compilation", about: "Compilation VMs of a Director. Not used: packages are compiled on the VM itself."},
	}},
	{name: "cloud.azs[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the availability zone."},
		{key: "cloud_properties", form: formMap, about: "Properties of the zone for the CPI, below those of the VM type."},
	}, ignored: []string{"cpi"}},
	{name: "cloud.vm_types[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the VM type."},
		{key: "cloud_properties", form: formMap, about: "Properties of the VM for the CPI."},
	}},
	{name: "cloud.vm_extensions[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the VM extension."},
		{key: "cloud_properties", form: formMap, about: "Properties of the VM for the CPI, above those of the VM type."},
	}},
	{name: "cloud.disk_types[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the disk type."},
		{key: "disk_size", form: formWhole, need: true, least: 1, about: "Size of the disk in MiB."},
		{key: "cloud_properties", form: formMap, about: "Properties of the disk for the CPI."},
	}},
	{name: "cloud.networks[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the network."},
		{key: "type", form: formChoice, values: []string{typeManual, typeDynamic, typeVIP}, about: "manual (the default): addresses from this cloud config; dynamic: from the cloud; vip: floating addresses."},
		{key: "scope", form: formText, about: "Name of a set of networks whose addresses are unique among themselves only."},
		{key: "subnets", form: formSection, of: "cloud.networks[].subnets[]", list: true, about: "Subnets; a dynamic or vip network may have none."},
		{key: "dns", form: formText, list: true, about: "DNS servers of a dynamic network without subnets."},
		{key: "cloud_properties", form: formMap, about: "Properties of a dynamic network without subnets, or of a vip network, for the CPI."},
		{key: "az", form: formWord, about: "Not allowed here, but in subnets."},
		{key: "azs", form: formWord, list: true, about: "Not allowed here, but in subnets."},
		{key: "managed", form: formFlag, about: "Not supported: networks are not created."},
		{key: "prefix", form: formWhole, most: 128, about: "Not allowed here, but in subnets."},
	}},
	{name: "cloud.networks[].subnets[]", read: []field{
		{key: "range", form: formCIDR, about: "Addresses of the subnet, such as 10.0.0.0/24; needed in a manual network."},
		{key: "gateway", form: formAddress, about: "Address of the subnet's router; needed in a manual network."},
		{key: "dns", form: formText, list: true, about: "DNS servers."},
		{key: "reserved", form: formAddresses, about: "Addresses, ranges such as 10.0.0.2-10.0.0.9, or blocks that no VM gets."},
		{key: "static", form: formAddresses, about: "Addresses, ranges or blocks that only static_ips give to a VM; those of a vip network in the order in which VMs get them."},
		{key: "az", form: formWord, about: "The zone whose VMs may be in the subnet."},
		{key: "azs", form: formWord, list: true, about: "The zones whose VMs may be in the subnet, in place of az."},
		{key: "prefix", form: formWhole, most: 128, about: "Length of the blocks that VMs get, in place of single addresses."},
		{key: "cloud_properties", form: formMap, about: "Properties of the subnet for the CPI."},
	}, ignored: []string{"name"}},
	{name: "cloud.compilation", ignored: []string{
		"workers", "network", "az", "vm_type", "vm_resources", "vm_extensions", "cloud_properties", "env", "reuse_compilation_vms", "orphan_workers",
	}},
	{name: "variables[]", read: []field{
		{key: "name", form: formWord, need: true, about: "Name of the variable."},
		{key: "type", form: formType, about: "Type of the generated value; without a type, the value must be given."},
		{key: "options", form: formMap, about: "Options of the type."},
	}, ignored: []string{"consumes", "update_mode"}},
}
