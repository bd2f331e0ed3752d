package deployment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// versions are the kept versions of a deployment: files in a folder, which is this machine's
// copy if they are in a store.
type versions struct {
	dir    string // of the record
	folder string
	opts   file.Options
}

func versionsOf(dir string, opts file.Options) versions {
	v := versions{dir: dir, folder: record.VersionsIn(dir), opts: opts}
	if opts.Team != nil {
		v.folder = record.CopiesIn(dir)
	}
	return v
}

// ownerFile returns a file with the owner of the versions; empty: they are this machine's copy.
func (vs versions) ownerFile() string {
	if vs.opts.Team != nil {
		return ""
	}
	return filepath.Join(vs.dir, record.FileName)
}

// KeepVersion keeps the record in a folder and the states of its instances as the newest
// version of the deployment, unless the newest one is the same. holder is the run that has
// changed them; nil: another one. The run must hold the lock of the deployment.
func KeepVersion(ctx context.Context, dir string, opts file.Options, holder *state.Holder) error {
	if opts.Team != nil && opts.Team.Record().Lost() != nil {
		return nil // The run that has the lock keeps it.
	}
	_, err := versionsOf(dir, opts).keepAs(ctx, holder, &record.Version{}, 0)
	return err
}

// keepAs is like KeepVersion. It returns the newest version, with the lists of resources
// of the given one.
// spare is the number of a version that is not removed although there are too many: a
// restore needs it, also after a kill; 0: none.
func (vs versions) keepAs(ctx context.Context, holder *state.Holder, with *record.Version, spare int) (*record.Version, error) {
	now, err := vs.present()
	if err != nil || now == nil {
		return nil, err
	}
	newest, err := vs.newest(ctx)
	if err != nil {
		return nil, err
	}
	if newest != nil && newest.Same(now) {
		if len(with.Only) == 0 {
			return newest, nil
		}
		newest.Only = with.Only
		return newest, vs.setOnly(ctx, newest)
	}
	now.Serial, now.Written, now.Only, now.Deleted = 1, time.Now().UTC().Truncate(time.Second), with.Only, with.Deleted
	if newest != nil {
		now.Serial = newest.Serial + 1
	}
	if holder != nil {
		now.By, now.Command = holder.Who(), holder.Command
	}
	if t := vs.opts.Team; t != nil {
		if unsent, err := t.Record().Unsent(); err != nil || unsent {
			return nil, err // The next run sends the record, and keeps it.
		}
		data, err := now.Encode()
		if err != nil {
			return nil, err
		}
		v := team.Version{Serial: now.Serial, Written: now.Written, By: now.By, Command: now.Command, Only: now.Only}
		if err := t.Record().KeepVersion(ctx, v, data, nil, nil, spare); err != nil {
			return nil, err
		}
	}
	if err := record.KeepVersion(vs.folder, now, vs.ownerFile()); err != nil {
		return nil, err
	}
	return now, record.PruneVersions(vs.folder, spare)
}

// present returns the record and the states as they are; nil: there is no record, or a
// restore has changed a part of them.
func (vs versions) present() (*record.Version, error) {
	if !record.Exists(vs.dir) {
		return nil, nil
	}
	r, err := record.Load(vs.dir)
	if _, restoring := errors.AsType[*record.RestoringError](err); restoring {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := &record.Version{Format: record.Format, Record: r, States: map[string]json.RawMessage{}}
	for _, in := range slices.Concat(r.Instances, r.Former) {
		data, err := file.ReadText(r.StatePath(in))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", in.Name(), err)
		case data == nil: // It was not created yet.
			continue
		}
		var compact bytes.Buffer
		if _, err := file.Parse(data); err != nil || json.Compact(&compact, data) != nil {
			v.Unreadable = append(v.Unreadable, in.ID)
			continue
		}
		v.States[in.ID] = compact.Bytes()
	}
	return v, nil
}

// newest returns the newest version; nil: there is none.
func (vs versions) newest(ctx context.Context) (*record.Version, error) {
	t := vs.opts.Team
	if t == nil {
		return record.NewestVersion(vs.folder), nil
	}
	h, err := t.Record().History(ctx)
	if err != nil || len(h.Versions) == 0 {
		return nil, err
	}
	return vs.pulled(ctx, h.Versions[0])
}

// pulled returns a version of the store, and copies it to this machine if it is not there.
func (vs versions) pulled(ctx context.Context, of team.Version) (*record.Version, error) {
	here := record.ReadVersion(vs.folder, of.Serial)
	if here.Err != nil || !here.Written.Equal(of.Written) || here.By != of.By {
		data, err := vs.opts.Team.Record().Earlier(ctx, of.Serial)
		if err != nil {
			return nil, err
		}
		if err := record.WriteVersion(vs.folder, of.Serial, data, ""); err != nil {
			return nil, err
		}
		here = record.ReadVersion(vs.folder, of.Serial)
	}
	here.Written, here.By, here.Command, here.Only = of.Written, of.By, of.Command, of.Only
	return here, nil
}

// list returns all versions, the newest first. It removes copies of versions that the store
// has pruned.
func (vs versions) list(ctx context.Context) ([]*record.Version, error) {
	t := vs.opts.Team
	if t == nil {
		return record.Versions(vs.folder), nil
	}
	h, err := t.Record().History(ctx)
	if err != nil {
		return nil, err
	}
	var list []*record.Version
	for _, of := range h.Versions {
		v, err := vs.pulled(ctx, of)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if len(list) < record.KeptVersions {
		return list, nil // A store does not prune so few: other copies may be all that is left of an emptied store.
	}
	for _, v := range record.Versions(vs.folder) {
		if !slices.ContainsFunc(list, func(of *record.Version) bool { return of.Serial == v.Serial }) {
			_ = os.Remove(v.Path) // The store does not keep it any more.
		}
	}
	return list, nil
}

// setOnly records of which resources versions are the only record.
func (vs versions) setOnly(ctx context.Context, list ...*record.Version) error {
	if t := vs.opts.Team; t != nil {
		only := map[int][]string{}
		for _, v := range list {
			only[v.Serial] = v.Only
		}
		return t.Record().SetOnly(ctx, only)
	}
	for _, v := range list {
		if err := record.KeepVersion(vs.folder, v, vs.ownerFile()); err != nil {
			return err
		}
	}
	return nil
}

// UnknownVersionError says that a deployment has no version with this number.
type UnknownVersionError struct {
	Serial int
	Name   string // of the place
}

func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("there is no version %d of the deployment %s: `bootstrap state backups MANIFEST` lists them", e.Serial, e.Name)
}

// find returns a version that can be used.
func find(list []*record.Version, serial int, name string) (*record.Version, error) {
	i := slices.IndexFunc(list, func(v *record.Version) bool { return v.Serial == serial })
	if i < 0 {
		return nil, &UnknownVersionError{Serial: serial, Name: name}
	}
	err := list[i].Err
	if err == nil {
		err = checkStates(list[i])
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use version %d of the deployment %s: %w; `bootstrap state backups MANIFEST` lists the others", serial, name, err)
	}
	return list[i], nil
}

// checkStates returns an error if a state of a version cannot be used: a restore would end
// after it has replaced others.
func checkStates(v *record.Version) error {
	for _, in := range slices.Concat(v.Record.Instances, v.Record.Former) {
		if data, has := v.States[in.ID]; has {
			if _, err := file.Parse(data); err != nil {
				return fmt.Errorf("the state of %s is damaged: %w", in.Name(), err)
			}
		}
	}
	return nil
}

// Versions returns the versions of the deployment at the place, the newest first, and
// whether the newest one is the present one.
func (p Place) Versions(ctx context.Context) (list []*record.Version, present bool, err error) {
	vs := versionsOf(p.Dir(), p.Opts)
	list, err = vs.list(ctx)
	if err != nil || len(list) == 0 {
		return list, false, err
	}
	now, err := vs.present()
	return list, err == nil && now != nil && list[0].Same(now), nil
}

// HasVersions reports whether versions of a deployment are kept at the place.
func (p Place) HasVersions(ctx context.Context) (bool, error) {
	newest, err := versionsOf(p.Dir(), p.Opts).newest(ctx)
	return newest != nil, err
}

// Owned lists the resources of the states of a version, each with its instance.
func Owned(v *record.Version) []string {
	var list []string
	for _, in := range slices.Concat(v.Record.Instances, v.Record.Former) {
		if st, err := file.Parse(v.States[in.ID]); err == nil && v.States[in.ID] != nil {
			for _, what := range st.Owned() {
				list = append(list, what+" of "+in.Name())
			}
		}
	}
	return list
}

// Finished reports whether the last deploy of each instance had finished when a version was
// kept. Ignored instances are left out.
func Finished(v *record.Version) bool {
	return v.Record.Run == nil && !slices.ContainsFunc(v.Record.Instances, func(in *record.Instance) bool {
		st, err := file.Parse(v.States[in.ID])
		return !in.Ignored && (err != nil || st.CurrentManifestSHA == "")
	})
}

// bringVersions copies the versions of a deployment to another place, and removes them from
// the folder where they were. Those that cannot be read stay there.
func bringVersions(ctx context.Context, from, to Place) error {
	old, new := versionsOf(from.Dir(), from.Opts), versionsOf(to.Dir(), to.Opts)
	list, err := old.list(ctx)
	if err != nil {
		return err
	}
	for _, v := range slices.Backward(list) {
		if v.Err != nil {
			if from.Opts.Warn != nil {
				from.Opts.Warn(fmt.Errorf("cannot move version %d of the deployment to %s: %w; it stays as %s", v.Serial, to.Name, v.Err, v.Path))
			}
			continue
		}
		data, err := v.Encode()
		if err != nil {
			return err
		}
		if t := to.Opts.Team; t != nil {
			of := team.Version{Serial: v.Serial, Written: v.Written, By: v.By, Command: v.Command, Only: v.Only}
			if err := t.Record().KeepVersion(ctx, of, data, nil, nil, 0); err != nil {
				return fmt.Errorf("cannot send the versions of the deployment to %s: %w; they stay in %s", to.Name, err, old.folder)
			}
		}
		if err := record.WriteVersion(new.folder, v.Serial, data, new.ownerFile()); err != nil {
			return err
		}
	}
	if from.Opts.Team != nil {
		return nil
	}
	for _, v := range list {
		if v.Err == nil {
			if err := os.Remove(v.Path); err != nil {
				return fmt.Errorf("cannot remove a version of the deployment that is in %s now: %w; run the same command again", to.Name, err)
			}
		}
	}
	_ = os.Remove(old.folder) // It stays if versions are left.
	return nil
}
