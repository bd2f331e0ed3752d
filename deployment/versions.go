package deployment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/deployer/kept"
	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/versions"
)

// archived are the kept versions of a deployment. Those in a store have copies on this machine.
type archived struct {
	dir     string // of the record
	opts    file.Options
	archive versions.Archive
	here    versions.Folder // the archive, or the copies
	copied  bool            // here are copies
}

func archivedOf(dir string, opts file.Options) archived {
	vs := archived{dir: dir, opts: opts, copied: opts.Team != nil}
	vs.here = record.VersionsAt(record.VersionsIn(dir), filepath.Join(dir, record.FileName))
	if vs.copied {
		vs.here = record.VersionsAt(record.CopiesIn(dir), "")
	}
	vs.archive = opts.Team.Record().Archive(vs.here)
	return vs
}

// KeepVersion keeps the record in a folder and the states of its instances as the newest
// version of the deployment, unless the newest one is the same. holder is the run that has
// changed them; nil: another one. The run must hold the lock of the deployment.
func KeepVersion(ctx context.Context, dir string, opts file.Options, holder *state.Holder) error {
	if opts.Team.Record().Lost() != nil {
		return nil // The run that has the lock keeps it.
	}
	_, err := archivedOf(dir, opts).keepAs(ctx, holder, &record.Version{}, keeping{})
	return err
}

// keeping says how a version is kept.
type keeping struct {
	// docs are documents of the version; nil: the manifest that was applied last.
	docs versions.Documents
	// spare is the number of a version that is not removed although there are too many: a
	// restore needs it, also after a kill; 0: none.
	spare int
}

// keepAs is like KeepVersion. It returns the newest version, with the lists of resources
// of the given one.
func (vs archived) keepAs(ctx context.Context, holder *state.Holder, with *record.Version, how keeping) (*record.Version, error) {
	now, err := vs.present()
	if err != nil || now == nil {
		return nil, err
	}
	newest, err := vs.newest(ctx)
	if err == nil && newest != nil {
		err = vs.sendLost(ctx)
	}
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
	if unsent, err := vs.opts.Team.Record().Unsent(); err != nil || unsent {
		return nil, err // The next run sends the record, and keeps it.
	}
	data, err := now.Encode()
	if err != nil {
		return nil, err
	}
	v := versions.Version{Serial: now.Serial, Written: now.Written, By: now.By, Command: now.Command, Record: now.Record.Serial, Only: now.Only}
	docs := versions.Documents{versions.Manifest: vs.manifest(now)}
	if how.docs != nil {
		docs = maps.Clone(how.docs)
	}
	docs[versions.Snapshot] = data
	rules := versions.Rules{Spare: how.spare}
	if err := versions.Keep(ctx, vs.archive, v, docs, rules); err != nil {
		return nil, fmt.Errorf("cannot keep version %d of the deployment: %w", now.Serial, err)
	}
	if !vs.copied {
		return now, nil
	}
	return now, versions.Keep(ctx, vs.here, v, versions.Documents{versions.Snapshot: data}, rules)
}

// manifest returns the manifest without its secrets that was applied last to an instance of
// a version, as far as this machine has it; nil: it has none.
func (vs archived) manifest(v *record.Version) (sketch []byte) {
	var last time.Time
	for _, st := range statesIn(v) {
		if vs.opts.Home == "" || st.Own.Deployed == nil || st.Own.Deployed.Before(last) {
			continue
		}
		if text := kept.At(filepath.Join(vs.opts.Home, st.InstallationID)).SketchOf(st); text != nil {
			sketch, last = text, *st.Own.Deployed
		}
	}
	return sketch
}

// sendLost writes this machine's copies of versions to a store that has lost its history.
func (vs archived) sendLost(ctx context.Context) error {
	l, err := vs.archive.List(ctx)
	if err != nil || len(l.Versions) > 0 {
		return err
	}
	list, err := vs.copies(ctx)
	if err != nil || len(list) == 0 {
		return err
	}
	return versions.Copy(ctx, vs.here, vs.archive, versions.Rules{Leave: func(of versions.Version, snapshot []byte) bool {
		return record.DecodeVersion(snapshot, of).Err != nil
	}})
}

// copies returns this machine's copies of the versions of an archive that has none itself:
// none if the deployment was deleted in the store.
func (vs archived) copies(ctx context.Context) ([]*record.Version, error) {
	deleted, err := vs.opts.Team.Record().Deleted(ctx)
	if err != nil || deleted != nil {
		return nil, err
	}
	return record.Versions(vs.here.Dir), nil
}

// present returns the record and the states as they are; nil: there is no record, or a
// restore has changed a part of them.
func (vs archived) present() (*record.Version, error) {
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
		st, err := file.Parse(data)
		if err == nil {
			err = r.Owns(in)(st)
		}
		if err != nil || json.Compact(&compact, data) != nil {
			v.Unreadable = append(v.Unreadable, in.ID)
			continue
		}
		v.States[in.ID] = compact.Bytes()
	}
	return v, nil
}

// newest returns the newest version; nil: there is none.
func (vs archived) newest(ctx context.Context) (*record.Version, error) {
	l, err := vs.archive.List(ctx)
	if err != nil {
		return nil, err
	}
	of, has := l.Newest()
	if !has {
		list, err := vs.copies(ctx)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		return list[0], nil
	}
	data, err := vs.archive.Read(ctx, of.Serial, versions.Snapshot)
	v := record.DecodeVersion(data, of)
	switch {
	case err != nil && vs.copied:
		return nil, err
	case err != nil:
		v.Err = err
	}
	return v, nil
}

// list returns all versions, the newest first. It removes copies of versions that the store
// has removed.
func (vs archived) list(ctx context.Context) ([]*record.Version, error) {
	if !vs.copied {
		return record.Versions(vs.here.Dir), nil
	}
	err := versions.Pull(ctx, vs.archive, vs.here, func(there, here versions.Version) bool {
		return here.Written.Equal(there.Written) && here.By == there.By && record.ReadVersion(vs.here, here).Err == nil
	})
	if err != nil {
		return nil, err
	}
	l, err := vs.archive.List(ctx)
	if err != nil {
		return nil, err
	}
	if len(l.Versions) == 0 {
		return vs.copies(ctx)
	}
	var list []*record.Version
	for _, of := range l.Versions {
		list = append(list, record.ReadVersion(vs.here, of))
	}
	if len(list) < versions.Kept {
		return list, nil // A store does not prune so few: other copies may be all that is left of an emptied store.
	}
	var keep []int
	for _, v := range list {
		keep = append(keep, v.Serial)
	}
	return list, versions.Clear(ctx, vs.here, keep)
}

// setOnly records of which resources versions are the only record.
func (vs archived) setOnly(ctx context.Context, list ...*record.Version) error {
	only := map[int][]string{}
	for _, v := range list {
		only[v.Serial] = v.Only
	}
	return versions.SetOnly(ctx, vs.archive, only)
}

// UnknownVersionError says that a deployment has no version with this number.
type UnknownVersionError struct {
	Serial int
	Name   string // of the place
}

func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("there is no version %d of the deployment %s: `bootstrap state backups MANIFEST` lists those that are kept", e.Serial, e.Name)
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
	for _, part := range v.Parts() {
		if data, has := v.States[part.ID]; has {
			if _, err := file.Parse(data); err != nil {
				return fmt.Errorf("%s is damaged: %w", part.Of("the state"), err)
			}
		}
	}
	return nil
}

// Versions returns the versions of the deployment at the place, the newest first.
func (p Place) Versions(ctx context.Context) ([]*record.Version, error) {
	if p.One {
		return p.versionsOfOne(ctx)
	}
	vs := archivedOf(p.Dir(), p.Opts)
	list, err := vs.list(ctx)
	if err != nil || len(list) == 0 {
		return list, err
	}
	now, err := vs.present()
	list[0].Present = err == nil && now != nil && list[0].Same(now)
	return list, nil
}

// versionsOfOne returns the versions of a single state, from here or from the store.
func (p Place) versionsOfOne(ctx context.Context) ([]*record.Version, error) {
	if err := file.PullHistory(ctx, p.Opts.Team); err != nil {
		return nil, err
	}
	all, err := file.Versions(p.Path)
	if err != nil {
		return nil, err
	}
	var list []*record.Version
	for _, of := range all {
		v := &record.Version{
			Serial: of.Serial, Written: of.Written.UTC(), By: of.By, Command: of.Command, Only: of.Only, Attached: of.Attached,
			Path: of.Path, Err: of.Err, Present: of.Present,
		}
		if v.Err == nil {
			v.States, v.Err = statesOfOne(of.State)
		}
		list = append(list, v)
	}
	return list, nil
}

// statesOfOne returns the states of a version of a single state.
func statesOfOne(st state.State) (map[string]json.RawMessage, error) {
	data, err := st.Encode()
	return map[string]json.RawMessage{"": data}, err
}

// Sides returns versions with their manifests, to explain how they differ. list are all
// versions. A version without a manifest has that of another one which deployed the same.
func (p Place) Sides(ctx context.Context, list []*record.Version, of ...*record.Version) ([]Side, error) {
	a := p.archive()
	l, err := a.List(ctx)
	if err != nil {
		return nil, err
	}
	var sides []Side
	for _, v := range of {
		side := Side{Version: v}
		if v.Serial == 0 { // the present one
			side.Manifest = archivedOf(p.Dir(), p.Opts).manifest(v)
		}
		for _, other := range append([]*record.Version{v}, list...) {
			in, has := l.Find(other.Serial)
			if side.Manifest != nil || !has || !slices.Contains(in.Attached, versions.Manifest) || deployedBy(other) != deployedBy(v) {
				continue
			}
			if side.Manifest, err = a.Read(ctx, other.Serial, versions.Manifest); err != nil {
				return nil, fmt.Errorf("cannot read the manifest of version %d of the deployment %s: %w", other.Serial, p.Name, err)
			}
		}
		sides = append(sides, side)
	}
	return sides, nil
}

// deployedBy returns the digest of the manifest that was deployed last to an instance of a
// version; empty: unknown.
func deployedBy(v *record.Version) (digest string) {
	var last time.Time
	for _, st := range statesIn(v) {
		if at := st.Own.Deployed; at != nil && !at.Before(last) {
			digest, last = st.CurrentManifestSHA, *at
		}
	}
	return digest
}

// HasVersions reports whether versions of a deployment with a record are kept at the place.
func (p Place) HasVersions(ctx context.Context) (bool, error) {
	newest, err := archivedOf(p.Dir(), p.Opts).newest(ctx)
	return newest != nil, err
}

// Owned lists the resources of the states of a version, each with its instance.
func Owned(v *record.Version) []string {
	var list []string
	for _, part := range v.Parts() {
		if st, err := file.Parse(v.States[part.ID]); err == nil && v.States[part.ID] != nil {
			for _, what := range st.Owned() {
				list = append(list, part.Of(what))
			}
		}
	}
	return list
}

// Finished reports whether the last deploy of each instance had finished when a version was
// kept. Ignored instances are left out.
func Finished(v *record.Version) bool {
	if v.Record == nil {
		st, err := file.Parse(v.States[""])
		return err == nil && st.CurrentManifestSHA != ""
	}
	return v.Record.Run == nil && !slices.ContainsFunc(v.Record.Instances, func(in *record.Instance) bool {
		st, err := file.Parse(v.States[in.ID])
		return !in.Ignored && (err != nil || st.CurrentManifestSHA == "")
	})
}

// bringVersions copies the versions of a deployment to another place, and removes them from
// the folder where they were. Those that cannot be read stay there.
func bringVersions(ctx context.Context, from, to Place) error {
	old, new := archivedOf(from.Dir(), from.Opts), archivedOf(to.Dir(), to.Opts)
	var left []int
	rules := versions.Rules{Leave: func(of versions.Version, snapshot []byte) bool {
		v := record.DecodeVersion(snapshot, of)
		if v.Err == nil {
			return false
		}
		left = append(left, of.Serial)
		if from.Opts.Warn != nil {
			from.Opts.Warn(fmt.Errorf("cannot move version %d of the deployment to %s: %w; it stays as %s", of.Serial, to.Name, v.Err, old.here.Path(of.Serial, versions.Snapshot)))
		}
		return true
	}}
	if err := versions.Copy(ctx, old.archive, new.archive, rules); err != nil {
		return fmt.Errorf("cannot send the versions of the deployment to %s: %w; they stay in %s", to.Name, err, old.here.Dir)
	}
	if old.copied { // A store keeps its history.
		return nil
	}
	if err := versions.Clear(ctx, old.archive, left); err != nil {
		return fmt.Errorf("cannot remove a version of the deployment that is in %s now: %w; run the same command again", to.Name, err)
	}
	_ = os.Remove(old.here.Dir) // It stays if versions are left.
	return nil
}
