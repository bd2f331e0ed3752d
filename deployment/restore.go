package deployment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/deployment/dns"
	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
)

// Restored is the result of Restore.
type Restored struct {
	Version *record.Version // the new version
	Before  *record.Version // the version that it has replaced; nil: there was nothing to keep
	Notes   []string
}

// Restore makes a version of a deployment the present one: its record, and the states of its
// instances. The present one becomes a version, too. If the present one is the only record
// of a VM, disk or stemcell, the error is a *file.OwnsError, unless force is set. While the
// states are written, the record says so, and after a kill every command refuses it until the
// same command has run again.
func Restore(ctx context.Context, at Place, serial int, force bool) (*Restored, error) {
	unlock, err := at.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	vs := archivedOf(at.Dir(), at.Opts)
	list, err := vs.list(ctx)
	if err != nil {
		return nil, err
	}
	v, err := find(list, serial, at.Name)
	if err != nil {
		return nil, err
	}
	r := &restore{at: at, vs: vs, version: v, open: map[string]*file.Store{}}
	if now, err := vs.present(); err == nil && now != nil && list[0].Same(now) {
		r.ghosts = list[0].Deleted
	}
	defer r.close()
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	r.continueNames(list)
	only := r.lost()
	if len(only) > 0 && !force && !r.continues {
		return nil, &file.OwnsError{Path: at.Name, Owned: only}
	}
	done := &Restored{}
	if r.now != nil {
		if done.Before, err = vs.keepAs(ctx, nil, &record.Version{Only: only}, serial); err != nil {
			return nil, err
		}
	}
	if done.Version, err = r.write(ctx, list); err != nil {
		return nil, err
	}
	done.Notes = r.notes
	return done, nil
}

// restore restores a version.
type restore struct {
	at      Place
	vs      archived
	version *record.Version
	target  *record.Record // the record of the version, at the place
	now     *record.Record // the present record; nil: it is missing or damaged
	// continues is true if the same restore was interrupted: the states that it has replaced
	// are in a version already.
	continues bool
	open      map[string]*file.Store // states, locked, by the ids of their instances
	ghosts    []string               // resources of the present states that were deleted before
	notes     []string
}

func (r *restore) close() {
	for _, s := range r.open {
		s.Close()
	}
	r.open = nil
}

// look reads the present record, and locks the states of its instances and of those of the
// version.
func (r *restore) look(ctx context.Context) error {
	now, err := record.Load(r.vs.dir)
	_, restoring := errors.AsType[*record.RestoringError](err)
	switch _, moved := errors.AsType[*state.MovedError](err); {
	case moved:
		return err
	case (err == nil || restoring) && record.Exists(r.vs.dir):
		r.now = now
		r.continues = now.Restoring == r.version.Serial
	}
	r.target = r.version.Record.In(r.vs.dir, r.at.store(), r.stateName)
	r.target.Restoring, r.target.Run = 0, nil
	if r.now != nil {
		r.target.Serial = r.now.Serial
	}
	for _, all := range []*record.Record{r.target, r.now} {
		if all == nil {
			continue
		}
		for _, in := range slices.Concat(all.Instances, all.Former) {
			if r.open[in.ID] != nil {
				continue
			}
			path, _, opts, err := r.at.stateOf(all, in)
			if err == nil {
				err = all.CheckLink(in)
			}
			if err != nil {
				return err
			}
			if r.open[in.ID], err = file.OpenToReplace(ctx, path, opts); err != nil {
				delete(r.open, in.ID)
				return fmt.Errorf("%s: %w", in.Name(), err)
			}
		}
	}
	return nil
}

// lostVersions is how many versions of DNS records a run may have sent since the newest
// kept version of the deployment, if its record is lost.
const lostVersions = 1000

// continueNames makes the restored record continue the numbers of DNS names, and the
// versions of DNS records, after those of the present record and of all versions.
func (r *restore) continueNames(list []*record.Version) {
	var later []*dns.Names
	if r.now != nil {
		later = append(later, r.now.Names)
	}
	for _, v := range list {
		if v.Err == nil {
			later = append(later, v.Record.Names)
		}
	}
	names := r.target.Names.After(later...)
	if names != nil && r.now == nil {
		names.Version, names.Digest = names.Version+lostVersions, ""
	}
	r.target.Names = names
}

// stateName returns how the restored record names the state of an instance: as the present
// one does, else as the version does, unless that was in another place. The name need not be
// that of a new instance: a group may have been renamed since.
func (r *restore) stateName(in *record.Instance) string {
	if r.now != nil {
		for _, here := range slices.Concat(r.now.Instances, r.now.Former) {
			if here.ID == in.ID && (here.State == in.State || !filepath.IsAbs(here.State)) {
				return here.State
			}
		}
	}
	store := r.at.store()
	switch {
	case in.Beside():
		return record.Beside(r.at.Path)
	case filepath.IsAbs(in.State) && store == nil, in.Stored() == (store != nil):
		return in.State
	}
	return record.NewState(in, store)
}

// lost lists the resources that only the present states record, each with its instance.
// Without a present record, it reads the states that the version replaces.
func (r *restore) lost() []string {
	present := r.now
	if present == nil {
		present = r.target
	}
	kept := map[string]bool{}
	for id := range r.version.States {
		if st, err := file.Parse(r.version.States[id]); err == nil {
			for _, what := range st.Owned() {
				kept[resourceOf(what)] = true
			}
		}
	}
	var lost []string
	for _, in := range slices.Concat(present.Instances, present.Former) {
		s := r.open[in.ID]
		if r.stays(in.ID) || s.Damaged() != nil {
			continue
		}
		st := s.Get()
		for _, what := range st.Owned() {
			if name := resourceOf(what); !kept[name] && !slices.Contains(r.ghosts, name) {
				kept[name] = true // once, also for a stemcell of several
				lost = append(lost, what+" of "+in.Name())
			}
		}
	}
	return lost
}

// resourceOf returns an item of state.Owned without its use: an orphaned disk of one version
// may be the current one of another.
func resourceOf(what string) string { return strings.TrimSuffix(what, state.Kept) }

// stays reports whether the version has an instance, but not its state: it was not created,
// or its state was damaged. The present state stays.
func (r *restore) stays(id string) bool {
	_, has := r.version.States[id]
	return !has && slices.ContainsFunc(slices.Concat(r.target.Instances, r.target.Former), func(in *record.Instance) bool { return in.ID == id })
}

// write writes the states and the record, and returns the new version.
func (r *restore) write(ctx context.Context, list []*record.Version) (*record.Version, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	deleted := r.deleted()
	for _, in := range slices.Concat(r.target.Instances, r.target.Former) {
		data, has := r.version.States[in.ID]
		if !has {
			continue
		}
		if err := r.replace(ctx, in, data); err != nil {
			return nil, fmt.Errorf("%s: %w", in.Name(), err)
		}
	}
	if err := r.leave(); err != nil {
		return nil, err
	}
	r.target.Restoring = 0
	if err := r.target.Save(); err != nil {
		return nil, err
	}
	r.close() // The history of each state gets its new version.
	if err := r.settle(ctx, list); err != nil {
		return nil, err
	}
	return r.vs.keepAs(ctx, &r.at.Opts.Holder, &record.Version{Deleted: deleted}, 0)
}

// deleted lists the resources of the version that were deleted since.
func (r *restore) deleted() []string {
	var list []string
	for _, in := range slices.Concat(r.target.Instances, r.target.Former) {
		data := r.version.States[in.ID]
		if st, err := file.Parse(data); data != nil && err == nil {
			gone := r.open[in.ID].Deleted()
			for _, what := range st.Resources() {
				if slices.Contains(gone, what) {
					list = append(list, what)
				}
			}
		}
	}
	return list
}

// begin writes the record of the version with the note that its states are being restored.
func (r *restore) begin() error {
	if path := filepath.Join(r.vs.dir, record.FileName); r.now == nil && record.Exists(r.vs.dir) {
		if err := os.Rename(path, path+".damaged"); err != nil {
			return fmt.Errorf("cannot put the damaged record of the deployment aside: %w", err)
		}
		r.note("The damaged record is kept as %s.damaged", path)
	}
	r.target.Restoring = r.version.Serial
	return r.target.Save()
}

// replace replaces the state of an instance.
func (r *restore) replace(ctx context.Context, in *record.Instance, data []byte) error {
	st, err := file.Parse(data)
	if err != nil {
		return err
	}
	s := r.open[in.ID]
	if err := s.Replace(ctx, st, r.ghosts); err != nil {
		return err
	}
	for _, open := range st.Own.Intents {
		r.note("%s: in version %d, %s had not ended: the next run finds out its result", in.Name(), r.version.Serial, open.Method)
	}
	for _, note := range s.Notes() {
		r.note("%s: %s", in.Name(), note)
	}
	in.Whose(s.Get())
	return s.Unsent()
}

// leave removes the states of instances that the version does not have and that record
// nothing. Others stay where they are.
func (r *restore) leave() error {
	if r.now == nil {
		return nil
	}
	for _, in := range slices.Concat(r.now.Instances, r.now.Former) {
		_, has := r.version.States[in.ID]
		if has || r.stays(in.ID) {
			continue
		}
		s := r.open[in.ID]
		st := s.Get()
		if s.Found() && s.Damaged() == nil && len(st.Owned()) == 0 {
			if err := s.Remove(); err != nil {
				return fmt.Errorf("%s: %w", in.Name(), err)
			}
		} else if s.Found() || s.Damaged() != nil {
			r.note("Version %d does not have the instance %s: its state stays as %s", r.version.Serial, in.Name(), r.now.StatePath(in))
		}
	}
	return nil
}

// settle removes resources that the restored version records from the list of lost
// resources.
func (r *restore) settle(ctx context.Context, list []*record.Version) error {
	again := map[string]bool{}
	for _, what := range Owned(r.version) {
		again[strings.Replace(what, state.Kept, "", 1)] = true
	}
	var changed []*record.Version
	for _, v := range list {
		left := slices.DeleteFunc(slices.Clone(v.Only), func(what string) bool { return again[strings.Replace(what, state.Kept, "", 1)] })
		if len(left) != len(v.Only) {
			v.Only = left
			changed = append(changed, v)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return r.vs.setOnly(ctx, changed...)
}

func (r *restore) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}
