package links

import "bootstrap/templates"

// Shared returns the links of a group that other deployments may consume. The error is an
// *Unresolved.
func Shared(deployment string, g Group) ([]Provider, error) {
	r := resolver{deployment: deployment}
	all := shared(r.provided(&g))
	if len(r.problems) > 0 {
		return nil, &Unresolved{Deployment: deployment, Problems: r.problems}
	}
	return all, nil
}

// shared returns the providers that other deployments may consume.
func shared(all []Provider) []Provider {
	var some []Provider
	for _, p := range all {
		if p.shared {
			some = append(some, p)
		}
	}
	return some
}

// ResolveOthers connects only those links of the jobs of a group that no job of it
// provides: those from other deployments, and those to its named disks. The error is an
// *Unresolved.
func ResolveOthers(deployment string, g Group, others Others) ([]Link, error) {
	r := resolver{deployment: deployment, others: others}
	r.providers = r.disksOf(&g)
	for _, job := range g.Jobs {
		for _, wanted := range job.Consumes {
			if r.fromElsewhere(job, wanted.Name) || wanted.Type == disk && len(g.Disks) > 0 {
				r.links = append(r.links, r.resolve(&g, job, wanted))
			}
		}
	}
	if len(r.problems) > 0 {
		return nil, &Unresolved{Deployment: deployment, Problems: r.problems}
	}
	return r.links, nil
}

// fromElsewhere reports whether the manifest says that a link is to come from another
// deployment.
func (r *resolver) fromElsewhere(job *templates.Job, name string) bool {
	m, ok := job.Context.Consumes[name].(map[string]any)
	if !ok {
		return false
	}
	for _, key := range []string{"instances", "properties", "address"} {
		if _, manual := m[key]; manual {
			return false
		}
	}
	from, given := m["deployment"].(string)
	return given && from != "" && from != r.deployment
}
