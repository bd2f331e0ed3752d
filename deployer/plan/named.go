package plan

import (
	"fmt"
	"slices"

	"bootstrap/state"
)

// NamedWork has the facts about a disk of persistent_disks that decide its steps. Such a
// disk is attached, and gets its name on the VM; jobs mount it themselves. Its data cannot
// be migrated: the agent does not know what is on it.
type NamedWork struct {
	Name     string `json:"name"`
	CID      string `json:"cid,omitempty"` // of the recorded disk; empty: there is none
	Action   Action `json:"action"`        // Keep, Create, Replace, Attach or Orphan
	Attached bool   `json:"attached,omitempty"`
}

// keepNamed returns the recorded named disks, without changes.
func keepNamed(st state.State) []NamedWork {
	var list []NamedWork
	for _, n := range st.Own.NamedDisks {
		if d := st.Named(n.Name); d != nil {
			list = append(list, NamedWork{Name: n.Name, CID: d.CID, Action: Keep, Attached: st.Attached(n.Name)})
		}
	}
	return list
}

// decideNamed decides what to do with the named disks, given the action for the VM: those
// of the manifest first, then recorded ones that it does not name.
func decideNamed(w Wishes, st state.State, vm Action) (list []NamedWork, changes []Change) {
	add := func(n NamedWork, action Action, name string, why ...Reason) {
		n.Action = action
		list = append(list, n)
		changes = append(changes, Change{What: NamedDisk, Name: name, Action: action, Why: why})
	}
	newVM := vm == Create || vm == Replace
	have := keepNamed(st)
	for i := range have {
		have[i].Attached = have[i].Attached && !newVM
	}
	for _, want := range w.Named {
		i := slices.IndexFunc(have, func(n NamedWork) bool { return n.Name == want.Name })
		if i < 0 {
			add(NamedWork{Name: want.Name}, Create, fmt.Sprintf("%s, %d MiB", want.Name, want.Pool.Size), Reason{Cause: NoDisk})
			continue
		}
		n := have[i]
		switch why := DiskReasons(*st.Named(n.Name), want.Pool); {
		case len(why) > 0:
			add(n, Replace, n.String(), why...)
		case !newVM && !n.Attached:
			add(n, Attach, n.String(), Reason{Cause: NotAttached})
		default:
			add(n, Keep, n.String())
		}
	}
	for _, n := range have {
		if !slices.ContainsFunc(list, func(o NamedWork) bool { return o.Name == n.Name }) {
			add(n, Orphan, n.String(), Reason{Cause: DiskUnwanted})
		}
	}
	return list, changes
}

// String returns the disk for people: "data disk-1".
func (n NamedWork) String() string { return n.Name + " " + n.CID }

// namedChanges reports whether a named disk changes.
func namedChanges(list []NamedWork) bool {
	return slices.ContainsFunc(list, func(n NamedWork) bool { return n.Action != Keep })
}

// namedSteps returns the steps that change the named disks while the jobs are stopped. One
// that is replaced is detached first: so the agent never has more disks than names, with
// which it would not start again.
func (l list) namedSteps() []Step {
	attach := []string{"cpi attach_disk", "cpi set_disk_metadata", "agent ping", "agent update_settings"}
	if l.API != 1 {
		attach = append(attach, "agent add_persistent_disk")
	}
	var release, provide []Step
	for _, n := range l.Named {
		s := Step{Name: n.String(), Disk: &DiskWork{CID: n.CID, As: n.Name}}
		if n.Action == Orphan || n.Action == Replace {
			gone := s
			gone.Kind = OrphanNamed
			if !l.NewVM() {
				gone.Calls = []string{"agent update_settings", "agent remove_persistent_disk", "cpi detach_disk", "agent ping"}
			}
			gone.With.Attached, gone.With.Replaced = n.Attached, n.Action == Replace
			release = append(release, gone)
		}
		switch {
		case n.Action == Create, n.Action == Replace:
			provide = append(provide, Step{Kind: CreateNamed, Name: n.Name, Disk: &DiskWork{As: n.Name}, Calls: append([]string{"cpi create_disk"}, attach...)})
		case n.Action == Attach, n.Action == Keep && l.NewVM():
			s.Kind, s.Calls = AttachNamed, attach
			provide = append(provide, s)
		}
	}
	return slices.Concat(release, provide)
}

// diskCIDs returns the CIDs of the recorded disks that stay in use: the persistent disk and
// the named ones.
func (d Decision) diskCIDs() []string {
	var list []string
	if d.Disk.CID != "" && d.on(Disk) != Orphan {
		list = append(list, d.Disk.CID)
	}
	for _, n := range d.Named {
		if n.CID != "" && (n.Action == Keep || n.Action == Attach) {
			list = append(list, n.CID)
		}
	}
	return list
}

// attachedCIDs returns the CIDs of all recorded disks in use, which the recorded VM may have.
func (d Decision) attachedCIDs() []string {
	var list []string
	if d.Disk.CID != "" {
		list = append(list, d.Disk.CID)
	}
	for _, n := range d.Named {
		if n.CID != "" {
			list = append(list, n.CID)
		}
	}
	return list
}

// withoutNamed returns the mounted disks without those that jobs have mounted under their
// names.
func withoutNamed(st state.State, mounted []string) []string {
	return slices.DeleteFunc(slices.Clone(mounted), func(cid string) bool {
		d := DiskOf(st, cid)
		return d != nil && st.NameOf(cid) != ""
	})
}
