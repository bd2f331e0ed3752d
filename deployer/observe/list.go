package observe

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/deployer/kept"
	"bootstrap/deployment/record"
	"bootstrap/internal/keyorder"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// ListedStatus is the status of a deployment according to its state.
type ListedStatus string

// The agent of a deployed VM was not asked: jobs may have failed since.
const (
	ListedDeployed   ListedStatus = "deployed"   // the last deploy succeeded
	ListedStopped    ListedStatus = "stopped"    // stopped with `bootstrap stop`
	ListedUnfinished ListedStatus = "unfinished" // a deploy failed or was interrupted
	ListedNoVM       ListedStatus = "no VM"
	ListedGone       ListedStatus = "state gone" // its state file does not exist any more
	ListedUnreadable ListedStatus = "unreadable" // its state file cannot be read
)

// Listed is a recorded deployment, in the form of --json.
type Listed struct {
	Deployment     string       `json:"deployment"` // empty: not recorded
	Status         ListedStatus `json:"status"`
	VM             string       `json:"vm,omitempty"` // CID
	Address        string       `json:"address,omitempty"`
	LastDeploy     *time.Time   `json:"deployed"` // null: not recorded
	Manifest       string       `json:"manifest,omitempty"`
	State          string       `json:"state"` // path of the state file, or its store
	InstallationID string       `json:"installation_id"`
	Note           string       `json:"note,omitempty"` // a problem
	// Instances is how many instances of a deployment with several have a state: the row is
	// about all of them. 0: it has one.
	Instances int `json:"instances,omitempty"`

	path string // path of the state file, or of this machine's copy
}

// List returns the deployments that are recorded on this machine, by name. It only reads
// files. home is ~/.bosh.
func List(home string) ([]Listed, error) {
	all, err := file.AllRecorded(home)
	if err != nil {
		return nil, err
	}
	var list []Listed
	for _, r := range all {
		known, _ := kept.At(filepath.Join(home, r.Installation)).Deployment()
		l := Listed{
			Deployment: known.Name, Status: statusOf(r), Manifest: known.Manifest, InstallationID: r.Installation,
			VM: r.State.CurrentVMCID, Address: r.State.Own.Address, LastDeploy: r.State.Own.Deployed,
		}
		l.State, l.path = cmp.Or(r.Place, r.Path), r.Path
		if r.Err != nil {
			l.Note = r.Err.Error()
		} else if _, err := os.Stat(known.Manifest); known.Manifest != "" && errors.Is(err, os.ErrNotExist) {
			l.Note = "the manifest " + known.Manifest + " is gone; without it, give --state " + l.State
		}
		list = append(list, l)
	}
	list = joined(list)
	slices.SortFunc(list, func(a, b Listed) int {
		return cmp.Or(keyorder.Names(a.Deployment, b.Deployment), keyorder.Names(a.State, b.State), cmp.Compare(a.InstallationID, b.InstallationID))
	})
	return list, nil
}

// joined returns the list with one entry for all instances of a deployment with several.
// Former instances only have an entry if nothing else is left of it.
func joined(list []Listed) []Listed {
	var rest []Listed
	of := map[string]*Listed{} // by the folder of the record
	var dirs []string
	for _, l := range list {
		all, in := recordOf(l)
		if in == nil {
			rest = append(rest, l)
			continue
		}
		former := slices.Contains(all.Former, in)
		if former && len(all.Instances) > 0 {
			continue
		}
		dir := all.Dir()
		row := of[dir]
		if row == nil {
			row = &Listed{Deployment: cmp.Or(l.Deployment, all.Name), Status: l.Status, LastDeploy: all.Deployed, Manifest: l.Manifest, State: dir}
			if l.State != l.path { // in a store, whose address is followed by the instance
				row.State, _, _ = strings.Cut(l.State, "#")
			}
			of[dir], dirs = row, append(dirs, dir)
		}
		if !former {
			row.Instances++
		}
		if rank := worst(); slices.Index(rank, l.Status) < slices.Index(rank, row.Status) {
			row.Status = l.Status
		}
		if l.Note != "" && !strings.Contains(row.Note, l.Note) {
			row.Note = strings.TrimPrefix(row.Note+"; "+in.Name()+": "+l.Note, "; ")
		}
	}
	for _, dir := range dirs {
		rest = append(rest, *of[dir])
	}
	return rest
}

// worst returns the statuses of deployments, the worst one first.
func worst() []ListedStatus {
	return []ListedStatus{ListedUnreadable, ListedGone, ListedUnfinished, ListedNoVM, ListedStopped, ListedDeployed}
}

// recordOf returns the record and the instance that a state belongs to; nil: it is that of
// the only instance of a deployment.
func recordOf(l Listed) (*record.Record, *record.Instance) {
	var dirs []string
	if l.Manifest != "" {
		dirs = append(dirs, record.Dir(l.Manifest))
	}
	own := filepath.Dir(l.path)
	for _, dir := range append(dirs, own, filepath.Dir(own), team.RecordIn(own)) { // the last two: in the copy of a store
		if !record.Exists(dir) {
			continue
		}
		all, err := record.Load(dir)
		if err != nil {
			continue
		}
		for _, in := range slices.Concat(all.Instances, all.Former) {
			if all.StatePath(in) == l.path {
				return all, in
			}
		}
	}
	return nil, nil
}

func statusOf(r file.Recorded) ListedStatus {
	_, gone := errors.AsType[*file.GoneError](r.Err)
	switch {
	case gone:
		return ListedGone
	case r.Err != nil:
		return ListedUnreadable
	case r.State.Detached():
		return ListedStopped
	case r.State.CurrentVMCID == "":
		return ListedNoVM
	case r.State.Own.Stopped:
		return ListedStopped
	case r.State.CurrentManifestSHA == "":
		return ListedUnfinished
	}
	return ListedDeployed
}
