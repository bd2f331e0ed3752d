package team

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

// A deployment with several instances has parts in its store, each with a lock and a
// history: the record of the instances in deploymentFolder, and the state of each
// instance in a folder below that. All have the key and the vars store of the whole store.
const (
	deploymentFolder = "deployment/"
	recordDocument   = "deployment.json"
)

// alone is the State of the instance, in the record, that was the only one of its
// deployment: its state is the one of the whole store.
const alone = "../" + stateName

// instanceState is how the record names the states of other instances.
var instanceState = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/` + regexp.QuoteMeta(stateName) + `$`)

// notInName are the characters that the name of a document cannot have.
var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// InstanceState returns how the record names the state of a new instance with this name.
func InstanceState(name string) string {
	return strings.TrimLeft(notInName.ReplaceAllString(name, "-"), "._-") + "/" + stateName
}

// full returns the name of a document of the store at the place.
func (s *Store) full(name string) string {
	switch {
	case kindOf(name).scope == whole:
		return name
	case name == stateName && s.IsRecord():
		name = recordDocument
	}
	return s.folder + name
}

// instance returns the name of the instance whose state the store has; empty: it has none
// of several.
func (s *Store) instance() string {
	if s.folder == "" || s.folder == deploymentFolder {
		return ""
	}
	return path.Base(s.folder)
}

// part returns the store of a part. It may be used at the same time as the whole store,
// which is closed after it.
func (s *Store) part(folder string) *Store {
	p := &Store{docs: s.docs, place: s.place, argument: s.argument, cfg: s.cfg, folder: folder}
	p.cfg.Holder.Run = uuid.NewString()
	p.trust = &trust{store: p, path: s.trust.path}
	return p
}

// whole returns the copy of the whole store.
func (c *Copy) whole() *Copy {
	if c.root != nil {
		return c.root
	}
	return c
}

// RecordFolder returns the folder with this machine's copy of the record of a
// deployment with several instances, and of their states.
func (c *Copy) RecordFolder() string {
	if c == nil {
		return ""
	}
	return RecordIn(c.whole().dir)
}

// RecordIn returns the folder of the record in the folder of a copy.
func RecordIn(dir string) string {
	return filepath.Join(dir, strings.TrimSuffix(deploymentFolder, "/"))
}

// Record returns the copy of the record of a deployment with several instances. Its lock
// is that of the deployment.
func (c *Copy) Record() *Copy {
	if c == nil {
		return nil
	}
	whole := c.whole()
	if whole.record == nil {
		whole.record = whole.part(deploymentFolder, c.RecordFolder())
	}
	return whole.record
}

// Instance returns the copy of the state of an instance. state is its name in the record.
func (c *Copy) Instance(state string) (*Copy, error) {
	switch {
	case c == nil:
		return nil, nil
	case state == alone:
		return c.whole(), nil
	case !instanceState.MatchString(state):
		return nil, fmt.Errorf("cannot use the deployment state %s: its record names the state %q of an instance, which is not in the store", c.place, state)
	}
	return c.partIn(deploymentFolder + path.Dir(state) + "/"), nil
}

// partIn returns the copy of the part with a folder.
func (c *Copy) partIn(folder string) *Copy {
	switch scopeOf(folder) {
	case whole:
		return c.whole()
	case ofRecord:
		return c.Record()
	}
	return c.whole().part(folder, filepath.Join(c.RecordFolder(), path.Base(folder)))
}

func (c *Copy) part(folder, dir string) *Copy {
	p := copyIn(dir, c.Store.part(folder))
	p.root, p.last.Probed = c, p.last.Probed || c.last.Probed || c.record != nil && c.record.last.Probed
	return p
}

// mostAtOnce is for how many parts requests are sent at the same time.
const mostAtOnce = 8

// EachInstance calls do with the copy of the state of each instance, several at the same
// time. states are their names in the record. It returns the first error.
func (c *Copy) EachInstance(ctx context.Context, states []string, do func(context.Context, *Copy) error) error {
	parts := make([]*Copy, len(states))
	for i, state := range states {
		var err error
		if parts[i], err = c.Instance(state); err != nil {
			return err
		}
	}
	return each(ctx, parts, do)
}

// each calls do for several parts at the same time, and returns the first error.
func each(ctx context.Context, parts []*Copy, do func(context.Context, *Copy) error) error {
	errs := make([]error, len(parts))
	panicked := guard.Each(ctx, mostAtOnce, len(parts), func(i int) { errs[i] = do(ctx, parts[i]) })
	if panicked != nil {
		return panicked
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// LockParts locks all parts except the whole store, whose lock this run must hold, so that
// no other run uses any. The error is a *HeldError if one does.
func (c *Copy) LockParts(ctx context.Context) (unlock func() error, err error) {
	var parts []*Copy
	release := func() error {
		return each(context.WithoutCancel(ctx), parts, func(ctx context.Context, part *Copy) error { return part.Unlock(ctx) })
	}
	lock := func(list ...*Copy) error {
		parts = list
		return each(ctx, list, func(ctx context.Context, part *Copy) error { return part.lockExisting(ctx) })
	}
	// Only a run that has locked the record changes the list of the others.
	if err = lock(c.Record()); err == nil {
		var all []*Copy
		if all, err = c.Parts(ctx); err == nil {
			err = lock(slices.DeleteFunc(all, func(part *Copy) bool { return part == c.whole() })...)
		}
	}
	if err != nil {
		return nil, errors.Join(err, release())
	}
	return release, nil
}

// lockExisting locks a part, unless this run holds its lock. It makes no lock for a part
// without a state.
func (c *Copy) lockExisting(ctx context.Context) error {
	if c.lease != nil {
		return nil
	}
	d, err := c.raw(ctx, stateName)
	if err == nil && d.Version != "" {
		_, err = c.Lock(ctx)
		return err
	}
	held, failed := c.HeldByOther(ctx)
	if err = errors.Join(err, failed); err == nil && held != nil {
		err = held
	}
	return err
}

// Await waits until no run holds the lease. It calls waiting once before it waits.
func (s *Store) Await(ctx context.Context, waiting func(*HeldError)) error {
	seen, waits := sighting{}, false
	return wait.Poll(ctx, s.cfg.retry(), func() (ended bool, err error) {
		now, version, age, err := s.readLease(ctx)
		if err != nil || version == "" || now.Ended {
			return true, err
		}
		seen.age = age
		over, left := s.over(now, version, &seen)
		if !over && !waits {
			waiting(&HeldError{Place: s.Place(), Holder: now.Holder, Fence: now.Fence, Left: left})
			waits = true
		}
		return over, nil
	})
}

// Lost returns an error if this run has lost the lease, or does not hold it.
func (s *Store) Lost() error {
	if s.lease == nil {
		return errUnlocked
	}
	if lost := s.lease.Lost(); lost != nil {
		return lost
	}
	return nil
}

// HeldByOther returns who holds the lease; nil: nobody does, or one of the processes in mine
// on this machine. A lease that seems to have ended without renewal counts as free.
func (s *Store) HeldByOther(ctx context.Context, mine ...int) (*HeldError, error) {
	now, version, age, err := s.readLease(ctx)
	if err != nil || version == "" || now.Ended {
		return nil, err
	}
	seen := sighting{age: age}
	over, left := s.over(now, version, &seen)
	if over || now.Holder.Machine == s.cfg.Holder.Machine && slices.Contains(mine, now.Holder.PID) {
		return nil, nil
	}
	return &HeldError{Place: s.Place(), Holder: now.Holder, Fence: now.Fence, Left: left}, nil
}

// IsRecord reports whether the store has the record of a deployment with several
// instances, and no state.
func (s *Store) IsRecord() bool { return s.folder == deploymentFolder }

// recordIn returns the record in a version of a deployment, and its serial number. Earlier
// versions of the program kept only the record.
func recordIn(version []byte) (data []byte, serial int) {
	var kept struct{ Record json.RawMessage }
	if json.Unmarshal(version, &kept) == nil && kept.Record != nil {
		version = kept.Record
	}
	var r struct{ Serial int }
	if json.Unmarshal(version, &r) != nil {
		return nil, 0
	}
	return version, r.Serial
}

// Parts returns the copies of all parts, each of which has a lock of its own: the whole
// store, the record of a deployment with several instances, its instances and former ones,
// and compilation VMs. The store and this machine's copy name them; documents of the store
// that are not trusted name none.
func (c *Copy) Parts(ctx context.Context) ([]*Copy, error) {
	var parts []*Copy
	seen := map[string]bool{}
	visit := func(content func(name string) ([]byte, error)) error {
		return walk(func(name string, k kind) ([]byte, error) {
			if folder := strings.TrimSuffix(name, k.name); k.name == lockName && !seen[folder] {
				seen[folder] = true
				parts = append(parts, c.partIn(folder))
			}
			if k.parts == nil {
				return nil, nil
			}
			return content(name)
		})
	}
	of := c.whole()
	err := visit(func(name string) ([]byte, error) {
		d, err := of.load(ctx, name)
		if _, doubt := errors.AsType[*ProofError](err); doubt {
			return nil, nil
		}
		return d.Data, err
	})
	if err == nil {
		err = visit(of.copied)
	}
	return parts, err
}

// copied returns what this machine's copy of the whole store has of a document; nil:
// nothing.
func (c *Copy) copied(name string) ([]byte, error) {
	if name == workersName {
		n := 0
		for n < MostWorkers && fileExists(filepath.Join(c.RecordFolder(), filepath.FromSlash(WorkerState(n)))) {
			n++
		}
		return json.Marshal(workersDocument{VMs: n})
	}
	_, data, err := digestOf(filepath.Join(c.dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("cannot read this machine's copy of %s: %w", c.place, err)
	}
	return data, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// StatesIn returns the paths of the states in the folder of a copy, which need not exist:
// of the whole store, and of the instances of a deployment.
func StatesIn(dir string) []string {
	paths := []string{StateIn(dir)}
	entries, _ := os.ReadDir(RecordIn(dir)) // the folder need not exist
	for _, e := range entries {
		if e.IsDir() {
			paths = append(paths, StateIn(filepath.Join(RecordIn(dir), e.Name())))
		}
	}
	return paths
}
