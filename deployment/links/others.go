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

// CheckAlone checks what the manifest of one instance says about links, by the rules of
// Resolve, so that growing brings no new mistakes to light. Links that nothing provides are
// left to the templates that use them. lenient allows what only the style of create-env has:
// null for no link, and properties without instances, for a link to the job itself. The error
// is an *Unresolved.
func CheckAlone(deployment string, g Group, lenient bool) error {
	r := resolver{deployment: deployment, lenient: lenient}
	for _, job := range g.Jobs {
		r.checkNames(&g, job)
	}
	r.provided(&g)
	for _, job := range g.Jobs {
		for _, wanted := range job.Consumes {
			given, explicit := job.Context.Consumes[wanted.Name]
			if !explicit || given == "nil" && (wanted.Optional || lenient) || given == nil && lenient {
				continue
			}
			asked := request{of: wanted.Name, lenient: lenient}
			why := notMap
			if m, ok := given.(map[string]any); ok {
				why = asked.read(m)
			} else if given == "nil" {
				why = neededLink
			}
			if why != "" {
				r.fail(r.end(&g, job, wanted), why)
			}
		}
	}
	if len(r.problems) > 0 {
		return &Unresolved{Deployment: deployment, Problems: r.problems}
	}
	return nil
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
