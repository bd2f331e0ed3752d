package instance

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/deployment/record"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/wait"
	"bootstrap/state"
)

// siblingPause is how long an instance waits before it asks for the lock of another one
// again.
const siblingPause = 200 * time.Millisecond

// EndsDeployment reports whether the deployment is deleted together with the instance.
func (rec *Record) EndsDeployment() bool {
	return rec.From.Of == nil || rec.From.Of.Instance.Going == record.DeploymentDeleted
}

// LockSiblings waits until no other instance of the deployment uploads or deletes a
// stemcell: the instances share stemcells. The caller must call release. For the only
// instance of a manifest, it does nothing.
func (rec *Record) LockSiblings(ctx context.Context) (release func(), err error) {
	if rec.From.Of == nil {
		return func() {}, nil
	}
	dir := rec.From.Of.Record.Dir()
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot lock the stemcells of the deployment: %w", err)
	}
	for waiting := false; ; waiting = true {
		lock, err := lockfile.Try(filepath.Join(dir, record.StemcellLock))
		switch {
		case err != nil:
			return nil, fmt.Errorf("cannot lock the stemcells of the deployment: %w", err)
		case lock != nil:
			return lock.Remove, nil
		case !waiting:
			rec.Out.Info("Waiting for another instance, which uploads or deletes a stemcell")
		}
		if err := wait.For(ctx, siblingPause); err != nil {
			return nil, err
		}
	}
}

// siblings calls do with the state of each other instance of the deployment, until do
// returns true; then with those of compilation VMs: they keep their stemcell for
// the instances. Instances without a state are left out. err says why a state cannot be read.
func (rec *Record) siblings(do func(name string, st state.State, err error) bool) {
	if rec.From.Of == nil {
		return
	}
	all := rec.From.Of.Record
	others := slices.Clone(all.Instances)
	for _, in := range workersIn(all.Dir()) {
		if !slices.ContainsFunc(others, func(other *record.Instance) bool { return other.State == in.State }) {
			others = append(others, in)
		}
	}
	for _, other := range others {
		if other == rec.From.Of.Instance {
			continue
		}
		st, found, err := all.ReadState(other, rec.Env.Home)
		if (err != nil || found) && do(other.Name(), st, err) {
			return
		}
	}
}

// SiblingStemcell finds a stemcell by name and version that another instance of the
// deployment has uploaded, and returns the name of that instance. It ignores the stemcell
// with the CID gone, which does not exist any more.
func (rec *Record) SiblingStemcell(name, version, gone string) (by string, sc state.Stemcell, ok bool) {
	rec.siblings(func(other string, st state.State, _ error) bool {
		if has := st.FindStemcell(name, version); has != nil && has.CID != gone {
			by, sc, ok = other, *has, true
		}
		return ok
	})
	return by, sc, ok
}

// SiblingUses reports whether another instance of the deployment records the stemcell, or
// has a state that cannot be read, and names that instance.
func (rec *Record) SiblingUses(cid string) (by string, used bool) {
	rec.siblings(func(other string, st state.State, err error) bool {
		if err != nil {
			by, used = other, true
		}
		for _, sc := range st.Stemcells {
			if sc.CID == cid {
				by, used = other, true
			}
		}
		return used
	})
	return by, used
}
