package deployment

import (
	"context"
	"encoding/json"
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
	"bootstrap/state/versions"
)

// Restored is the result of Restore.
type Restored struct {
	Version *record.Version // the restored version; of several instances the new one
	Before  *record.Version // the version that it has replaced; nil: unknown, or a single state
	Notes   []string
}

// Restore makes a version of a deployment the present one: its record if there is one, and
// the states of its instances. The present one becomes a version, too. If the present one is
// the only record of a VM, disk or stemcell, the error is a *file.OwnsError, unless force is
// set. While the states of several instances are written, the record says so, and after a kill
// every command refuses it until the same command has run again.
func Restore(ctx context.Context, at Place, serial int, force bool) (*Restored, error) {
	if !at.One {
		unlock, err := at.lock(ctx)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	list, err := at.Versions(ctx)
	if err != nil {
		return nil, err
	}
	v, err := find(list, serial, at.Name)
	if err != nil {
		return nil, err
	}
	r := &restore{at: at, vs: archivedOf(at.Dir(), at.Opts), version: v, open: map[string]*file.Store{}}
	if r.docs, err = at.documents(ctx, v); err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	if list[0].Present {
		r.ghosts = list[0].Deleted
	}
	r.continueNames(list)
	only := r.lost()
	if len(only) > 0 && !force && !r.continues {
		return nil, &file.OwnsError{Path: at.Name, Owned: only}
	}
	done := &Restored{Version: v}
	if r.now != nil {
		if done.Before, err = r.vs.keepAs(ctx, nil, &record.Version{Only: only}, keeping{spare: serial}); err != nil {
			return nil, err
		}
	}
	deleted := r.deleted()
	if err := r.write(ctx); err != nil {
		return nil, err
	}
	if r.target != nil {
		if err := r.settle(ctx, list); err != nil {
			return nil, err
		}
		done.Version, err = r.vs.keepAs(ctx, &at.Opts.Holder, &record.Version{Deleted: deleted}, keeping{docs: r.docs})
	}
	done.Notes = r.notes
	return done, err
}

// restore restores a version.
type restore struct {
	at      Place
	vs      archived
	version *record.Version
	docs    versions.Documents // of the version, besides its states
	target  *record.Record     // the record of the version, at the place; nil: a single state
	now     *record.Record     // the present record; nil: it is missing or damaged, or a single state
	// wanted are the instances of the version, and present those of now; without a record
	// the same as wanted.
	wanted, present []subject
	// continues is true if the same restore was interrupted: the states that it has replaced
	// are in a version already.
	continues bool
	open      map[string]*file.Store // states, locked, by the ids of their instances
	ghosts    []string               // resources of the present states that were deleted before
	notes     []string
}

// subject is an instance whose state is replaced.
type subject struct {
	record.Part
	path string
	opts file.Options
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
	if r.version.Record == nil {
		r.wanted = []subject{{path: r.at.Path, opts: r.at.Opts}}
		r.present = r.wanted
		return r.lockAll(ctx)
	}
	now, err := record.Load(r.vs.dir)
	_, restoring := errors.AsType[*record.RestoringError](err)
	switch _, moved := errors.AsType[*state.MovedError](err); {
	case moved:
		return err
	case (err == nil || restoring) && record.Exists(r.vs.dir):
		r.now = now
		r.continues = now.Restoring == r.version.Serial
	}
	r.target = r.version.Record.In(r.vs.dir, r.at.Opts.Team, r.stateName)
	r.target.Restoring, r.target.Run = 0, nil
	if r.now != nil {
		r.target.Serial = r.now.Serial
	}
	if r.wanted, err = r.subjects(r.target); err != nil {
		return err
	}
	if r.present = r.wanted; r.now != nil {
		if r.present, err = r.subjects(r.now); err != nil {
			return err
		}
	}
	return r.lockAll(ctx)
}

// subjects returns the instances of a record.
func (r *restore) subjects(of *record.Record) (list []subject, err error) {
	for _, in := range slices.Concat(of.Instances, of.Former) {
		path, _, opts, err := r.at.stateOf(of, in)
		if err == nil {
			err = of.CheckLink(in)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, subject{record.Part{ID: in.ID, Name: in.Name()}, path, opts})
	}
	return list, nil
}

func (r *restore) lockAll(ctx context.Context) (err error) {
	// Those of the version come first: an edited record may name a file elsewhere.
	for _, in := range slices.Concat(r.wanted, r.present) {
		if r.open[in.ID] != nil {
			continue
		}
		if r.open[in.ID], err = file.OpenToReplace(ctx, in.path, in.opts); err != nil {
			delete(r.open, in.ID)
			return in.wrap(err)
		}
	}
	return nil
}

// wrap returns an error about the instance.
func (in subject) wrap(err error) error {
	if err == nil || in.Name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", in.Name, err)
}

// lostVersions is how many versions of DNS records a run may have sent since the newest
// kept version of the deployment, if its record is lost.
const lostVersions = 1000

// continueNames makes the restored record continue the numbers of DNS names, and the
// versions of DNS records, after those of the present record and of all versions.
func (r *restore) continueNames(list []*record.Version) {
	if r.target == nil {
		return
	}
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
	t := r.at.Opts.Team
	switch {
	case in.Beside():
		return record.Beside(r.at.Path)
	case in.Stored() == (t != nil):
		return in.State
	}
	return record.NewState(in, t)
}

// lost lists the resources that only the present states record, each with its instance.
// Without a present record, it reads the states that the version replaces.
func (r *restore) lost() []string {
	kept := map[string]bool{}
	for _, st := range statesIn(r.version) {
		for _, what := range st.Owned() {
			kept[resourceOf(what)] = true
		}
	}
	var lost []string
	for _, in := range r.present {
		s := r.open[in.ID]
		if r.stays(in.ID) || s.Damaged() != nil {
			continue
		}
		st := s.Get()
		for _, what := range st.Owned() {
			if name := resourceOf(what); !kept[name] && !slices.Contains(r.ghosts, name) {
				kept[name] = true // once, also for a stemcell of several
				lost = append(lost, in.Of(what))
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
	return !has && slices.ContainsFunc(r.wanted, func(in subject) bool { return in.ID == id })
}

// write writes the states, and the record before and after them if there is one. At the end
// no state is locked, because the history of each gets its new version then.
func (r *restore) write(ctx context.Context) error {
	if err := r.begin(); err != nil {
		return err
	}
	for _, in := range r.wanted {
		if data, has := r.version.States[in.ID]; has {
			if err := r.replace(ctx, in, data); err != nil {
				return in.wrap(err)
			}
		}
	}
	if r.target == nil {
		for name, data := range r.docs {
			r.open[""].Attach(name, data)
		}
	} else {
		if err := r.leave(); err != nil {
			return err
		}
		r.target.Restoring = 0
		if err := r.target.Save(); err != nil {
			return err
		}
	}
	r.close()
	return nil
}

// deleted lists the resources of the version that were deleted since.
func (r *restore) deleted() []string {
	var list []string
	states := statesIn(r.version)
	for _, in := range r.wanted {
		st := states[in.ID]
		gone := r.open[in.ID].Deleted()
		for _, what := range st.Resources() {
			if slices.Contains(gone, what) {
				list = append(list, what)
			}
		}
	}
	return list
}

// begin writes the record of the version with the note that its states are being restored.
func (r *restore) begin() error {
	if r.target == nil {
		return nil
	}
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
func (r *restore) replace(ctx context.Context, in subject, data json.RawMessage) error {
	st, err := file.Parse(data)
	if err != nil {
		return err
	}
	s := r.open[in.ID]
	if err := s.Replace(ctx, st, r.ghosts); err != nil {
		return err
	}
	for _, open := range st.Own.Intents { // Only later versions show how the call ended.
		r.note("%s", in.Says(fmt.Sprintf("In version %d, %s had not ended: the next run finds out its result", r.version.Serial, open.Method)))
	}
	for _, note := range s.Notes() {
		r.note("%s", in.Says(note))
	}
	r.saw(in.ID, s.Get())
	return s.Unsent()
}

// saw records whose the restored state of an instance is, for a deployment with a record.
func (r *restore) saw(id string, st state.State) {
	if r.target == nil {
		return
	}
	for _, in := range slices.Concat(r.target.Instances, r.target.Former) {
		if in.ID == id {
			in.Whose(st)
		}
	}
}

// leave removes the states of instances that the version does not have and that record
// nothing. Others stay where they are.
func (r *restore) leave() error {
	if r.now == nil {
		return nil
	}
	for _, in := range r.present {
		_, has := r.version.States[in.ID]
		if has || r.stays(in.ID) {
			continue
		}
		s := r.open[in.ID]
		st := s.Get()
		if s.Found() && s.Damaged() == nil && len(st.Owned()) == 0 {
			if err := s.Remove(); err != nil {
				return in.wrap(err)
			}
		} else if s.Found() || s.Damaged() != nil {
			r.note("Version %d does not have the instance %s: its state stays as %s", r.version.Serial, in.Name, in.path)
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

// archive returns the versions at the place.
func (p Place) archive() versions.Archive {
	if p.One {
		return p.Opts.Archive(p.Path)
	}
	return archivedOf(p.Dir(), p.Opts).archive
}

// documents returns the documents of a version besides its states.
func (p Place) documents(ctx context.Context, v *record.Version) (versions.Documents, error) {
	a := p.archive()
	l, err := a.List(ctx)
	if err != nil {
		return nil, err
	}
	of, _ := l.Find(v.Serial)
	docs := versions.Documents{}
	for _, name := range of.Attached {
		if docs[name], err = a.Read(ctx, v.Serial, name); err != nil {
			return nil, fmt.Errorf("cannot read the %s of version %d of the deployment %s: %w", name, v.Serial, p.Name, err)
		}
	}
	return docs, nil
}
