package templates

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"bootstrap/artifact"
)

// Director has what templates see of an instance with a cloud config, as with a BOSH
// Director. Without it, templates see what create-env gives them.
type Director struct {
	// Jobs are all jobs of the instance group, in the order of the manifest.
	Jobs []*artifact.Job
	// Networks has the names of the networks in the order of the manifest.
	Networks []string
	// Network is the network whose address other groups use.
	Network string
	// Provided has, by job, the links that the jobs of the group provide, in the form of
	// .bosh/links.json; nil: the group has no other instance, and no DNS names.
	Provided map[string][]ProvidedLink
}

// ProvidedLink is an entry of .bosh/links.json, from which bosh-dns takes the group whose
// health the scripts of a job report.
type ProvidedLink struct {
	Name  string `json:"name"` // the name that the manifest gives it
	Type  string `json:"type"`
	Group string `json:"group"` // its number in DNS names; empty: the deployment has none
}

// LinkSpec is the key of a link for what spec.links has besides its instances, properties
// and address: a map from text. LinkName is a key in that map: the name that is the address
// of a link without instances.
const (
	LinkSpec = "spec"
	LinkName = "name"
)

// rootDomain is spec.dns_domain_name, the domain of all DNS names of a Director.
const rootDomain = "bosh"

// ordered is a map whose keys have an order, which templates see.
type ordered []entry

type entry struct {
	key   string
	value any
}

// MarshalJSON writes the keys in their order.
func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		for k, part := range []any{e.key, e.value} {
			data, err := json.Marshal(part)
			if err != nil {
				return nil, err
			}
			if k == 1 {
				b.WriteByte(':')
			}
			b.Write(data)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// inOrder returns the keys of m that keys lists, in their order, and then all others.
func inOrder(m map[string]any, keys ...string) ordered {
	var out ordered
	for _, key := range keys {
		if value, ok := m[key]; ok {
			out = append(out, entry{key, value})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(keys, key) {
			out = append(out, entry{key, m[key]})
		}
	}
	return out
}

// described returns spec as a Director has it, without the value of spec.properties, which
// the driver knows.
func (j *Job) described(c Context) ordered {
	spec := ordered{
		{"deployment", c.Deployment}, {"job", c.group(j)}, {"index", c.Index}, {"bootstrap", c.Bootstrap}, {"name", c.Name}, {"id", c.ID},
		{"az", text(c.AZ)}, {"networks", c.networks()}, {"properties_need_filtering", true}, {"dns_domain_name", rootDomain},
		{"address", text(cmp.Or(c.Host, c.Address))},
	}
	if c.PersistentDisk != nil {
		spec = append(spec, entry{"persistent_disk", *c.PersistentDisk})
	}
	links := ordered{}
	for _, l := range j.Consumes {
		if content, ok := j.links[l.Name].(map[string]any); ok {
			links = append(links, entry{l.Name, linkSpec(content)})
		}
	}
	return append(spec, entry{"properties", nil}, entry{"links", links}, entry{"ip", text(c.Address)},
		entry{"release", ordered{{"name", j.Release}, {"version", c.ReleaseVersion}}})
}

// text returns nil for an empty text.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// group returns spec.job, which is the instance group. The blob of a job is unknown: there
// is no blobstore of a Director.
func (c Context) group(of *Job) ordered {
	list := []any{}
	jobs := c.Director.Jobs
	if len(jobs) == 0 {
		jobs = []*artifact.Job{of.Job}
	}
	for _, job := range jobs {
		one := ordered{{"name", job.Name}, {"version", job.Fingerprint}}
		if job.SHA1 != "" {
			one = append(one, entry{"sha1", job.SHA1})
		}
		list = append(list, one)
	}
	return ordered{{"name", c.Name}, {"templates", list}, {"template", jobs[0].Name}, {"version", jobs[0].Fingerprint}}
}

// networks returns spec.networks in the order of the manifest.
func (c Context) networks() ordered {
	var out ordered
	for _, e := range inOrder(c.Networks, c.Director.Networks...) {
		if settings, ok := plain(e.value).(map[string]any); ok {
			e.value = networkSpec(settings)
		}
		out = append(out, e)
	}
	return out
}

// networkSpec returns a network of spec.networks. Templates may be rendered before the
// cloud has chosen an address: a Director gives them a valid one.
func networkSpec(settings map[string]any) ordered {
	kind := settings["type"]
	if kind != "dynamic" {
		order := []string{"type", "ip", "prefix", "netmask", "cloud_properties", "default", "nic_group", "dns", "gateway", "dns_record_name"}
		if kind == "vip" {
			order = []string{"type", "ip", "cloud_properties", "prefix", "nic_group", "dns_record_name"}
		}
		return inOrder(settings, order...)
	}
	out := inOrder(settings, "type", "cloud_properties", "prefix", "dns", "default", "ip", "netmask", "gateway", "dns_record_name")
	for _, key := range []string{"ip", "netmask", "gateway"} {
		if settings[key] == nil {
			out = append(out, entry{key, "127.0.0.1"})
		}
	}
	return out
}

// linkSpec returns a link of spec.links.
func linkSpec(content map[string]any) ordered {
	all := map[string]any{}
	if more, ok := content[LinkSpec].(map[string]any); ok {
		maps.Copy(all, more)
		delete(all, LinkName)
	}
	for _, key := range []string{"instance_group", linkInstances, linkProperties} {
		if value, ok := content[key]; ok {
			all[key] = value
		}
	}
	if _, provided := content["instance_group"]; !provided {
		all[linkAddress] = content[linkAddress]
		return inOrder(all, linkInstances, linkProperties, linkAddress, "deployment_name", "group_name")
	}
	list := []any{}
	given, _ := all[linkInstances].([]any)
	for _, item := range given {
		if in, ok := item.(map[string]any); ok {
			item = inOrder(in, "name", "id", "index", "bootstrap", "az", linkAddress)
		}
		list = append(list, item)
	}
	all[linkInstances] = list
	return inOrder(all, "deployment_name", "domain", "default_network", "instance_group", linkProperties,
		"use_short_dns_addresses", "use_link_dns_names", linkInstances, "group_name")
}

// linksFile is the path of the file, below a job's folder, in which bosh-dns finds the
// links that the job provides.
const linksFile = ".bosh/links.json"

// withLinksFile returns the job's files with linksFile, which a Director adds to each job.
func (j *Job) withLinksFile(files []*file) ([]*file, error) {
	if j.Context.Director == nil {
		return files, nil
	}
	list := slices.Clone(j.Context.Director.Provided[j.Name])
	if j.Context.Director.Provided == nil {
		for _, l := range j.Provides {
			one := ProvidedLink{Name: l.Name, Type: l.Type}
			if name, ok := offered(j, l.Name); ok {
				one.Name = name
			}
			list = append(list, one)
		}
	}
	if list == nil {
		list = []ProvidedLink{}
	}
	slices.SortStableFunc(list, func(a, b ProvidedLink) int { return cmp.Compare(a.Group, b.Group) })
	var content bytes.Buffer
	out := json.NewEncoder(&content)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(list); err != nil {
		return nil, fmt.Errorf("cannot write %s of job '%s': %w", linksFile, j.Name, err)
	}
	return append(files, &file{job: j, source: linksFile, destination: filepath.Join(j.Name, linksFile), content: content.Bytes()}), nil
}
