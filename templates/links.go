package templates

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bootstrap/artifact"
)

// These are the keys of a link that the manifest describes by hand.
const (
	linkInstances  = "instances"
	linkProperties = "properties"
	linkAddress    = "address"
)

// provided is a link that a job of the list provides to the others.
type provided struct {
	job  *Job
	name string // name in the manifest, if it gives one
	link artifact.Link
}

// connect gives each job the links that it consumes: links that the manifest describes,
// and links that a job of the list provides. A missing link is an error, with its
// reason, only if a template uses it. Mistakes in what the manifest says about links
// are always errors.
func connect(jobs []Job, id string) Failures {
	var failures Failures
	var offers []provided
	for i := range jobs {
		for _, l := range jobs[i].Provides {
			name, ok := offered(&jobs[i], l.Name)
			if ok {
				offers = append(offers, provided{&jobs[i], name, l})
			}
		}
	}
	for i := range jobs {
		job := &jobs[i]
		if job.LinksOnly {
			continue
		}
		job.links, job.unlinked, job.providers = map[string]any{}, map[string]string{}, map[string]provided{}
		for _, l := range job.Consumes {
			if job.Context.Unlinked != nil {
				break
			}
			if _, given := job.Context.Links[l.Name]; given {
				continue
			}
			link, missing, err := job.consume(l, offers, id)
			switch {
			case err != "":
				failures = append(failures, &Failure{Release: job.Release, Job: job.Name, Link: true, Message: fmt.Sprintf("link '%s' is not available: %s", l.Name, err)})
			case missing != "":
				job.unlinked[l.Name] = missing
			default:
				job.links[l.Name] = link
			}
		}
		maps.Copy(job.links, job.Context.Links)
		maps.Copy(job.unlinked, job.Context.Unlinked)
	}
	return failures
}

// offered returns the name under which a job provides a link, and false if the manifest
// says that the job does not provide it.
func offered(job *Job, name string) (string, bool) {
	described, ok := job.Context.Provides[name]
	if !ok {
		return name, true
	}
	if nothing(described) {
		return "", false
	}
	if m, ok := described.(map[string]any); ok {
		if as, ok := m["as"].(string); ok {
			return as, true
		}
	}
	return name, true
}

// nothing is the text in a manifest that means “no link”.
func nothing(described any) bool { return described == nil || described == "nil" }

// consume finds one link. missing is the reason why there is none, for templates that
// use the link; problem is a mistake in the manifest.
func (j *Job) consume(l artifact.Link, offers []provided, id string) (link map[string]any, missing, err string) {
	described, explicit := j.Context.Consumes[l.Name]
	var from string
	if explicit {
		if nothing(described) {
			return nil, "the manifest says that there is none", ""
		}
		m, ok := described.(map[string]any)
		if !ok {
			return nil, "", "the manifest must describe it as a map"
		}
		for _, key := range []string{linkInstances, linkProperties, linkAddress} {
			if _, ok := m[key]; ok {
				if link, err = j.manual(m, id); err == "" && j.Context.Director != nil {
					link[LinkSpec] = map[string]any{"deployment_name": j.Context.Deployment, "group_name": l.Name + "-" + l.Type}
				}
				return link, "", err
			}
		}
		if other, ok := m["deployment"]; ok && other != j.Context.Deployment {
			return nil, "", fmt.Sprintf("it belongs to deployment '%v', which is unknown here: describe the link with instances and properties", other)
		}
		if from, ok = m["from"].(string); !ok {
			from = l.Name
		}
	}
	var found []provided
	for _, o := range offers {
		if o.link.Type == l.Type && (!explicit || o.name == from) {
			found = append(found, o)
		}
	}
	if len(found) == 1 {
		j.providers[l.Name] = found[0]
		return found[0].resolved(id), "", ""
	}
	var problem string
	switch {
	case len(found) > 1:
		var names []string
		for _, o := range found {
			names = append(names, fmt.Sprintf("job '%s' as '%s'", o.job.Name, o.name))
		}
		problem = fmt.Sprintf("several jobs provide a link of type '%s': %s", l.Type, strings.Join(names, ", "))
	case explicit:
		problem = fmt.Sprintf("no job rendered together with it provides '%s' of type '%s'", from, l.Type)
	default:
		problem = fmt.Sprintf("no job rendered together with it provides a link of type '%s'", l.Type)
	}
	if explicit {
		return nil, "", problem
	}
	return nil, problem, ""
}

// manual returns a link that the manifest describes. If the manifest gives only
// properties, the link's instance is the job's own, whose address the manifest may not
// know.
func (j *Job) manual(described map[string]any, id string) (map[string]any, string) {
	link := map[string]any{linkProperties: map[string]any{}, linkInstances: []any{}}
	_, instances := described[linkInstances]
	_, address := described[linkAddress]
	if !instances && !address {
		link[linkInstances] = []any{j.Context.filled(j.Name, id).instance()}
	}
	for _, key := range []string{linkInstances, linkProperties, linkAddress} {
		value, ok := described[key]
		if !ok || value == nil {
			continue
		}
		fits := false
		switch key {
		case linkInstances:
			_, fits = value.([]any)
		case linkProperties:
			_, fits = value.(map[string]any)
		case linkAddress:
			_, fits = value.(string)
		}
		if !fits {
			return nil, fmt.Sprintf("its %s have the wrong type", key)
		}
		link[key] = value
	}
	return link, ""
}

// resolved returns the provided link in the form that the driver reads: with its one
// instance, and with the properties that the provider's spec names.
func (o provided) resolved(id string) map[string]any {
	c := o.job.Context.filled(o.job.Name, id)
	link := map[string]any{
		"instance_group": c.Name, linkProperties: o.job.shares(o.link),
		linkInstances: []any{c.instance()},
	}
	if c.Director != nil {
		link[LinkSpec] = map[string]any{
			"deployment_name": c.Deployment, "domain": rootDomain, "default_network": c.Director.Network, "group_name": o.name + "-" + o.link.Type,
			"use_short_dns_addresses": false, "use_link_dns_names": false,
		}
	}
	return link
}

// shares returns the properties of the job that consumers of a provided link see, among
// the jobs that are rendered together. A null in the manifest counts as no value.
func (j *Job) shares(l artifact.Link) map[string]any {
	source := j.Context.source()
	properties := map[string]any{}
	for _, name := range l.Properties {
		value := find(source, name)
		if value == nil {
			for _, p := range j.Properties {
				if p.Name == name {
					value = p.Default
				}
			}
		}
		set(properties, name, value)
	}
	return properties
}

// Exported returns the properties of a provided link by the Director's rules: a value of
// the manifest counts even if it is null, else the default of exactly this property.
// undefined are the names that neither the manifest sets nor the job's spec declares.
func (j *Job) Exported(l artifact.Link) (properties map[string]any, undefined []string) {
	source := j.Context.source()
	properties = map[string]any{}
	for _, name := range l.Properties {
		value, given := valueAt(source, name)
		if !given {
			i := slices.IndexFunc(j.Properties, func(p artifact.Property) bool { return p.Name == name })
			if i < 0 {
				undefined = append(undefined, name)
				continue
			}
			value = plain(j.Properties[i].Default) // a copy, in which set may set values
		}
		set(properties, name, value)
	}
	return properties, undefined
}

// instance returns the instance as part of a link.
func (c Context) instance() map[string]any {
	return map[string]any{
		"name": c.Name, "id": c.ID, "index": c.Index, "az": text(c.AZ), "address": c.Address, "bootstrap": c.Bootstrap,
	}
}

// Linked is a link that a job consumes, as its templates see it.
type Linked struct {
	Job     *Job
	Link    artifact.Link
	Content map[string]any // nil: the job does not get the link
	Why     string         // why the job does not get the link
	// By is the job that provides the link, with its name (field As) in the manifest;
	// nil: the manifest or the caller describes the link.
	By       *Job
	Provided artifact.Link
	As       string
}

// Links returns the links of jobs that are rendered together, in the order of the jobs and
// their specs. The error is Failures.
func Links(jobs []Job) ([]Linked, error) {
	if failures := connect(jobs, ""); len(failures) > 0 {
		return nil, &failures
	}
	var all []Linked
	for i := range jobs {
		job := &jobs[i]
		for _, l := range job.Consumes {
			one := Linked{Job: job, Link: l, Why: job.unlinked[l.Name]}
			one.Content, _ = job.links[l.Name].(map[string]any)
			if by, provided := job.providers[l.Name]; provided {
				one.By, one.Provided, one.As = by.job, by.link, by.name
			}
			all = append(all, one)
		}
	}
	return all, nil
}
