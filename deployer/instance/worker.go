package instance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/google/uuid"

	"bootstrap/artifact"
	"bootstrap/deployment/record"
	"bootstrap/internal/lockfile"
	"bootstrap/manifest"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// Given makes m the manifest of the run, which then reads no file.
func (t *Instance) Given(m *manifest.Manifest) *Inputs {
	in := &Inputs{Request: t.Request, Manifest: m}
	t.use(in)
	return in
}

// Beside returns inputs for another VM than that of the run, with its manifest.
func (t *Instance) Beside(m *manifest.Manifest) *Inputs {
	return &Inputs{Request: t.Request, Manifest: m}
}

// HostOf returns this machine's facts about a VM with another manifest.
func (t *Instance) HostOf(m *manifest.Manifest, stemcell *artifact.Stemcell) *Host {
	return NewHost(t.Beside(m), t.Record, stemcell)
}

// Workers are the states of the compilation VMs of a deployment. They are in the
// folder of the states of several instances, also for a deployment with one.
type Workers struct {
	of   Options
	list []*record.Instance
	all  *record.Record // has them and the other instances: all share stemcells
}

// WorkersOf returns the states of count compilation VMs of the deployment.
// group is the instance group of a deployment with one instance.
func (o Options) WorkersOf(count int, group string) (*Workers, error) {
	w := &Workers{of: o}
	dir := o.RecordFolder()
	old, err := record.Load(dir)
	if err != nil {
		return nil, err
	}
	w.all = old.Copy()
	if !record.Exists(dir) {
		path, err := file.Path(o.Manifest, o.StateFile)
		if err != nil {
			return nil, err
		}
		w.all.Instances = []*record.Instance{{ID: uuid.NewString(), Group: group, State: record.Beside(path)}}
	}
	for n := range count {
		in := workerIn(o.Team, n)
		in.ID, in.Going = uuid.NewString(), record.DeploymentDeleted
		w.list, w.all.Instances = append(w.list, in), append(w.all.Instances, in)
	}
	return w, nil
}

// workerIn returns a compilation VM whose state is in a store, or in a folder if t is nil.
func workerIn(t *team.Copy, n int) *record.Instance {
	state := t.NewState(fmt.Sprintf("%s-%d", manifest.CompilationGroup, n))
	return &record.Instance{Group: manifest.CompilationGroup, Index: n, State: state, Temporary: true}
}

// WorkersIn returns count compilation VMs of the deployment in a store, or in a folder if t
// is nil. Not all need to have a state.
func WorkersIn(t *team.Copy, count int) []*record.Instance {
	list := make([]*record.Instance, count)
	for n := range list {
		list[n] = workerIn(t, n)
	}
	return list
}

// Begin records that the VMs may exist, before there are any.
func (w *Workers) Begin(ctx context.Context) error { return w.of.Team.SaveWorkers(ctx, len(w.list)) }

// End records that all VMs are deleted.
func (w *Workers) End(ctx context.Context) error { return w.of.Team.RemoveWorkers(ctx) }

// At returns the options of VM n.
func (w *Workers) At(n int) (Options, error) {
	o := w.of
	o.Instance, o.OfAll, o.Deployment, o.AdoptFrom, o.OldMBus, o.OldCA = "", false, nil, "", "", ""
	o.Accept, o.Replacing = nil, nil
	err := o.Select(w.all, w.list[n])
	if err == nil {
		err = os.MkdirAll(filepath.Dir(o.StateFile), 0o700)
	}
	return o, err
}

// stateOfWorker matches the names of states that At has given; a killed run may have left
// only a lock.
var stateOfWorker = regexp.MustCompile(`^` + manifest.CompilationGroup + `-([0-9]+)(\.json(\.lock)?)?$`)

// WorkersLeft returns how many compilation VMs may have states on this machine or
// in the store, because a run was killed or is in progress.
func (o Options) WorkersLeft(ctx context.Context) (count int, err error) {
	if count, err = o.Team.Workers(ctx); err != nil {
		return 0, err
	}
	count = min(count, team.MostWorkers)
	entries, err := os.ReadDir(o.RecordFolder())
	if err != nil && !os.IsNotExist(err) {
		return 0, fmt.Errorf("cannot look for compilation VMs: %w", err)
	}
	for _, e := range entries {
		m := stateOfWorker.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		if n, err := strconv.Atoi(m[1]); err == nil && n < team.MostWorkers {
			count = max(count, n+1)
		}
	}
	return count, nil
}

// workersIn returns the compilation VMs whose states are in the folder of a
// deployment's record.
func workersIn(dir string) (list []*record.Instance) {
	entries, _ := os.ReadDir(dir) // the folder need not exist
	for _, e := range entries {
		m := stateOfWorker.FindStringSubmatch(e.Name())
		if m == nil || m[3] != "" { // a lock
			continue
		}
		state := e.Name()
		if e.IsDir() {
			state = team.InstanceState(state)
		}
		if n, err := strconv.Atoi(m[1]); err == nil && n < team.MostWorkers {
			list = append(list, &record.Instance{Group: manifest.CompilationGroup, Index: n, State: state, Temporary: true})
		}
	}
	return list
}

// Forget removes the folder of the states if it is empty.
func (w *Workers) Forget() { w.of.ForgetWorkers() }

// ForgetWorkers removes the folder of the states if it has nothing but a lock that a killed
// run has left.
func (o Options) ForgetWorkers() {
	dir := o.RecordFolder()
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 1 && entries[0].Name() == record.StemcellLock {
		lock, _ := lockfile.Try(filepath.Join(dir, record.StemcellLock)) // nil: another run uses it
		lock.Remove()
	}
	_ = os.Remove(dir)
}
