package manifest

import (
	"bootstrap/manifest/gen"
	"bootstrap/manifest/keys"
)

// sections are all maps of the manifest with fixed keys, for the reader and for
// the schema.
var sections = keys.Table{
	{Name: "", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the deployment."},
		{Key: "releases", Form: keys.Section, Of: "releases[]", List: true, Need: true, Least: 1, About: "Releases with the jobs and the CPI."},
		{Key: "cloud_config", Form: keys.Paths, About: "Path of the cloud config, or a list of paths, from the manifest's folder; --cloud-config replaces it."},
		{Key: "networks", Form: keys.Section, Of: "networks[]", List: true, About: "Networks that the VM can be attached to. Not with a cloud config."},
		{Key: "resource_pools", Form: keys.Section, Of: "resource_pools[]", List: true, About: "VM and stemcell. Not with a cloud config."},
		{Key: "disk_pools", Form: keys.Section, Of: "disk_pools[]", List: true, About: "Kinds of persistent disk. Not with a cloud config."},
		{Key: "stemcells", Form: keys.Section, Of: "stemcells[]", List: true, About: "With a cloud config: the stemcell of the VM."},
		{Key: "instance_groups", Form: keys.Section, Of: "instance_groups[]", List: true, Most: 1, About: "The one VM: its jobs, networks and disk."},
		{Key: "jobs", Form: keys.Section, Of: "instance_groups[]", List: true, Most: 1, About: "Old name of instance_groups."},
		{Key: "properties", Form: keys.Map, About: "Properties of all jobs."},
		{Key: "addons", Form: keys.Map, List: true, About: "Not supported: list the jobs in the instance group. Ignored without a cloud config."},
		{Key: "tags", Form: keys.Tags, About: "Tags that the CPI puts on the VM and its disk."},
		{Key: "update", Form: keys.Section, Of: "update", About: "How the VM is updated."},
		{Key: "protect", Form: keys.Flag, About: "Whether delete refuses to delete the VM and its disk."},
		{Key: "features", Form: keys.Section, Of: "features", About: "Features to switch on."},
		{Key: "cloud_provider", Form: keys.Section, Of: "cloud_provider", Need: true, About: "The CPI that creates the VM, and how to reach the VM's agent."},
		{Key: "variables", Form: keys.Section, Of: "variables[]", List: true, About: "Variables that are generated with --vars-store."},
	}, Ignored: []string{
		"director_uuid", "azs", "vm_types", "vm_extensions", "disk_types", "compilation",
	}},
	{Name: "stemcells[]", Read: []keys.Field{
		{Key: "alias", Form: keys.Word, Need: true, About: "Name that the instance group has for the stemcell."},
		{Key: "url", Form: keys.Word, Need: true, About: "http(s)://, file://, or embedded:NAME."},
		{Key: "sha1", Form: keys.Digest, About: "Digest of the file: SHA-1 as hex, or sha256:HEX or sha512:HEX. Needed for http(s)."},
		{Key: "name", Form: keys.Text, About: "Name of the stemcell."},
		{Key: "os", Form: keys.Text, About: "Operating system of the stemcell, such as ubuntu-noble."},
		{Key: "version", Form: keys.Text, About: "Version of the stemcell, or latest."},
	}},
	{Name: "releases[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the release."},
		{Key: "url", Form: keys.Word, Need: true, About: "http(s)://, file://, or embedded:NAME. A relative path starts from the manifest's folder. A folder in release layout is allowed."},
		{Key: "sha1", Form: keys.Digest, About: "Digest of the file: SHA-1 as hex, or sha256:HEX or sha512:HEX. Needed for http(s)."},
	}, Ignored: []string{"version", "stemcell", "exported_from"}},
	{Name: "networks[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the network."},
		{Key: "type", Form: keys.Choice, Need: true, Values: []string{typeManual, typeDynamic, typeVIP}, About: "manual: addresses of the subnet's range; dynamic: from the cloud; vip: floating addresses."},
		{Key: "cloud_properties", Form: keys.Map, About: "Properties of a dynamic or vip network for the CPI."},
		{Key: "dns", Form: keys.Text, List: true, About: "DNS servers of a dynamic network."},
		{Key: "subnets", Form: keys.Section, Of: "networks[].subnets[]", List: true, About: "The one subnet of a manual network."},
	}, Ignored: []string{"ip", "netmask", "gateway"}},
	{Name: "networks[].subnets[]", Read: []keys.Field{
		{Key: "range", Form: keys.CIDR, Need: true, About: "Addresses of the network, such as 10.0.0.0/24."},
		{Key: "gateway", Form: keys.Address, Need: true, About: "Address of the network's router."},
		{Key: "dns", Form: keys.Text, List: true, About: "DNS servers."},
		{Key: "cloud_properties", Form: keys.Map, About: "Properties of the network for the CPI."},
		{Key: "static", Form: keys.Text, List: true, About: "Addresses, or ranges such as 10.0.0.2-10.0.0.9, for static_ips; other addresses in static_ips get a warning."},
		{Key: "reserved", Form: keys.Text, List: true, About: "Addresses, or ranges such as 10.0.0.2-10.0.0.9, that are never chosen; in static_ips they get a warning."},
	}, Ignored: []string{"az", "azs", "name"}},
	{Name: "resource_pools[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the resource pool."},
		{Key: "network", Form: keys.Word, Need: true, About: "Name of a network in networks."},
		{Key: "cloud_properties", Form: keys.Map, About: "Properties of the VM for the CPI, such as size and zone."},
		{Key: "env", Form: keys.Section, Of: "resource_pools[].env", About: "Settings of the VM's agent."},
		{Key: "stemcell", Form: keys.Section, Of: "resource_pools[].stemcell", Need: true, About: "Image of the VM."},
	}, Ignored: []string{"size"}},
	{Name: "resource_pools[].env", Open: true, Read: []keys.Field{
		{Key: "bosh", Form: keys.Section, Of: "resource_pools[].env.bosh", About: "Settings of BOSH's agent."},
	}},
	{Name: "resource_pools[].env.bosh", Open: true, Read: []keys.Field{
		{Key: "mbus", Form: keys.Section, Of: "resource_pools[].env.bosh.mbus", About: "The agent's server."},
	}},
	{Name: "resource_pools[].env.bosh.mbus", Open: true, Read: []keys.Field{
		{Key: "cert", Form: keys.Section, Of: "resource_pools[].env.bosh.mbus.cert", About: "Certificate of the agent; usually a variable of the type certificate."},
	}},
	{Name: "resource_pools[].env.bosh.mbus.cert", Open: true, Read: []keys.Field{
		{Key: "certificate", Form: keys.Text, About: "Certificate in PEM, with the host of cloud_provider.mbus among its names."},
		{Key: "private_key", Form: keys.Text, About: "Its private key in PEM."},
	}},
	{Name: "resource_pools[].stemcell", Read: []keys.Field{
		{Key: "url", Form: keys.Word, Need: true, About: "http(s)://, file://, or embedded:NAME."},
		{Key: "sha1", Form: keys.Digest, About: "Digest of the file: SHA-1 as hex, or sha256:HEX or sha512:HEX. Needed for http(s)."},
	}, Ignored: []string{"name", "version", "os", "alias"}},
	{Name: "disk_pools[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the disk pool."},
		{Key: "disk_size", Form: keys.Whole, Need: true, Least: 1, About: "Size of the disk in MiB."},
		{Key: "cloud_properties", Form: keys.Map, About: "Properties of the disk for the CPI."},
	}},
	{Name: "instance_groups[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the instance group."},
		{Key: "instances", Form: keys.Whole, Need: true, Least: 1, Most: 1, About: "Always 1: a manifest describes one VM."},
		{Key: "lifecycle", Form: keys.Choice, Values: []string{"service", ""}, About: "Always service."},
		{Key: "templates", Form: keys.Section, Of: "instance_groups[].jobs[]", List: true, About: "Old name of jobs."},
		{Key: "jobs", Form: keys.Section, Of: "instance_groups[].jobs[]", List: true, About: "Jobs on the VM."},
		{Key: "networks", Form: keys.Section, Of: "instance_groups[].networks[]", List: true, Need: true, Least: 1, About: "Networks of the VM."},
		{Key: "persistent_disk", Form: keys.Whole, About: "Size of the persistent disk in MiB; 0 for none."},
		{Key: "persistent_disk_pool", Form: keys.Text, About: "Name of a disk pool in disk_pools, for a persistent disk."},
		{Key: "resource_pool", Form: keys.Word, About: "Name of a resource pool in resource_pools. Not with a cloud config."},
		{Key: "properties", Form: keys.Map, About: "Properties of the jobs, in place of the manifest's properties."},
		{Key: "azs", Form: keys.Word, List: true, About: "With a cloud config: zones that the VM may be in."},
		{Key: "vm_type", Form: keys.Word, About: "With a cloud config: name of a VM type in vm_types."},
		{Key: "vm_extensions", Form: keys.Word, List: true, About: "With a cloud config: names of VM extensions in vm_extensions."},
		{Key: "vm_resources", Form: keys.Map, About: "Not supported: name a vm_type."},
		{Key: "stemcell", Form: keys.Word, About: "With a cloud config: alias of a stemcell in stemcells."},
		{Key: "persistent_disk_type", Form: keys.Text, About: "With a cloud config: name of a disk type in disk_types, for a persistent disk."},
		{Key: "persistent_disks", Form: keys.Map, List: true, About: "Not supported: name a persistent_disk_type."},
		{Key: "env", Form: keys.Section, Of: "resource_pools[].env", About: "With a cloud config: settings of the VM's agent."},
		{Key: "tags", Form: keys.Tags, About: "With a cloud config: tags that the CPI puts on the VM, beside those of the manifest."},
		{Key: "update", Form: keys.Section, Of: "update", About: "With a cloud config: how the VM is updated, in place of the manifest's update."},
	}, Ignored: []string{"migrated_from", "consumes", "provides"}},
	{Name: "instance_groups[].jobs[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of a job of the release."},
		{Key: "release", Form: keys.Word, Need: true, About: "Name of a release in releases."},
		{Key: "properties", Form: keys.Map, About: "Properties of this job, in place of all others."},
		{Key: "consumes", Form: keys.Map, About: "Sources of the links that the job consumes."},
		{Key: "provides", Form: keys.Map, About: "Names of the links that the job provides."},
	}, Ignored: []string{"custom_provider_definitions"}},
	{Name: "instance_groups[].networks[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of a network in networks."},
		{Key: "static_ips", Form: keys.Addresses, About: "Address of the VM; without it, a VM gets the lowest free address of a manual network."},
		{Key: "default", Form: keys.Choice, List: true, Values: []string{"dns", "gateway", "addressable"}, About: "Uses for which this network is the VM's default, if there are several; addressable needs a cloud config."},
		{Key: "nic_group", Form: keys.Text, About: "Not supported: each network has an interface of its own."},
	}},
	{Name: "update", Read: []keys.Field{
		{Key: "update_watch_time", Form: keys.Watch, About: "How long to wait until the jobs run: SHORTEST-LONGEST in milliseconds, such as 0-300000; with a cloud config, also one number."},
		{Key: "vm_strategy", Form: keys.Choice, Values: []string{"delete-create", "create-swap-delete"}, About: "Order of deletion and creation when the VM is replaced."},
		{Key: "snapshot", Form: keys.Flag, About: "Whether to take a snapshot of the disk before the VM or disk is changed, if the CPI can."},
	}, Ignored: []string{
		"canaries", "canary_watch_time", "max_in_flight", "serial", "initial_deploy_az_update_strategy",
	}},
	{Name: "features", Read: []keys.Field{
		{Key: "use_dns_addresses", Form: keys.Flag, About: "Whether the VM gets the DNS records of its instance."},
		{Key: "use_tmpfs_config", Form: keys.Flag, About: "With a cloud config: whether the agent keeps settings and jobs in memory."},
	}, Ignored: []string{
		"converge_variables", "randomize_az_placement", "use_link_dns_names", "use_short_dns_addresses",
	}},
	{Name: "cloud_provider", Read: []keys.Field{
		{Key: "template", Form: keys.Section, Of: "cloud_provider.template", About: "Job of the CPI."},
		{Key: "templates", Form: keys.Section, Of: "cloud_provider.template", List: true, About: "Jobs of the CPI, in place of template."},
		{Key: "properties", Form: keys.Map, About: "Properties of the CPI's jobs."},
		{Key: "mbus", Form: keys.Word, Need: true, About: "URL at which the agent is reached: https://USER:PASSWORD@HOST:PORT. A name behind it, #NAME, is the one for which the agent's certificate is verified."},
		{Key: "cert", Form: keys.Section, Of: "cloud_provider.cert", About: "Certificate of the agent; usually a variable of the type certificate."},
		{Key: "ssh_tunnel", Form: keys.Section, Of: "cloud_provider.ssh_tunnel", About: "SSH connection to the VM, for CPIs and stemcells that need a registry."},
		{Key: "registry", Form: keys.Section, Of: "cloud_provider.registry", About: "The registry, for CPIs and stemcells that need one."},
	}},
	{Name: "cloud_provider.template", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the CPI's job."},
		{Key: "release", Form: keys.Word, Need: true, About: "Name of a release in releases."},
	}},
	{Name: "cloud_provider.cert", Read: []keys.Field{
		{Key: "ca", Form: keys.Text, About: "CA that signed the agent's certificate, in PEM."},
	}, Ignored: []string{"certificate", "private_key"}},
	{Name: "cloud_provider.ssh_tunnel", Read: []keys.Field{
		{Key: "user", Form: keys.Text, About: "User to log in as on the VM."},
		{Key: "host", Form: keys.Text, About: "Host name or address of the VM's SSH server."},
		{Key: "port", Form: keys.Whole, Most: 65535, About: "Port of the VM's SSH server; 22 unless given."},
		{Key: "password", Form: keys.Text, About: "Password of the user."},
		{Key: "private_key", Form: keys.Text, About: "Private key in PEM, or the path of a file with it."},
		{Key: "connection_refused_timeout", Form: keys.Duration, About: "How long the SSH server may refuse connections: seconds, or a time such as 2m30s."},
		{Key: "auth_failure_timeout", Form: keys.Duration, About: "How long the SSH server may refuse the user: seconds, or a time such as 2m30s."},
	}},
	{Name: "cloud_provider.registry", Read: []keys.Field{
		{Key: "host", Form: keys.Text, About: "Address to listen on; 127.0.0.1 unless given."},
		{Key: "port", Form: keys.Whole, Most: 65535, About: "Port to listen on; 6901 unless given, 0 for a free one."},
		{Key: "username", Form: keys.Text, About: "User that the CPI logs in as."},
		{Key: "password", Form: keys.Text, About: "Password of the user; generated unless given."},
		{Key: "unauthenticated_get", Form: keys.Flag, About: "Whether agents read their settings without credentials through the tunnel; true unless given."},
	}},
	{Name: "cloud", Read: []keys.Field{
		{Key: "azs", Form: keys.Section, Of: "cloud.azs[]", List: true, About: "Availability zones."},
		{Key: "networks", Form: keys.Section, Of: "cloud.networks[]", List: true, About: "Networks that VMs can be attached to."},
		{Key: "vm_types", Form: keys.Section, Of: "cloud.vm_types[]", List: true, About: "Kinds of VM."},
		{Key: "vm_extensions", Form: keys.Section, Of: "cloud.vm_extensions[]", List: true, About: "Additions to kinds of VM."},
		{Key: "disk_types", Form: keys.Section, Of: "cloud.disk_types[]", List: true, About: "Kinds of persistent disk."},
		{Key: "compilation", Form: keys.Section, Of: "cloud.compilation", About: "Compilation VMs of a Director. Not used: packages are compiled on the VM itself."},
	}},
	{Name: "cloud.azs[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the availability zone."},
		{Key: "cloud_properties", Form: keys.Map, About: "Properties of the zone for the CPI, below those of the VM type."},
	}, Ignored: []string{"cpi"}},
	{Name: "cloud.vm_types[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the VM type."},
		{Key: "cloud_properties", Form: keys.Map, About: "Properties of the VM for the CPI."},
	}},
	{Name: "cloud.vm_extensions[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the VM extension."},
		{Key: "cloud_properties", Form: keys.Map, About: "Properties of the VM for the CPI, above those of the VM type."},
	}},
	{Name: "cloud.disk_types[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the disk type."},
		{Key: "disk_size", Form: keys.Whole, Need: true, Least: 1, About: "Size of the disk in MiB."},
		{Key: "cloud_properties", Form: keys.Map, About: "Properties of the disk for the CPI."},
	}},
	{Name: "cloud.networks[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the network."},
		{Key: "type", Form: keys.Choice, Values: []string{typeManual, typeDynamic, typeVIP}, About: "manual (the default): addresses from this cloud config; dynamic: from the cloud; vip: floating addresses."},
		{Key: "scope", Form: keys.Text, About: "Name of a set of networks whose addresses are unique among themselves only."},
		{Key: "subnets", Form: keys.Section, Of: "cloud.networks[].subnets[]", List: true, About: "Subnets; a dynamic or vip network may have none."},
		{Key: "dns", Form: keys.Text, List: true, About: "DNS servers of a dynamic network without subnets."},
		{Key: "cloud_properties", Form: keys.Map, About: "Properties of a dynamic network without subnets, or of a vip network, for the CPI."},
		{Key: "az", Form: keys.Word, About: "Not allowed here, but in subnets."},
		{Key: "azs", Form: keys.Word, List: true, About: "Not allowed here, but in subnets."},
		{Key: "managed", Form: keys.Flag, About: "Not supported: networks are not created."},
		{Key: "prefix", Form: keys.Whole, Most: 128, About: "Not allowed here, but in subnets."},
	}},
	{Name: "cloud.networks[].subnets[]", Read: []keys.Field{
		{Key: "range", Form: keys.CIDR, About: "Addresses of the subnet, such as 10.0.0.0/24; needed in a manual network."},
		{Key: "gateway", Form: keys.Address, About: "Address of the subnet's router; needed in a manual network."},
		{Key: "dns", Form: keys.Text, List: true, About: "DNS servers."},
		{Key: "reserved", Form: keys.Addresses, About: "Addresses, ranges such as 10.0.0.2-10.0.0.9, or blocks that no VM gets."},
		{Key: "static", Form: keys.Addresses, About: "Addresses, ranges or blocks that only static_ips give to a VM; those of a vip network in the order in which VMs get them."},
		{Key: "az", Form: keys.Word, About: "The zone whose VMs may be in the subnet."},
		{Key: "azs", Form: keys.Word, List: true, About: "The zones whose VMs may be in the subnet, in place of az."},
		{Key: "prefix", Form: keys.Whole, Most: 128, About: "Length of the blocks that VMs get, in place of single addresses."},
		{Key: "cloud_properties", Form: keys.Map, About: "Properties of the subnet for the CPI."},
	}, Ignored: []string{"name"}},
	{Name: "cloud.compilation", Ignored: []string{
		"workers", "network", "az", "vm_type", "vm_resources", "vm_extensions", "cloud_properties", "env", "reuse_compilation_vms", "orphan_workers",
	}},
	{Name: "variables[]", Read: []keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the variable."},
		{Key: "type", Form: keys.Choice, Values: gen.Types(), About: "Type of the generated value; without a type, the value must be given."},
		{Key: "options", Form: keys.Map, About: "Options of the type."},
	}, Ignored: []string{"consumes", "update_mode"}},
}
