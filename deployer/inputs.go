package deployer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/artifact"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	deployed "bootstrap/deployment/record"
	"bootstrap/internal/failure"
	"bootstrap/internal/sealed"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state"
	"bootstrap/state/file"
)

// Again makes the options those of a deploy that is made from the inputs of an earlier one.
// name is the earlier one in messages.
func (o *Options) Again(in kept.Deploy, name string) {
	in.Manifest.Name = name
	o.Repeats, o.Inputs.Recorded = &in, in.Manifest
}

// EarlierInputs are the inputs of the last deploys of a deployment.
type EarlierInputs struct {
	kept.Deploys
	readers []string // for whom they are encrypted; nil: they are not
}

// inputsName names the encrypted inputs of this machine in messages.
const inputsName = "what earlier deploys were made from"

// ReadInputs reads the inputs of the last deploys of a deployment: those that this machine
// has made, and those in the store of its state.
func ReadInputs(ctx context.Context, opts Options) (all EarlierInputs, err error) {
	in, err := inputsFolder(opts)
	if err != nil {
		return all, err
	}
	if all, _, err = inputsHere(ctx, in, opts.Inputs.Keys); err != nil {
		return all, err
	}
	return all, all.addStored(ctx, opts.Options)
}

// inputsHere reads the inputs that this machine has, and the place of the store that has got
// the same; empty: none.
func inputsHere(ctx context.Context, in kept.Folder, keys *sealed.Keys) (all EarlierInputs, store string, err error) {
	has, err := in.Inputs()
	if all.Deploys = has.All; err != nil || has.Sealed == nil {
		return all, has.Store, err
	}
	var text []byte
	if text, all.readers, err = keys.Open(ctx, inputsName, has.Sealed); err == nil {
		all.Deploys, err = kept.ParseInputs(text)
	}
	return all, has.Store, err
}

// keepHere writes the inputs to a folder of this machine, encrypted if they are. They are not
// kept if that needs a passphrase.
func (all EarlierInputs) keepHere(ctx context.Context, in kept.Folder, keys *sealed.Keys, store string) error {
	switch {
	case slices.Contains(all.readers, sealed.WithPassphrase):
		return nil
	case len(all.readers) == 0:
		return in.SetInputs(kept.InputsFile{All: all.Deploys, Store: store})
	}
	text, err := all.Encode()
	if err == nil {
		text, err = keys.Seal(ctx, inputsName, text, all.readers)
	}
	if err != nil {
		return err
	}
	return in.SetInputs(kept.InputsFile{Sealed: text, Store: store})
}

// TakeInputs adds inputs to those that this machine has of a deployment, after its state was
// moved.
func TakeInputs(ctx context.Context, opts Options, more EarlierInputs) error {
	in, err := inputsFolder(opts)
	if err != nil || len(more.Deploys) == 0 {
		return err
	}
	all, _, err := inputsHere(ctx, in, opts.Inputs.Keys)
	if err != nil {
		return err
	}
	more.Deploys = all.With(more.Deploys...)
	return more.keepHere(ctx, in, opts.Inputs.Keys, "")
}

// addStored adds the inputs that the store has.
func (all *EarlierInputs) addStored(ctx context.Context, from instance.Options) error {
	text, to, err := instance.ReadInputs(ctx, from.Team, from.Inputs.Keys)
	if err != nil {
		return err
	}
	stored, err := kept.ParseInputs(text)
	all.Deploys = all.With(stored...)
	if len(all.readers) == 0 {
		all.readers = to
	}
	return err
}

// inputsFolder returns the folder of this machine for the inputs of a deployment.
func inputsFolder(opts Options) (kept.Folder, error) {
	if dir := opts.RecordFolder(); deployed.Exists(dir) {
		return kept.OfSeveral(opts.Home, dir), nil
	}
	path, err := file.Path(opts.Manifest, opts.StateFile)
	if err != nil {
		return kept.Folder{}, err
	}
	st, found, err := file.Read(path, opts.Home)
	if err != nil || !found {
		return kept.At(filepath.Join(opts.Home, "none")), err
	}
	return kept.At(filepath.Join(opts.Home, st.InstallationID)), nil
}

// KeepInputs keeps the inputs of a deploy of several instances that has succeeded. states are
// those of all instances, and contents the releases that they use.
func KeepInputs(ctx context.Context, opts Options, d *manifest.Deployment, states []state.State, contents []kept.Release) error {
	in, err := inputsFolder(opts)
	if err != nil {
		return err
	}
	t := newRun(opts).t
	k := keeping{folder: in, from: opts.Options, shared: t.Shared, out: t.Out, readers: d.Common.StoreReaders}
	return k.keep(ctx, states, contents, d.Record)
}

// keepInputs keeps the inputs of a deploy of the only instance that has succeeded. If that
// fails, the deploy cannot be repeated with --version.
func (r *run) keepInputs(ctx context.Context) {
	if r.t.From.Of != nil { // The run of all instances keeps them.
		return
	}
	m := r.in.Manifest
	k := keeping{folder: r.t.Folder(), from: r.t.From, shared: r.t.Shared, out: r.t.Out, readers: m.StoreReaders}
	if err := k.keep(ctx, []state.State{r.t.State.Get()}, contentsOf(r.artifacts.Releases), m.Record); err != nil {
		r.t.Out.Warning(fmt.Sprintf("%v; deploy --version cannot make this deploy again", err))
	}
}

// keeping is where the inputs of deploys are kept.
type keeping struct {
	folder  kept.Folder
	from    instance.Options // a store of the state gets them, too
	shared  *instance.Shared
	out     *report.Output
	readers []string // recipients of the vars store; nil: it is not encrypted
}

// keep adds a deploy to those on this machine and in the store, unless it is there.
func (k keeping) keep(ctx context.Context, states []state.State, contents []kept.Release, record func() (*document.Recorded, error)) error {
	next := kept.Deploy{Key: kept.Key(states), Written: time.Now().UTC().Truncate(time.Second), Releases: contents}
	if next.Key == "" {
		return nil
	}
	var err error
	if next.Manifest, err = record(); err != nil {
		return err
	}
	keys := k.from.Inputs.Keys
	all, store, err := inputsHere(ctx, k.folder, keys)
	if err != nil {
		return err
	}
	encrypted := slices.Equal(all.readers, k.readers)
	place := k.from.Team.Place()
	if old, found := all.Find(next.Key); found && encrypted && old.Same(next) && store == place {
		return nil
	}
	if err := all.addStored(ctx, k.from); err != nil {
		return err
	}
	all.Deploys, all.readers = all.With(next), k.readers
	if err := all.keepHere(ctx, k.folder, keys, ""); err != nil {
		return err
	}
	text, err := all.Encode()
	if err != nil {
		return err
	}
	sent, err := k.shared.SendInputs(ctx, text, k.readers)
	if err != nil || !sent { // Without recipients, only this machine has them.
		return err
	}
	return all.keepHere(ctx, k.folder, keys, place)
}

// ForgetInputs removes the inputs of the deploys of a deployment that was deleted. dir is the
// folder of its record, if it had several instances.
func ForgetInputs(ctx context.Context, opts Options, dir string) error {
	if err := opts.Team.RemoveInputs(ctx); err != nil {
		return err
	}
	return kept.OfSeveral(opts.Home, dir).ForgetInputs()
}

// contentsOf returns the contents of releases.
func contentsOf(releases map[string]*artifact.Release) []kept.Release {
	var list []kept.Release
	for _, rel := range releases {
		of := kept.Release{Name: rel.Name, Version: rel.Version, Parts: map[string]string{}}
		for _, job := range rel.Jobs {
			of.Parts["job "+job.Name] = job.Fingerprint
		}
		for _, p := range rel.Packages {
			of.Parts["package "+p.Name] = p.Fingerprint
		}
		list = append(list, of)
	}
	slices.SortFunc(list, func(a, b kept.Release) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// ReleaseChangedError says that the content of a release is another one than that of the
// deploy that is to be repeated.
type ReleaseChangedError struct {
	Release, URL string
	Part         string // such as "job web"
	Of           string // the deploy that is to be repeated
}

func (e *ReleaseChangedError) Error() string {
	return fmt.Sprintf("cannot deploy %s again: the release %s at %s has changed since: its %s differs; nothing was changed", e.Of, e.Release, e.URL, e.Part)
}

func (e *ReleaseChangedError) Name() string { return "release-changed" }

func (e *ReleaseChangedError) ExitCode() failure.Code { return failure.Moved }

func (e *ReleaseChangedError) Hint() string {
	return "put back the release as it was, for example from git, and run the same command again; or deploy the manifest as it is now"
}

// refuseChanged returns a *ReleaseChangedError if a release does not have the content that it
// had in the deploy that is repeated.
func (r *run) refuseChanged(a *instance.Artifacts) error {
	was := r.t.From.Repeats
	if was == nil {
		return nil
	}
	now := contentsOf(a.Releases)
	for _, old := range was.Releases {
		i := slices.IndexFunc(now, func(of kept.Release) bool { return of.Name == old.Name })
		if i < 0 {
			continue
		}
		for _, part := range slices.Sorted(maps.Keys(now[i].Parts)) {
			if had, has := old.Parts[part]; has && had != now[i].Parts[part] {
				return &ReleaseChangedError{Release: old.Name, URL: r.urlOf(old.Name), Part: part, Of: was.Manifest.Name}
			}
		}
	}
	return nil
}

// urlOf returns the URL of a release of the manifest.
func (r *run) urlOf(release string) string {
	i := slices.IndexFunc(r.in.Manifest.Releases, func(of manifest.Release) bool { return of.Name == release })
	if i < 0 {
		return ""
	}
	return r.in.Manifest.Releases[i].URL
}
