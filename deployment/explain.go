package deployment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bootstrap/deployment/record"
	"bootstrap/manifest/document"
	"bootstrap/state"
	"bootstrap/state/file"
)

// Side is one of two compared versions.
type Side struct {
	*record.Version
	Manifest []byte // without its secrets; nil: unknown
}

// Explain describes how two versions differ in terms of what a person knows: VMs, disks,
// addresses, stemcells, releases, and values of the manifest. Secrets are named and not shown.
func Explain(before, after Side) ([]string, error) {
	e := &explained{before: statesIn(before.Version), after: statesIn(after.Version)}
	e.groups = after.Record != nil && len(after.Record.Groups) > 1
	values, err := e.manifests(before.Manifest, after.Manifest)
	if err != nil {
		return nil, err
	}
	e.instances(before, after)
	for _, part := range after.Parts() {
		was, had := e.before[part.ID]
		is, has := e.after[part.ID]
		if had && has {
			for _, line := range resourceLines(was, is) {
				e.lines = append(e.lines, part.Says(line))
			}
			e.shared(part, software(was, is))
			e.shared(part, e.applied(was, is))
		}
	}
	e.join(after)
	e.lines = append(e.lines, values...)
	return e.lines, nil
}

// explained collects the differences of two versions.
type explained struct {
	before, after map[string]state.State // by the ids of instances
	groups        bool                   // there are several instance groups
	changed       []valuePath            // values that both manifests show
	lines         []string
	common        []string            // lines that several instances may have
	having        map[string][]string // their instances
}

func statesIn(of *record.Version) map[string]state.State {
	all := map[string]state.State{}
	for id, data := range of.States {
		if st, err := file.Parse(data); err == nil {
			all[id] = st
		}
	}
	return all
}

// instances adds which instances were added, removed and renamed, and their numbers.
func (e *explained) instances(before, after Side) {
	if before.Record == nil || after.Record == nil {
		return
	}
	was, is := instancesOf(before.Version), instancesOf(after.Version)
	count := func(all map[string]*record.Instance) map[string]int {
		n := map[string]int{}
		for _, in := range all {
			n[in.Group]++
		}
		return n
	}
	old, new := count(was), count(is)
	for _, group := range slices.Sorted(maps.Keys(merged(old, new))) {
		if old[group] != new[group] {
			e.add("instances of %s: %d -> %d", group, old[group], new[group])
		}
	}
	for _, id := range idsOf(before.Version, after.Version) {
		one, other := was[id], is[id]
		switch {
		case one == nil:
			e.add("%s: instance added (%s)", other.Name(), summaryOf(after.Version, other))
		case other == nil:
			e.add("%s: instance removed (%s)", one.Name(), summaryOf(before.Version, one))
		default:
			e.instance(one, other)
		}
	}
}

// instance adds what the record says about an instance that both versions have.
func (e *explained) instance(was, is *record.Instance) {
	name := is.Name()
	if was.Name() != name {
		e.add("%s: is now called %s", was.Name(), name)
	}
	if was.Zone != is.Zone {
		e.add("%s: zone %s -> %s", name, orNone(was.Zone), orNone(is.Zone))
	}
	switch {
	case is.Ignored && !was.Ignored:
		e.add("%s: is ignored", name)
	case was.Ignored && !is.Ignored:
		e.add("%s: is not ignored any more", name)
	}
	if is.Going != "" && was.Going == "" {
		e.add("%s: is to be deleted (%s)", name, is.Going)
	}
	for _, network := range slices.Sorted(maps.Keys(merged(was.Addresses, is.Addresses))) {
		old, had := was.Addresses[network]
		new, has := is.Addresses[network]
		if old != new && had && has {
			e.add("%s: address on %s %s -> %s", name, network, old.Addr(), new.Addr())
		}
	}
}

func (e *explained) add(format string, args ...any) {
	e.lines = append(e.lines, fmt.Sprintf(format, args...))
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func merged[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return all
}

// resourceLines describes how the VM and the disks of an instance differ.
func resourceLines(was, is state.State) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch old, new := was.CurrentVMCID, is.CurrentVMCID; {
	case old == new:
	case old == "":
		add("VM created (%s)", new)
	case new == "":
		add("VM deleted (%s)", old)
	default:
		add("VM replaced (%s -> %s)", old, new)
	}
	if old, new := was.Own.Address, is.Own.Address; old != new && old != "" && new != "" {
		add("address %s -> %s", old, new)
	}
	lines = append(lines, diskLines(was, is)...)
	snapshots := func(st state.State) map[string]string {
		all := map[string]string{}
		for _, s := range st.Own.Snapshots {
			all[s.CID] = s.Disk
		}
		return all
	}
	old, new := snapshots(was), snapshots(is)
	for _, cid := range slices.Sorted(maps.Keys(merged(old, new))) {
		switch disk, had := old[cid]; {
		case !had:
			add("snapshot %s of disk %s taken", cid, new[cid])
		case new[cid] == "":
			add("snapshot %s of disk %s deleted", cid, disk)
		}
	}
	for _, flag := range []struct {
		was, is  bool
		yes, not string
	}{
		{was.Own.Detached, is.Own.Detached, "has no VM, on purpose", ""},
		{was.Own.Stopped, is.Own.Stopped, "stopped", "started"},
		{was.CurrentManifestSHA != "", is.CurrentManifestSHA != "", "the deploy finished", "the deploy did not finish"},
	} {
		if flag.was != flag.is && flag.is {
			add("%s", flag.yes)
		} else if flag.was && flag.not != "" && !flag.is {
			add("%s", flag.not)
		}
	}
	return lines
}

// diskLines describes how the disks of an instance differ.
func diskLines(was, is state.State) (lines []string) {
	type disk struct {
		size int
		kept bool
	}
	disks := func(st state.State) map[string]disk {
		all := map[string]disk{}
		for _, d := range st.Disks {
			all[d.CID] = disk{d.Size, false}
		}
		for _, o := range st.Own.Orphans {
			all[o.CID] = disk{o.Size, true}
		}
		return all
	}
	old, new := disks(was), disks(is)
	for _, cid := range slices.Sorted(maps.Keys(merged(old, new))) {
		before, had := old[cid]
		after, has := new[cid]
		switch {
		case !had:
			lines = append(lines, fmt.Sprintf("disk created (%s, %d MiB)", cid, after.size))
		case !has:
			lines = append(lines, fmt.Sprintf("disk deleted (%s)", cid))
		case after.kept && !before.kept:
			lines = append(lines, fmt.Sprintf("disk %s is not used any more, and kept", cid))
		case before.kept && !after.kept:
			lines = append(lines, fmt.Sprintf("disk %s is used again", cid))
		case before.size != after.size:
			lines = append(lines, fmt.Sprintf("disk %s: %d -> %d MiB", cid, before.size, after.size))
		}
	}
	return lines
}

// software describes how the stemcell and the releases of an instance differ.
func software(was, is state.State) (lines []string) {
	if old, new := was.Stemcell(), is.Stemcell(); old != nil && new != nil && (old.Name != new.Name || old.Version != new.Version) {
		lines = append(lines, "stemcell "+change(old.Name, old.Version, new.Name, new.Version))
	}
	releases := func(st state.State) map[string]string {
		all := map[string]string{}
		for _, r := range st.Releases {
			all[r.Name] = r.Version
		}
		return all
	}
	old, new := releases(was), releases(is)
	if len(old) == 0 || len(new) == 0 { // An unfinished deploy has none.
		return lines
	}
	for _, name := range slices.Sorted(maps.Keys(merged(old, new))) {
		switch before, after := old[name], new[name]; {
		case before == after:
		case before == "":
			lines = append(lines, fmt.Sprintf("release %s %s added", name, after))
		case after == "":
			lines = append(lines, fmt.Sprintf("release %s %s removed", name, before))
		default:
			lines = append(lines, fmt.Sprintf("release %s %s -> %s", name, before, after))
		}
	}
	return lines
}

func change(oldName, oldVersion, newName, newVersion string) string {
	if oldName == newName {
		return oldName + " " + oldVersion + " -> " + newVersion
	}
	return oldName + " " + oldVersion + " -> " + newName + " " + newVersion
}

// applied names the values that an instance has applied and that differ, unless the manifests
// show them: the state has only digests of values.
func (e *explained) applied(was, is state.State) (lines []string) {
	if was.Own.Salt != is.Own.Salt || len(was.Own.Applied) == 0 || len(is.Own.Applied) == 0 {
		return nil // Digests with another salt, or none, show nothing.
	}
	same := len(software(was, is)) == 0
	for _, part := range slices.Sorted(maps.Keys(merged(was.Own.Applied, is.Own.Applied))) {
		if was.Own.Applied[part] == is.Own.Applied[part] {
			continue
		}
		kind, rest, _ := strings.Cut(part, ": ")
		job, name, _ := strings.Cut(rest, " ")
		switch {
		case kind == "property":
			if !slices.ContainsFunc(e.changed, func(v valuePath) bool { return v.is(job, name) }) {
				lines = append(lines, propertyName(job, name)+": changed")
			}
		case kind == "template" && same:
			lines = append(lines, "job "+rest+": changed")
		case kind == "package" && same:
			lines = append(lines, "package "+rest+": changed")
		case kind == "the agent" && rest != "address":
			lines = append(lines, rest+" of the agent: changed")
		case part == "tags":
			lines = append(lines, "tags: changed")
		case kind == "link":
			link, _, _ := strings.Cut(name, " ")
			if line := "link " + link + " of " + job + ": changed"; !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// shared records lines of an instance that others may have as well.
func (e *explained) shared(part record.Part, lines []string) {
	if e.having == nil {
		e.having = map[string][]string{}
	}
	for _, line := range lines {
		if len(e.having[line]) == 0 {
			e.common = append(e.common, line)
		}
		e.having[line] = append(e.having[line], part.Name)
	}
}

// join adds the lines of several instances, each once: those that all instances have without
// names.
func (e *explained) join(after Side) {
	both := 0
	for id := range e.after {
		if _, had := e.before[id]; had {
			both++
		}
	}
	for _, line := range e.common {
		if of := e.having[line]; after.Record != nil && len(of) < both {
			line = strings.Join(of, ", ") + ": " + line
		}
		e.lines = append(e.lines, line)
	}
}

// propertyName returns the name of a property of a job. Many begin with the name of the job
// already.
func propertyName(job, property string) string {
	if strings.HasPrefix(property, job+".") {
		return property
	}
	return job + "." + property
}

// valuePath is the path of a value of the manifest.
type valuePath []string

// is reports whether the value is, is in, or has in it a property of a job.
func (v valuePath) is(job, property string) bool {
	for i, key := range v {
		if key != "properties" {
			continue
		}
		if i >= 2 && v[i-2] == "jobs" && v[i-1] != job {
			return false
		}
		path := strings.Join(v[i+1:], ".")
		return path == property || strings.HasPrefix(path, property+".") || strings.HasPrefix(property, path+".")
	}
	return false
}

// manifests returns the values that two manifests do not share; none if one is unknown.
func (e *explained) manifests(before, after []byte) (lines []string, err error) {
	if before == nil || after == nil {
		return nil, nil
	}
	list, err := document.Diff(before, after)
	if err != nil {
		return nil, fmt.Errorf("cannot compare the manifests of the versions: %w", err)
	}
	for _, d := range list {
		path := valuePath(strings.Split(d.Path, "."))
		e.changed = append(e.changed, path)
		name := path.name(e.groups)
		if name == "" {
			continue
		}
		switch d.Kind {
		case document.Added:
			lines = append(lines, name+": "+d.New+" (added)")
		case document.Removed:
			lines = append(lines, name+": "+d.Old+" (removed)")
		default:
			lines = append(lines, name+": "+d.Old+" -> "+d.New)
		}
	}
	return lines, nil
}

// name returns the name of the value for people, with its group if there are several; empty:
// the states say it already.
func (v valuePath) name(groups bool) string {
	last := v[len(v)-1]
	switch {
	case v[0] == "releases" && len(v) == 3, v[0] == "stemcells" && len(v) == 3, v[0] == "resource_pools" && len(v) >= 4 && v[2] == "stemcell":
		if slices.Contains([]string{"version", "url", "sha1", "digest"}, last) {
			return ""
		}
	case v[0] == "instance_groups" && len(v) == 3 && last == "instances":
		return ""
	case v[0] == "instance_groups" && len(v) > 5 && v[2] == "jobs" && v[4] == "properties":
		name := propertyName(v[3], strings.Join(v[5:], "."))
		if groups && v[1] != v[3] {
			name += " of " + v[1]
		}
		return name
	case v[0] == "instance_groups" && len(v) > 3 && v[2] == "properties" && !groups:
		return strings.Join(v[3:], ".")
	case v[0] == "instance_groups" && len(v) > 2:
		return strings.Join(v[2:], ".") + " of " + v[1]
	case v[0] == "properties" && len(v) > 1:
		return strings.Join(v[1:], ".")
	}
	return strings.Join(v, ".")
}
