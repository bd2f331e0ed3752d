package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"bootstrap/state"
)

// replaceReasons returns why a VM whose agent answers must be replaced; nil: it need not
// be.
func replaceReasons(w Wishes, st state.State) []Reason {
	var why []Reason
	if created := st.Own.Created; w.Asked.Recreate && (w.Asked.CreatedBefore.IsZero() || created == nil || created.Before(w.Asked.CreatedBefore)) {
		why = append(why, Reason{Cause: ByFlag, Subject: "--recreate"})
	}
	if sc := st.Stemcell(); sc != nil && sc.Name+"/"+sc.Version != w.Stemcell {
		why = append(why, stemcellChange(*sc, w.Stemcell))
	}
	if len(st.Own.Made) == 0 {
		if st.CurrentManifestSHA != w.Digest && !w.Asked.AdoptVM && len(why) == 0 {
			why = append(why, Reason{Cause: OriginUnknown})
		}
		return why
	}
	parts := slices.DeleteFunc(ChangedParts(st.Own.Made, w.Made), IsSetting)
	if cert := AgentPrefix + PartCertificate; st.Own.Made[cert] != "" && w.Made[cert] == "" {
		// Without a certificate in its new settings, the agent would use an older one.
		why = append(why, Reason{Cause: MBusRemoved})
	}
	return append(why, partReasons(parts, w.Places)...)
}

// asksOtherVM reports whether the arguments of create_vm would differ from those of the
// current VM.
func asksOtherVM(w Wishes, st state.State) bool {
	sc := st.Stemcell()
	return len(st.Own.Made) == 0 || sc == nil || sc.Name+"/"+sc.Version != w.Stemcell ||
		slices.ContainsFunc(ChangedParts(st.Own.Made, w.Made), func(part string) bool { return !IsSetting(part) })
}

func stemcellChange(old state.Stemcell, want string) Reason {
	name, version, _ := strings.Cut(want, "/")
	if name == old.Name {
		return Reason{Cause: StemcellChanged, From: old.Version, To: version}
	}
	return Reason{Cause: StemcellChanged, From: old.Name + "/" + old.Version, To: want}
}

// partReasons returns one reason for the changed parts of each place. places are
// those of Wishes.
func partReasons(parts []string, places map[string]string) []Reason {
	var why []Reason
	for _, p := range parts {
		place, key, _ := strings.Cut(p, ": ")
		place = cmp.Or(places[p], places[place], place)
		i := slices.IndexFunc(why, func(r Reason) bool { return r.Subject == place })
		if i < 0 {
			i = len(why)
			why = append(why, Reason{Cause: PartChanged, Subject: place})
		}
		if key != "" {
			why[i].Names = append(why[i].Names, key)
		}
	}
	return why
}

// jobReasons returns why jobs and packages must be applied again.
func jobReasons(w Wishes, st state.State, f Facts) []Reason {
	switch {
	case f.Now.Deployment == "":
		return []Reason{{Cause: NothingApplied}}
	case st.CurrentManifestSHA == "":
		return []Reason{{Cause: Unfinished}}
	}
	releases := releaseChanges(w.Releases, st.Releases, w.Used)
	switch {
	case len(st.Own.Applied) == 0 && st.CurrentManifestSHA != w.Digest:
		return append([]Reason{{Cause: AppliedUnknown}}, releases...)
	case len(st.Own.Applied) == 0:
		return releases
	}
	parts := ChangedParts(st.Own.Applied, w.Applied)
	if w.ByContent && !slices.ContainsFunc(parts, isContent) {
		releases, parts = nil, nil
	}
	why := append(releases, w.appliedReasons(parts, len(releases))...)
	if lost, _ := Lost(st, f.Now); lost {
		why = append(why, Reason{Cause: OtherSpec})
	}
	return why
}

// isContent reports whether a part is one of what runs on the instance, and not only the
// name and version of a release.
func isContent(part string) bool {
	return part != PartTags && part != PartSpec && !strings.HasPrefix(part, "release: ")
}

// appliedReasons returns the reasons for changed parts of the instance. If releases have
// changed, the changes of their jobs and packages are one reason; releases is their
// number.
func (w Wishes) appliedReasons(parts []string, releases int) []Reason {
	var why []Reason
	contents := Reason{Cause: ContentsChanged, Count: releases}
	for _, p := range parts {
		switch kind, rest, _ := strings.Cut(p, ": "); {
		case p == PartTags || p == PartSpec:
		case releases > 0 && kind == "release":
		case releases > 0 && kind == "template":
			contents.Names = append(contents.Names, "job "+rest)
		case releases > 0 && kind == "package":
			contents.Names = append(contents.Names, "package "+rest)
		case kind == "property":
			job, name, _ := strings.Cut(rest, " ")
			why = append(why, Reason{Cause: PropertyChanged, Subject: name, To: job})
		case kind == "package":
			why = append(why, Reason{Cause: PackageChanged, Subject: rest})
		case kind == "template":
			why = append(why, Reason{Cause: JobChanged, Subject: rest})
		case kind == "release":
			why = append(why, Reason{Cause: JobMoved, Subject: rest})
		case kind == partLink:
			why = addLinkReason(why, rest, w.Links)
		case kind == "links":
			why = append(why, Reason{Cause: LinksChanged, Subject: rest})
		case p == PartJobs:
			why = append(why, Reason{Cause: JobsListed})
		default:
			why = append(why, Reason{Cause: PartChanged, Subject: p})
		}
	}
	if len(contents.Names) > 0 {
		slices.Sort(contents.Names) // jobs first
		why = append([]Reason{contents}, why...)
	}
	return why
}

// releaseChanges lists the differences between releases; if used is not nil, only those
// of used releases.
func releaseChanges(want, have []state.Release, used map[string]bool) []Reason {
	var why []Reason
	for _, n := range want {
		if used != nil && !used[n.Name] {
			continue
		}
		i := slices.IndexFunc(have, func(h state.Release) bool { return h.Name == n.Name })
		switch {
		case i < 0:
			why = append(why, Reason{Cause: ReleaseNew, Subject: n.Name, To: n.Version})
		case have[i].Version != n.Version:
			why = append(why, Reason{Cause: ReleaseChanged, Subject: n.Name, From: have[i].Version, To: n.Version})
		}
	}
	for _, h := range have {
		// No job uses a release that is not in the manifest any more.
		if used == nil && !slices.ContainsFunc(want, func(n state.Release) bool { return n.Name == h.Name }) {
			why = append(why, Reason{Cause: ReleaseRemoved, Subject: h.Name})
		}
	}
	return why
}

// releaseRecords returns the changes of releases that only affect the state. The embedded
// releases have another version in each new version of the program, which is no change of
// a deployment.
func releaseRecords(w Wishes, st state.State) []Reason {
	return slices.DeleteFunc(releaseChanges(w.Releases, st.Releases, nil), func(r Reason) bool {
		return r.Cause == ReleaseChanged && w.Embedded[r.Subject]
	})
}

func recordReason(w Wishes, st state.State) Reason {
	switch {
	case len(st.Own.Made) == 0 && st.CurrentManifestSHA == w.Digest:
		return Reason{Cause: TakenOver}
	case st.CurrentManifestSHA != w.Digest:
		return Reason{Cause: ManifestOnly}
	}
	if list := releaseRecords(w, st); w.ByContent && len(list) > 0 {
		return list[0]
	}
	return Reason{Cause: RecordOnly}
}

// Names of the agent's settings in plans.
const (
	AgentPrefix     = "the agent: "
	PartCA          = "CA"
	PartCertificate = "certificate"
	PartPassword    = "user and password"
)

// IsSetting reports whether the part is one of the agent's own settings, which a
// running agent can change.
func IsSetting(part string) bool {
	return strings.HasPrefix(part, AgentPrefix) && part != PartAgentAddress
}

// ChangedSettings lists the agent's own settings that differ.
func ChangedSettings(have, want map[string]string) []string {
	var list []string
	for _, p := range ChangedParts(have, want) {
		if IsSetting(p) {
			list = append(list, strings.TrimPrefix(p, AgentPrefix))
		}
	}
	return list
}

// agentWork returns the agent's settings that change on the VM, and those that differ but
// cannot change.
func (w Wishes) agentWork(st state.State) (changes, stays []string) {
	all := slices.Clone(w.Differs)
	if len(st.Own.Made) > 0 {
		all = append(all, ChangedSettings(st.Own.Made, w.Made)...)
	}
	slices.Sort(all)
	for _, c := range slices.Compact(all) {
		if slices.Contains(w.Stays, c) {
			stays = append(stays, c)
		} else {
			changes = append(changes, c)
		}
	}
	return changes, stays
}

// MadeOf returns the parts of the VM to record after the plan: an existing VM keeps the
// agent's settings that cannot change.
func (w Wishes) MadeOf(st state.State, vm Action) map[string]string {
	if vm != Keep || len(st.Own.Made) == 0 {
		return w.Made
	}
	made := maps.Clone(w.Made)
	for _, part := range w.Stays {
		if have, ok := st.Own.Made[AgentPrefix+part]; ok {
			made[AgentPrefix+part] = have
		} else {
			delete(made, AgentPrefix+part)
		}
	}
	return made
}
