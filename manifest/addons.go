package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"bootstrap/manifest/document"
)

// addon is a list of jobs that instance groups have beside their own.
type addon struct {
	jobs             []JobRef
	include, exclude addonRules
}

// addonRules select instance groups. A group fits if it fits every rule that is given.
type addonRules struct {
	jobs                        []JobRef
	groups, stemcells, networks []string
	zones, deployments          []string
	teams                       bool
	lifecycle                   string
}

// given reports whether there is a rule.
func (f addonRules) given() bool {
	return len(f.jobs)+len(f.groups)+len(f.stemcells)+len(f.networks)+len(f.zones)+len(f.deployments) > 0 || f.lifecycle != "" || f.teams
}

// readAddons reads addons, for the groups that are read after them.
func (r *reader) readAddons(list document.Value) {
	for _, item := range list.Items() {
		if !item.IsNull() && !sections.Map(item, "addons[]") {
			continue
		}
		item.Get("name").Required("the name of the addon")
		shared := settings(item.Get("properties"))
		a := addon{jobs: r.readJobs(item), include: r.readAddonRules(item.Get("include")), exclude: r.readAddonRules(item.Get("exclude"))}
		for i := range a.jobs {
			if a.jobs[i].Properties == nil { // and not those of the group
				a.jobs[i].Properties = shared
			}
		}
		r.addons = append(r.addons, a)
		r.manifest.addonSystems = slices.Concat(r.manifest.addonSystems, a.include.stemcells, a.exclude.stemcells)
	}
}

// readAddonRules reads include or exclude of an addon. The names in parentheses are those
// of the Director's errors.
func (r *reader) readAddonRules(c document.Value) addonRules {
	if c.IsNull() || !sections.Map(c, "addons[].include") {
		return addonRules{}
	}
	shared := slices.Contains(r.runtimeConfigs, c.Position().File)
	if place := c.Get("deployments"); place.Len() > 0 && !shared {
		place.Fail("cannot be used in a manifest, whose addons are for this deployment alone (AddonDeploymentFilterNotAllowed)")
	}
	f := addonRules{groups: c.Get("instance_groups").Texts(), networks: c.Get("networks").Texts(), zones: c.Get("azs").Texts()}
	f.deployments = c.Get("deployments").Texts()
	if teams := c.Get("teams"); shared && teams.Len() > 0 {
		f.teams = true
		teams.Warn("selects no instance group: a deployment has no teams here")
	}
	f.lifecycle, _ = c.Get("lifecycle").Text()
	for _, item := range c.Get("jobs").Items() {
		if !item.IsNull() && !sections.Map(item, "addons[].include.jobs[]") {
			continue
		}
		name, named := item.Get("name").Required("the name of a job (AddonIncompleteFilterJobSection)")
		release, ok := item.Get("release").Required("the release of the job (AddonIncompleteFilterJobSection)")
		if named && ok {
			f.jobs = append(f.jobs, JobRef{Name: name, Release: release})
		}
	}
	for _, item := range c.Get("stemcell").Items() {
		if !item.IsNull() && !sections.Map(item, "addons[].include.stemcell[]") {
			continue
		}
		if os, ok := item.Get("os").Required("the operating system of the stemcell (AddonIncompleteFilterStemcellSection)"); ok {
			f.stemcells = append(f.stemcells, os)
		}
	}
	return f
}

// addAddons adds the jobs of addons to a group; c is its value.
func (r *reader) addAddons(c document.Value, group *InstanceGroup) {
	for _, a := range r.addons {
		if !r.fits(a.include, c, group) || a.exclude.given() && r.fits(a.exclude, c, group) {
			continue
		}
		for _, job := range a.jobs {
			if slices.ContainsFunc(group.Jobs, func(other JobRef) bool { return other.Name == job.Name }) {
				r.top.At(job.Path).Get("name").Fail("is already a job of the instance group %q: remove it there, or exclude the group from the addon", document.Literal(group.Name))
				continue
			}
			group.Jobs = append(group.Jobs, job)
		}
	}
}

// assumeOS returns the operating system by which addons select the group: that of stemcells, or
// of the stemcell's archive, if it is on this machine, or the one in the stemcell's name.
func (r *reader) assumeOS() string {
	ref := &r.manifest.ResourcePool.Stemcell
	if ref.OS != "" {
		return ref.OS
	}
	if path, local := strings.CutPrefix(ref.URL, "file://"); local && !ref.Instead && r.stemcellOS != nil {
		ref.assumed = r.stemcellOS(path)
	}
	if named := stemcellName.FindStringSubmatch(ref.Name); ref.assumed == "" && named != nil {
		ref.assumed = named[1]
	}
	return ref.assumed
}

// stemcellName matches the names of BOSH's own stemcells, such as
// bosh-aws-xen-hvm-ubuntu-jammy-go_agent: infrastructure, hypervisor, operating system.
var stemcellName = regexp.MustCompile(`^(?:light-)?bosh-[a-z0-9]+-(?:xen-hvm|xen|kvm|esxi|hyperv|boshlite)-(.+?)(?:-go_agent)?(?:-raw)?$`)

// CheckOS compares the operating system of the fetched stemcell with the one by which addons
// were added to the instance group.
func (m *Manifest) CheckOS(os string) error {
	ref := m.ResourcePool.Stemcell
	if len(m.addonSystems) == 0 || os == "" || ref.OS != "" || ref.Instead || os == ref.assumed {
		return nil
	}
	if !slices.Contains(m.addonSystems, os) && !slices.Contains(m.addonSystems, ref.assumed) {
		return nil
	}
	was := "could not be told from its name"
	if ref.assumed != "" {
		was = fmt.Sprintf("was taken to be %s, from its name", ref.assumed)
	}
	return fmt.Errorf("the stemcell has the operating system %s, which %s, so addons were added for another one: write os: %s in stemcells", os, was, os)
}

// fits reports whether a group fits rules, as the Director decides it.
func (r *reader) fits(f addonRules, c document.Value, group *InstanceGroup) bool {
	lifecycle := c.Get("lifecycle").Scalar()
	if lifecycle == "" {
		lifecycle = "service"
	}
	has := func(wanted []string, of document.Value, key string) bool {
		return len(wanted) == 0 || slices.ContainsFunc(listed(of), func(v document.Value) bool {
			if key != "" {
				v = v.Get(key)
			}
			return slices.Contains(wanted, v.Scalar())
		})
	}
	return !f.teams && (len(f.deployments) == 0 || slices.Contains(f.deployments, r.manifest.Name)) && (f.lifecycle == "" || f.lifecycle == lifecycle) &&
		(len(f.groups) == 0 || slices.Contains(f.groups, group.Name)) &&
		(len(f.stemcells) == 0 || slices.Contains(f.stemcells, r.assumeOS())) &&
		has(f.zones, c.Get("azs"), "") && has(f.networks, c.Get("networks"), "name") &&
		(len(f.jobs) == 0 || slices.ContainsFunc(f.jobs, func(wanted JobRef) bool {
			return slices.ContainsFunc(group.Jobs, func(j JobRef) bool { return j.Name == wanted.Name && j.Release == wanted.Release })
		}))
}

// dropUnused removes the releases of runtime configs that no job is of.
func (r *reader) dropUnused() {
	if len(r.runtimeConfigs) == 0 {
		return
	}
	used := map[string]bool{}
	use := func(jobs []JobRef) {
		for _, job := range jobs {
			used[job.Release] = true
		}
	}
	use(r.manifest.Group.Jobs)
	use(r.manifest.CPI.Templates)
	manifests := []*Manifest{r.manifest}
	if r.many != nil {
		for i := range r.many.Groups {
			use(r.many.Groups[i].Manifest.Group.Jobs)
			manifests = append(manifests, r.many.Groups[i].Manifest)
		}
	}
	for _, m := range manifests {
		m.Releases = slices.DeleteFunc(slices.Clone(m.Releases), func(rel Release) bool {
			return !used[rel.Name] && slices.Contains(r.runtimeConfigs, rel.Pos.File)
		})
	}
}
