package rollout

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"bootstrap/deployment/record"
	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/failure"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// Known is a member of the fleet file, now or when an earlier run began.
type Known struct {
	Name  string `json:"name"`
	State string `json:"state"` // path of its state file; a relative one starts from the fleet file's folder
}

// Removed is a member that is not in the fleet file any more, but still deployed.
type Removed struct {
	Name  string   `json:"name"`
	State string   `json:"state"` // absolute path of its state file
	VM    string   `json:"vm,omitempty"`
	Disks []string `json:"disks,omitempty"` // CIDs
	// Instances are the names of its instances, if its record has several.
	Instances []string `json:"instances,omitempty"`
	// Problem says why its state cannot be read; empty: it was read.
	Problem string `json:"problem,omitempty"`
}

// String returns the member's name with its VM and disks.
func (r Removed) String() string {
	var has []string
	if len(r.Instances) > 0 {
		has = append(has, "instances "+strings.Join(r.Instances, ", "))
	}
	if r.VM != "" {
		has = append(has, "VM "+r.VM)
	}
	for _, cid := range r.Disks {
		has = append(has, "disk "+cid)
	}
	if r.Problem != "" {
		has = append(has, r.Problem)
	}
	if len(has) == 0 {
		return r.Name
	}
	return fmt.Sprintf("%s (%s)", r.Name, strings.Join(has, ", "))
}

// DeleteRemoved returns the command that deletes the removed members. If the fleet has no
// others, it names each: --removed deletes none because of an empty list.
func DeleteRemoved(fleetFile string, removed []Removed, others int) string {
	if others > 0 {
		return fmt.Sprintf("bootstrap fleet delete %s --removed", fleetFile)
	}
	text := "bootstrap fleet delete " + fleetFile
	for _, one := range removed {
		text += " --only " + one.Name
	}
	return text
}

// knownOf returns the members that a record lists: those of the fleet file, and those
// that were removed from it.
func knownOf(f *fleet.Fleet, removed []Removed) []Known {
	dir := filepath.Dir(f.Path)
	var list []Known
	add := func(name, path string) {
		if team.IsAddress(path) {
			list = append(list, Known{Name: name, State: path})
			return
		}
		if inside, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(inside) {
			path = filepath.ToSlash(inside) // the folder may be moved
		}
		list = append(list, Known{Name: name, State: path})
	}
	for _, m := range f.Members {
		if m.IsStored() {
			add(m.Name, m.State)
		} else if path, err := file.Path(m.Manifest, m.State); err == nil {
			add(m.Name, path)
		}
	}
	for _, r := range removed {
		add(r.Name, r.State)
	}
	return list
}

// RemovedFrom returns the members of an earlier run that the fleet file does not
// contain any more and that are still deployed. If f is nil, because the file cannot be
// read, it returns those that the run itself found.
func (r *Record) RemovedFrom(f *fleet.Fleet, home string) []Removed {
	if r == nil {
		return nil
	}
	candidates, present := r.Known, map[string]bool{}
	if f == nil {
		candidates = nil
		for _, one := range r.Removed {
			candidates = append(candidates, Known{Name: one.Name, State: one.State})
		}
	} else {
		for _, m := range f.Members {
			if m.IsStored() {
				present[m.State] = true
			} else if path, err := file.Path(m.Manifest, m.State); err == nil {
				present[path] = true
			}
		}
	}
	var list []Removed
	living := livingOf(f, home)
	for _, k := range candidates {
		path := k.State
		if !team.IsAddress(path) {
			if path = filepath.FromSlash(path); !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(r.Fleet), path)
			}
		}
		if present[path] {
			continue
		}
		if one, ok := stillDeployed(path, home, present, living); ok {
			one.Name = k.Name
			list = append(list, one)
		}
	}
	return list
}

// stillDeployed returns the resources in the state at path, or in the record of instances
// beside it. ok is false if it records nothing, or if the state has moved to one of the
// present members or is an old copy of a member's state.
func stillDeployed(path, home string, present map[string]bool, living func() map[string]bool) (one Removed, ok bool) {
	one.State = path
	gone := fleet.Member{State: path}
	all, recordErr := instancesOf(gone, home)
	st, found, err := readState(gone, home)
	switch {
	case recordErr != nil:
		one.Problem = recordErr.Error()
	case all != nil && slices.ContainsFunc(all.Instances, func(in *record.Instance) bool { return living()[in.ID] }):
		return one, false
	case all != nil && all.Needed():
		one.Instances = record.Names(all.Instances)
		one.Disks, err = orphansOf(all, home)
		if err != nil {
			one.Problem = "its orphaned disks cannot be listed: " + err.Error()
		}
	case err != nil:
		if moved, ok := errors.AsType[*state.MovedError](err); ok && present[moved.To] {
			return one, false
		}
		one.Problem = "its state cannot be read: " + err.Error()
	case !found || !deployed(st) || living()[st.InstallationID]:
		return one, false
	default:
		one.VM = st.CurrentVMCID
		for _, d := range st.Disks {
			one.Disks = append(one.Disks, d.CID)
		}
	}
	return one, true
}

// livingOf returns a function that reads the states of a fleet file's members once, and
// returns the IDs of their installations and instances. A state of another member with one
// of these IDs is an old copy: the member was renamed or its state was moved. f may be nil.
func livingOf(f *fleet.Fleet, home string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		ids := map[string]bool{}
		if f == nil {
			return ids
		}
		for _, m := range f.Members {
			if st, found, err := readState(m, home); err == nil && found && st.InstallationID != "" {
				ids[st.InstallationID] = true
			}
			if all, err := instancesOf(m, home); err == nil && all != nil {
				for _, in := range all.Instances {
					ids[in.ID] = true
				}
			}
		}
		return ids
	})
}

// refuseUnreadable returns an error if the state of one of some members of the fleet file
// cannot be read: a removed member may be an old copy of it.
func refuseUnreadable(opts Options, members, removed []fleet.Member) error {
	if len(removed) == 0 {
		return nil
	}
	for _, m := range members {
		_, err := instancesOf(m, opts.Home)
		if err == nil {
			_, _, err = readState(m, opts.Home)
		}
		if err != nil {
			return fmt.Errorf("cannot find out whether %s is an old copy of the member %s, whose state cannot be read: %w; to delete it nevertheless: \"bootstrap fleet delete %s --only %s\"",
				removed[0].Name, m.Name, err, opts.Fleet.Path, removed[0].Name)
		}
	}
	return nil
}

// readState reads the state of a member with one instance, or this machine's copy of it.
func readState(m fleet.Member, home string) (st state.State, found bool, err error) {
	path, err := m.StatePath(home)
	if err != nil {
		return st, false, err
	}
	return file.Read(path, home)
}

// orphansOf returns the orphaned disks that former instances of a record have left.
func orphansOf(all *record.Record, home string) (disks []string, err error) {
	for _, in := range all.Former {
		st, _, err := all.ReadState(in, home)
		if err != nil {
			return nil, err
		}
		for _, o := range st.Own.Orphans {
			disks = append(disks, o.CID)
		}
	}
	return disks, nil
}

// deployed reports whether anything exists that delete removes.
func deployed(st state.State) bool {
	return st.CurrentVMCID != "" || len(st.Disks) > 0 || len(st.Stemcells) > 0 || st.Own.Swap != nil || len(st.Own.Intents) > 0
}

// Members returns removed members as members without a manifest. has are the names of
// the fleet file's members.
func Members(removed []Removed, has []fleet.Member) []fleet.Member {
	var list []fleet.Member
	for _, r := range removed {
		m := fleet.Member{Name: r.Name, State: r.State}
		for slices.ContainsFunc(has, func(o fleet.Member) bool { return strings.EqualFold(o.Name, m.Name) }) || slices.ContainsFunc(list, func(o fleet.Member) bool { return strings.EqualFold(o.Name, m.Name) }) {
			m.Name += ".removed" // A member whose state has moved may have the same name.
		}
		list = append(list, m)
	}
	return list
}

// planDelete returns the member with the changes of a delete.
func (c *coordinator) planDelete(m Member) Member {
	was, one := m.Verdict, c.byName[m.Name]
	m.Verdict, m.Reason, m.Changes = schedule.Waiting, "", nil
	all, err := instancesOf(one, c.opts.Home)
	if all != nil {
		return planDeleteAll(m, all)
	}
	var st state.State
	found := false
	if err == nil {
		st, found, err = readState(one, c.opts.Home)
	}
	switch {
	case err != nil:
		m.Verdict, m.ExitCode, m.Reason = schedule.Failed, int(failure.Failed), err.Error()
	case found && deployed(st):
		for what, has := range map[string]bool{"delete vm": st.CurrentVMCID != "", "delete disk": len(st.Disks) > 0, "delete stemcell": len(st.Stemcells) > 0} {
			if has {
				m.Changes = append(m.Changes, what)
			}
		}
		slices.SortFunc(m.Changes, func(a, b string) int { return strings.Compare(b, a) }) // the order is vm, stemcell, disk
	case was == schedule.Done || m.killed:
		m.Verdict = schedule.Done
	case one.IsStored(): // This machine may have no copy: the command about the member reads the store.
	default:
		m.Verdict, m.Reason = schedule.Unchanged, "it is not deployed"
	}
	return m
}
