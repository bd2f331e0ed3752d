package templates

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"bootstrap/artifact"
)

// filled returns the context with default values.
func (c Context) filled(job, id string) Context {
	c.Name, c.ID = cmp.Or(c.Name, job), cmp.Or(c.ID, id)
	if c.Director == nil {
		c.AZ = cmp.Or(c.AZ, "unknown")
	}
	if c.Networks == nil {
		c.Networks = map[string]any{"default": map[string]any{"ip": "", "netmask": "", "gateway": ""}}
	}
	return c
}

// facts returns the context in the form that the driver reads.
func (j *Job) facts(id string) map[string]any {
	c := j.Context.filled(j.Name, id)
	facts := map[string]any{
		"default_properties": j.defaults(),
		"global_properties":  c.GlobalProperties,
		"cluster_properties": c.ClusterProperties,
		"job_properties":     nil,
	}
	if c.JobProperties != nil {
		facts["job_properties"] = c.JobProperties
	}
	if len(j.links) > 0 {
		facts["links"] = j.links
	}
	if c.Director != nil {
		facts["spec"] = j.described(c)
	} else {
		j.describe(facts, c)
	}
	return plain(facts).(map[string]any)
}

// defaults returns the default values of the job's properties: with a Director in the order
// of the job's spec, which templates see where several properties have the same parent.
func (j *Job) defaults() any {
	if j.Context.Director == nil {
		defaults := map[string]any{}
		for _, p := range j.Properties {
			defaults[p.Name] = p.Default
		}
		return defaults
	}
	properties := slices.SortedStableFunc(slices.Values(j.Properties), func(a, b artifact.Property) int { return cmp.Compare(a.Place, b.Place) })
	defaults := ordered{}
	for _, p := range properties {
		defaults = append(defaults, entry{p.Name, p.Default})
	}
	return defaults
}

// describe adds to facts what create-env's templates see as spec, and what a Director has
// besides.
func (j *Job) describe(facts map[string]any, c Context) {
	release := map[string]any{"name": j.Release}
	if c.ReleaseVersion != "" {
		release["version"] = c.ReleaseVersion
	}
	maps.Copy(facts, map[string]any{
		"name": c.Name, "index": c.Index, "id": c.ID, "az": c.AZ, "bootstrap": c.Bootstrap,
		"job": map[string]any{"name": j.Name}, "deployment": c.Deployment, "networks": c.Networks, "release": release,
	})
	if c.Address != "" {
		facts["address"], facts["ip"] = c.Address, c.Address
	}
	if c.Host != "" {
		facts["address"] = c.Host
	}
	if c.PersistentDisk != nil {
		facts["persistent_disk"] = *c.PersistentDisk
	}
}

// plain converts the keys of YAML maps, of any type, to the text keys of JSON.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = plain(item)
		}
		return out
	case map[any]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[fmt.Sprint(key)] = plain(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = plain(item)
		}
		return out
	case ordered:
		out := make(ordered, len(v))
		for i, e := range v {
			out[i] = entry{e.key, plain(e.value)}
		}
		return out
	}
	return value
}
