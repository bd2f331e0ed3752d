package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bootstrap/deployer"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/internal/failure"
	"bootstrap/state"
	"bootstrap/state/file"
)

// KeepInputs keeps the inputs of a deploy of all instances that has succeeded, so that it can
// be repeated.
func KeepInputs(ctx context.Context, opts deployer.Options, draft *Draft, p *Plan) {
	if err := keepInputs(ctx, opts, draft, p); err != nil {
		opts.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: fmt.Sprintf("%v; deploy --version cannot make this deploy again", err)})
	}
}

func keepInputs(ctx context.Context, opts deployer.Options, draft *Draft, p *Plan) error {
	if p.partial() || draft.deployment == nil { // Some instances were made from other inputs.
		return nil
	}
	var states []state.State
	for _, in := range draft.Record.Instances {
		st, _, err := file.Read(draft.Record.StatePath(in), opts.Home)
		if err != nil {
			return fmt.Errorf("%s: %w", in.Name(), err)
		}
		if st.CurrentManifestSHA != "" || !in.Ignored {
			states = append(states, st)
		}
	}
	var all []kept.Release
	for _, row := range p.Rows {
		for _, rel := range p.plans[row.ID].Contents {
			i := slices.IndexFunc(all, func(of kept.Release) bool { return of.Name == rel.Name })
			if i < 0 {
				i = len(all)
				all = append(all, kept.Release{Name: rel.Name, Version: rel.Version, Parts: map[string]string{}})
			}
			for part, fingerprint := range rel.Parts {
				all[i].Parts[part] = fingerprint
			}
		}
	}
	return deployer.KeepInputs(ctx, opts, draft.deployment, states, all)
}

// RepeatError says why a version of a deployment cannot be deployed again.
type RepeatError struct {
	Serial int    // 0: none is named
	Why    string // as in "its deploy did not finish"
	Can    []int  // the versions that can be deployed, the newest first
}

func (e *RepeatError) Error() string {
	text := fmt.Sprintf("cannot deploy version %d again: %s", e.Serial, e.Why)
	if e.Serial == 0 {
		text = "cannot deploy the previous version again: " + e.Why
	}
	return text + "; nothing was changed"
}

func (e *RepeatError) Name() string { return "version-not-deployable" }

func (e *RepeatError) ExitCode() failure.Code { return failure.NoState }

func (e *RepeatError) Hint() string {
	if len(e.Can) == 0 {
		return "no kept version can be deployed again: the next deploy that succeeds makes one that can"
	}
	return fmt.Sprintf("these versions can be deployed again: %s; `bootstrap state backups MANIFEST` shows them", listed(e.Can))
}

// listed joins numbers for a message.
func listed(list []int) string {
	text := ""
	for i, n := range list {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(n)
	}
	return text
}

// deployed is a version of a deployment, and what its deploy has made.
type deployed struct {
	serial int
	key    string // kept.Key of its states
	err    error  // why it cannot be read
}

// madeOf returns the key of the states of a version; empty: a state is damaged.
func madeOf(v *record.Version) string {
	var states []state.State
	read := func(data []byte, ignored bool) bool {
		var st state.State
		if data != nil {
			var err error
			if st, err = file.Parse(data); err != nil {
				return false
			}
		}
		if st.CurrentManifestSHA != "" || !ignored {
			states = append(states, st)
		}
		return true
	}
	if v.Record == nil {
		if !read(v.States[""], false) {
			return ""
		}
		return kept.Key(states)
	}
	for _, in := range v.Record.Instances {
		if !read(v.States[in.ID], in.Ignored) {
			return ""
		}
	}
	return kept.Key(states)
}

// allMade returns the versions of the deployment of the options, the newest first, and the
// key of the present states.
func allMade(ctx context.Context, opts deployer.Options) (list []deployed, now string, err error) {
	at := Place{Name: opts.StateName(opts.StateFile), Opts: file.Options{Home: opts.Home, Team: opts.Team, Holder: opts.Holder}}
	at.One = !record.Exists(opts.RecordFolder())
	if at.Path, err = file.Path(opts.Manifest, opts.StateFile); err != nil {
		return nil, "", err
	}
	versions, err := at.Versions(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, v := range versions {
		m := deployed{serial: v.Serial, err: v.Err}
		if v.Err == nil {
			m.key = madeOf(v)
		}
		list = append(list, m)
	}
	present, err := at.Present()
	if _, missing := errors.AsType[*file.MissingError](err); missing {
		return list, "", nil
	}
	if err == nil && present != nil {
		now = madeOf(present)
	}
	return list, now, err
}

// Repeat makes the options those of a deploy that is made from the inputs of a version.
func Repeat(ctx context.Context, opts *deployer.Options, serial int) error {
	list, _, err := allMade(ctx, *opts)
	if err != nil {
		return err
	}
	all, err := deployer.ReadInputs(ctx, *opts)
	if err != nil {
		return err
	}
	refused := &RepeatError{Serial: serial, Why: "there is no such version"}
	for _, v := range list {
		in, found := all.Find(v.key)
		if found {
			refused.Can = append(refused.Can, v.serial)
		}
		switch {
		case v.serial != serial:
		case found:
			opts.Again(in, fmt.Sprintf("version %d", serial))
			return nil
		case v.err != nil:
			refused.Why = "it cannot be read: " + v.err.Error()
		case v.key == "":
			refused.Why = "its deploy did not finish"
		default:
			refused.Why = "its manifest and values were not kept: an earlier bootstrap made it, or it has a change of only some instances, or it was made on another machine and its store has no recipients for whom they are encrypted"
		}
	}
	return refused
}

// RepeatPrevious is like Repeat for the last deploy that has succeeded, or if that is the
// present one, for the one before it. It returns the key of that deploy.
func RepeatPrevious(ctx context.Context, opts *deployer.Options) (key string, err error) {
	list, now, err := allMade(ctx, *opts)
	if err != nil {
		return "", err
	}
	all, err := deployer.ReadInputs(ctx, *opts)
	if err != nil {
		return "", err
	}
	present, known := all.Find(now)
	refused := &RepeatError{Why: "the manifest and values of no earlier deploy that has succeeded were kept"}
	for _, v := range list {
		in, found := all.Find(v.key)
		if !found {
			continue
		}
		refused.Can = append(refused.Can, v.serial)
		if v.key == now || known && in.Same(present) {
			continue
		}
		opts.Again(in, fmt.Sprintf("version %d", v.serial))
		return in.Key, nil
	}
	return "", refused
}

// RepeatKey is like Repeat for the deploy with a key. A run about several instances starts
// processes with it.
func RepeatKey(ctx context.Context, opts *deployer.Options, key string) error {
	all, err := deployer.ReadInputs(ctx, *opts)
	if err != nil {
		return err
	}
	in, found := all.Find(key)
	if !found {
		return &RepeatError{Why: "its manifest and values are not kept any more"}
	}
	opts.Again(in, "the version of "+report.Minute(in.Written))
	return nil
}
