package deployer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bootstrap/manifest"
	"bootstrap/state"
)

// replaceReasons says why a VM that is there and answers must make way; none,
// if it need not.
func replaceReasons(w wanted, st state.State) []string {
	var why []string
	if w.options.Recreate {
		why = append(why, "asked to with --recreate")
	}
	if sc := st.Stemcell(); sc != nil && sc.Name+"/"+sc.Version != w.stemcell {
		why = append(why, stemcellChange(*sc, w.stemcell))
	}
	if len(st.Own.Made) == 0 {
		if st.CurrentManifestSHA != w.digest && !w.options.AdoptVM && len(why) == 0 {
			why = append(why, "what the VM was made from is unknown; --adopt-from MANIFEST tells it, --adopt-vm takes the VM as it is")
		}
		return why
	}
	parts := slices.DeleteFunc(changedParts(st.Own.Made, w.made), isAgentPart)
	if cert := agentPrefix + partCertificate; st.Own.Made[cert] != "" && w.made[cert] == "" {
		// Told to have none, the agent would go back to an older one.
		why = append(why, "env.bosh.mbus was removed")
	}
	return append(why, partReasons(parts)...)
}

// asksOtherVM tells whether the CPI is asked for another VM than it has made.
func asksOtherVM(w wanted, st state.State) bool {
	sc := st.Stemcell()
	return len(st.Own.Made) == 0 || sc == nil || sc.Name+"/"+sc.Version != w.stemcell ||
		slices.ContainsFunc(changedParts(st.Own.Made, w.made), func(part string) bool { return !isAgentPart(part) })
}

func stemcellChange(old state.Stemcell, want string) string {
	name, version, _ := strings.Cut(want, "/")
	if name == old.Name {
		return fmt.Sprintf("stemcell %s -> %s", old.Version, version)
	}
	return fmt.Sprintf("stemcell %s/%s -> %s", old.Name, old.Version, want)
}

// changedParts lists the parts whose digests differ, sorted.
func changedParts(have, want map[string]string) []string {
	var list []string
	for k, v := range want {
		if have[k] != v {
			list = append(list, k)
		}
	}
	for k := range have {
		if _, ok := want[k]; !ok && k != partSpec {
			list = append(list, k)
		}
	}
	slices.Sort(list)
	return list
}

func sameParts(have, want map[string]string) bool { return maps.Equal(have, want) }

// sameApplied compares without what only an apply can tell.
func sameApplied(have, want map[string]string) bool { return len(changedParts(have, want)) == 0 }

// partReasons words changed parts of the VM, those of one place together.
func partReasons(parts []string) []string {
	var order []string
	below := map[string][]string{}
	for _, p := range parts {
		place, key, _ := strings.Cut(p, ": ")
		if _, seen := below[place]; !seen {
			order = append(order, place)
		}
		below[place] = append(below[place], key)
	}
	var why []string
	for _, place := range order {
		text := place + " changed"
		if keys := strings.Join(below[place], ", "); keys != "" {
			text += ": " + keys
		}
		why = append(why, text)
	}
	return why
}

// jobReasons says why jobs and packages must be put on the VM anew.
func jobReasons(w wanted, st state.State, f facts) []string {
	var why []string
	switch {
	case f.now.Deployment == "":
		return []string{"nothing was put on the VM yet"}
	case st.CurrentManifestSHA == "":
		return []string{"the last deploy was not finished"}
	case len(st.Own.Applied) == 0 && st.CurrentManifestSHA != w.digest:
		return append([]string{"what was put on the VM last is unknown"}, releaseChanges(w.releases, st.Releases, w.used)...)
	case len(st.Own.Applied) == 0:
		return releaseChanges(w.releases, st.Releases, w.used)
	}
	why = append(why, releaseChanges(w.releases, st.Releases, w.used)...)
	why = append(why, appliedReasons(changedParts(st.Own.Applied, w.applied), len(why) > 0)...)
	if spec := st.Own.Applied[partSpec]; spec != "" && spec != digestOf(st.Own.Salt, partSpec, f.now.ConfigurationHash) {
		why = append(why, "the agent has another spec than the one applied last")
	}
	return why
}

// appliedReasons words changed parts of the instance. What follows from a
// changed release is not told when that is.
func appliedReasons(parts []string, releaseTold bool) []string {
	var why []string
	for _, p := range parts {
		switch kind, rest, _ := strings.Cut(p, ": "); {
		case p == partTags || p == partSpec:
		case releaseTold && (kind == "package" || kind == "template" || kind == "release"):
		case kind == "property":
			job, name, _ := strings.Cut(rest, " ")
			why = append(why, fmt.Sprintf("properties.%s of job %s changed", name, job))
		case kind == "package":
			why = append(why, "package "+rest+" changed")
		case kind == "template":
			why = append(why, "job "+rest+" changed")
		case kind == "release":
			why = append(why, "the release of job "+rest+" changed")
		case kind == "links":
			why = append(why, "links of job "+rest+" changed")
		default:
			why = append(why, p+" changed")
		}
	}
	return why
}

// releaseChanges words how the releases differ; with used, only those count.
func releaseChanges(want, have []state.Release, used map[string]bool) []string {
	var why []string
	for _, n := range want {
		if used != nil && !used[n.Name] {
			continue
		}
		i := slices.IndexFunc(have, func(h state.Release) bool { return h.Name == n.Name })
		switch {
		case i < 0:
			why = append(why, fmt.Sprintf("release %s/%s is new", n.Name, n.Version))
		case have[i].Version != n.Version:
			why = append(why, fmt.Sprintf("release %s %s -> %s", n.Name, have[i].Version, n.Version))
		}
	}
	for _, h := range have {
		// One that is not asked for any more is used by no job.
		if used == nil && !slices.ContainsFunc(want, func(n state.Release) bool { return n.Name == h.Name }) {
			why = append(why, fmt.Sprintf("release %s is gone", h.Name))
		}
	}
	return why
}

func diskReasons(have state.Disk, want manifest.DiskPool) []string {
	var why []string
	if have.Size != want.Size {
		why = append(why, fmt.Sprintf("size %d -> %d MiB", have.Size, want.Size))
	}
	var keys []string
	for k, v := range want.CloudProperties {
		if old, ok := have.CloudProperties[k]; !ok || !sameValue(old, v) {
			keys = append(keys, k)
		}
	}
	for k := range have.CloudProperties {
		if _, ok := want.CloudProperties[k]; !ok {
			keys = append(keys, k)
		}
	}
	if len(keys) > 0 {
		slices.Sort(keys)
		why = append(why, "cloud_properties of the disk changed: "+strings.Join(keys, ", "))
	}
	return why
}

func recordReasons(w wanted, st state.State) []string {
	switch {
	case len(st.Own.Made) == 0 && st.CurrentManifestSHA == w.digest:
		return []string{"the deployment was made by another tool and is taken over as it is"}
	case st.CurrentManifestSHA != w.digest:
		return []string{"the manifest changed in nothing that the VM has"}
	}
	return []string{"the record is completed"}
}
