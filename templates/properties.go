package templates

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bootstrap/artifact"
)

// source contains the values of a job's properties. As in the driver, the job's own
// properties replace all others, and those of the group override the global ones.
func (c *Context) source() any {
	if c.JobProperties != nil {
		return plain(c.JobProperties)
	}
	return merge(plain(c.GlobalProperties).(map[string]any), plain(c.ClusterProperties).(map[string]any))
}

func merge(left, right map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range left {
		out[name] = value
	}
	for name, value := range right {
		a, ok := out[name].(map[string]any)
		b, ok2 := value.(map[string]any)
		if ok && ok2 {
			value = merge(a, b)
		}
		out[name] = value
	}
	return out
}

// find returns the value at a dotted name; nil if there is none.
func find(value any, name string) any {
	value, _ = valueAt(value, name)
	return value
}

// valueAt returns the value at a dotted name, and whether there is one. The value may be
// nil.
func valueAt(value any, name string) (any, bool) {
	for _, key := range strings.Split(name, ".") {
		m, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = m[key]; !ok {
			return nil, false
		}
	}
	return value, true
}

// set sets the value of a dotted name, unless a part of the name has another value.
func set(m map[string]any, name string, value any) {
	keys := strings.Split(name, ".")
	for _, key := range keys[:len(keys)-1] {
		if m[key] == nil {
			m[key] = map[string]any{}
		}
		next, ok := m[key].(map[string]any)
		if !ok {
			return
		}
		m = next
	}
	m[keys[len(keys)-1]] = value
}

// misplaced returns a failure for each list, number or boolean in the manifest at a
// place where a property of the job's spec needs a map. The Director and create-env
// refuse these, too.
func misplaced(job *Job) Failures {
	source := job.Context.source()
	var failures Failures
	seen := map[string]bool{}
	for _, p := range job.Properties {
		at, found := blocked(source, p.Name)
		if found == "" || seen[at] {
			continue
		}
		seen[at] = true
		failures = append(failures, &Failure{
			Release: job.Release, Job: job.Name,
			Message: fmt.Sprintf("property '%s' cannot be read: %s is %s, where the job's spec needs a map", p.Name, job.setAt(at), found),
		})
	}
	return failures
}

// blocked finds the part of a dotted name whose value cannot have keys. It returns this
// part and the kind of the value; both are empty if there is no such part. Text counts as
// no value, as in create-env.
func blocked(source any, name string) (at, found string) {
	keys := strings.Split(name, ".")
	for i, key := range keys {
		switch v := source.(type) {
		case map[string]any:
			source = v[key]
			continue
		case nil, string:
			return "", ""
		case []any:
			found = "a list"
		case bool:
			found = "a boolean"
		default:
			found = "a number"
		}
		return strings.Join(keys[:i], "."), found
	}
	return "", ""
}

// propertiesAt returns the path at which the manifest sets the job's properties.
func (j *Job) propertiesAt() string { return cmp.Or(j.Context.PropertiesPath, "properties") }

// setAt returns the path at which the manifest sets a property of the job.
func (j *Job) setAt(name string) string { return j.propertiesAt() + "." + name }

// consumesAt returns the path at which the manifest describes a link of the job.
func (j *Job) consumesAt(link string) string {
	if j.Context.Path == "" {
		return "consumes." + link
	}
	return j.Context.Path + ".consumes." + link
}

// advice says where the manifest can set the properties, or that it cannot set them.
func advice(job *Job, names []string) string {
	var paths, undeclared []string
	for _, name := range names {
		if job.declares(name) {
			paths = append(paths, job.setAt(name))
		} else {
			undeclared = append(undeclared, name)
		}
	}
	if len(paths) == 0 {
		return "the job's spec does not declare " + quoted(undeclared) + ", so the manifest cannot set it"
	}
	return "set it at " + strings.Join(paths, " or ")
}

// declares reports whether the manifest can set the property, a part of it, or a
// property that contains it.
func (j *Job) declares(name string) bool {
	return slices.ContainsFunc(j.Properties, func(p artifact.Property) bool { return related(p.Name, name) })
}

// related reports whether one of two dotted names is a part of the other.
func related(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

// ownerAdvice says where to set the properties that a template reads from a link or
// from an instance of it.
func ownerAdvice(job *Job, o *owner, names []string) string {
	by, provided := job.providers[o.Link]
	switch {
	case o.Instance:
		return fmt.Sprintf("an instance has only the properties that %s.instances of the manifest give it; a template finds those of the link with link('%s').p", job.consumesAt(o.Link), o.Link)
	case !provided:
		return "set it at " + job.consumesAt(o.Link) + ".properties." + strings.Join(names, " or "+job.consumesAt(o.Link)+".properties.")
	}
	var paths []string
	for _, name := range names {
		if slices.ContainsFunc(by.link.Properties, func(p string) bool { return related(p, name) }) {
			paths = append(paths, by.job.setAt(name))
		}
	}
	if len(paths) == 0 {
		return fmt.Sprintf("job '%s', which provides the link as '%s', does not share %s: describe the link with instances and properties at %s",
			by.job.Name, by.name, quoted(names), job.consumesAt(o.Link))
	}
	return fmt.Sprintf("job '%s' provides the link: set it at %s", by.job.Name, strings.Join(paths, " or "))
}
