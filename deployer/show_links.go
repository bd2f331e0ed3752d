package deployer

import (
	"context"

	"bootstrap/deployment/links"
	"bootstrap/manifest/document"
	"bootstrap/templates"
)

// Links returns the links of all jobs of a manifest. If there are several instances, opts
// selects one. Secrets are removed unless show is set. It changes nothing.
func Links(ctx context.Context, opts Options, show bool) (*links.View, error) {
	opts.Inputs.Generate = document.Plan
	r := newRun(opts)
	view := &links.View{Links: []links.Seen{}}
	err := r.execute(ctx, r.linksPhases(func(context.Context) error { return r.viewLinks(view, show) }))
	if err != nil {
		return nil, err
	}
	return view, nil
}

// viewLinks fills in a view.
func (r *run) viewLinks(view *links.View, show bool) error {
	m := r.in.Manifest
	view.Deployment = m.Name
	jobs, err := r.jobs.templateJobs()
	if err != nil {
		return err
	}
	all, err := r.linksOf(jobs)
	if err != nil {
		return err
	}
	found := map[[2]string]links.Seen{}
	for _, l := range all {
		seen := links.Seen(l)
		found[[2]string{l.Consumer.Job, l.Consumer.Name}] = seen
		if r.in.Deployment != nil {
			view.Links = append(view.Links, seen)
		}
	}
	if r.in.Deployment == nil {
		all, err := templates.Links(jobs)
		if err != nil {
			return err
		}
		for _, l := range all {
			seen, other := found[[2]string{l.Job.Name, l.Link.Name}]
			if !other {
				seen = r.viewOf(l)
			}
			view.Links = append(view.Links, seen)
		}
	}
	for i := range view.Links {
		for _, key := range []string{"query", templates.LinkSpec} { // They are for templates only.
			delete(view.Links[i].Content, key)
		}
		if content := view.Links[i].Content; content != nil && !show {
			view.Links[i].Content, _ = r.redacted(content).(map[string]any)
		}
	}
	return nil
}

// viewOf returns a link between jobs of the only instance.
func (r *run) viewOf(l templates.Linked) links.Seen {
	end := func(job *templates.Job, name, kind string) links.End {
		return links.End{Deployment: r.in.Manifest.Name, Group: r.in.Manifest.Group.Name, Job: job.Name, Name: name, Type: kind}
	}
	v := links.Seen{Consumer: end(l.Job, l.Link.Name, l.Link.Type), Optional: l.Link.Optional, Content: l.Content, Why: l.Why}
	if l.By != nil {
		by := end(l.By, l.Provided.Name, l.Provided.Type)
		if l.As != l.Provided.Name {
			by.As = l.As
		}
		v.Provider = &by
	}
	return v
}

// redacted returns a copy of a value without secrets.
func (r *run) redacted(value any) any {
	switch v := value.(type) {
	case string:
		return r.t.Env.Redact(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = r.redacted(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = r.redacted(item)
		}
		return out
	}
	return value
}
