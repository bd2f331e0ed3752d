package secrets

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bootstrap/cmd/environment"
	"bootstrap/deployer/instance"
	"bootstrap/internal/sealed"
	"bootstrap/manifest/store"
)

// Rekey has the arguments of bootstrap secrets rekey.
type Rekey struct {
	Store  Place
	Add    []string // recipients
	Remove []string // recipients, or their comments
	Keys   *sealed.Keys
}

// Run encrypts the vars store for other recipients. If none is added or removed, it only
// lists them.
func (k Rekey) Run(ctx context.Context) (*Result, error) {
	f, err := k.Store.open(k.Keys)
	if err != nil {
		return nil, err
	}
	if len(k.Add)+len(k.Remove) > 0 {
		unlock, err := k.Store.lock(ctx)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	if err := f.Lock(ctx); err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := read(ctx, f)
	if err != nil {
		return nil, err
	}
	before, former := f.To, ""
	if len(k.Add)+len(k.Remove) == 0 {
		return listed(&Result{Store: f.Shown, Recipients: before}, "%s is encrypted for %s:"), nil
	}
	if len(k.Remove) > 0 {
		if _, former, err = k.Store.Team.KeyText(ctx); err != nil {
			return nil, err
		}
	}
	f.To = slices.DeleteFunc(slices.Clone(before), func(r string) bool { return r == sealed.WithPassphrase })
	for _, gone := range k.Remove {
		n := len(f.To)
		f.To = slices.DeleteFunc(f.To, func(r string) bool { return sealed.Same(r, gone) || comment(r) == gone })
		if len(f.To) == n {
			return nil, fmt.Errorf("%s is not encrypted to %s; it is encrypted to: %s", f.Shown, gone, strings.Join(before, ", "))
		}
	}
	f.To = merge(f.To, k.Add)
	if len(f.To) == 0 {
		return nil, fmt.Errorf("cannot encrypt %s to nobody: add a recipient with --add", f.Shown)
	}
	data, err := k.Keys.Seal(ctx, f.Shown, text, f.To)
	if err != nil {
		return nil, err
	}
	if _, _, err := k.Keys.Open(ctx, f.Shown, data); err != nil {
		return nil, fmt.Errorf("you could not read %s any more, and nothing was changed: keep or add your own recipient, and let somebody else remove it (%w)", f.Shown, err)
	}
	// This comes first: if it fails, the same command can be run again.
	if err := instance.RekeyShared(ctx, k.Store.Team, k.Keys, f.To, len(k.Remove) > 0); err != nil {
		return nil, err
	}
	if err := f.Write(ctx, text); err != nil {
		return nil, err
	}
	r := listed(&Result{Store: f.Shown, Recipients: f.To, Changed: true}, "Encrypted %s for %s:")
	switch {
	case len(k.Remove) == 0:
	case k.Store.Team != nil:
		if err := k.renewKey(ctx, former, f, r); err != nil {
			return nil, err
		}
		r.say("The removed person can still read old copies, also those on their machine and in earlier versions that a bucket keeps. Rotate important values: bootstrap variables rotate MANIFEST %s NAME", f.Argument())
	default:
		r.say("The removed person can still read old copies, such as %s.previous. Rotate important values: bootstrap variables rotate", f.Shown)
	}
	return r, nil
}

// renewKey ends the trust in the former state key of a team's store.
func (k Rekey) renewKey(ctx context.Context, former string, f *store.File, r *Result) (err error) {
	if err := k.Store.Team.KeyRenewed(ctx); err != nil {
		return err
	}
	if _, r.StateKey, err = k.Store.Team.KeyText(ctx); err != nil {
		return err
	}
	return k.writeKey(former, f, r)
}

// writeKey writes the new state key of a team's store into the bootstrap.yml of this folder,
// if that names the former one.
func (k Rekey) writeKey(former string, f *store.File, r *Result) error {
	files, err := environment.NewStateKey(former, r.StateKey)
	if err == nil && len(files) > 0 {
		err = files[0].Write()
	}
	switch {
	case err != nil:
		return fmt.Errorf("the store is signed with a new state key, but bootstrap.yml still names the former one: write state_key: %s into it: %w", r.StateKey, err)
	case len(files) > 0:
		r.say("The store is signed with a new state key. %s names it now: %s. Commit that file, or let the others run: bootstrap state trust %s", files[0].Path, r.StateKey, f.Argument())
	default:
		r.say("The store is signed with a new state key, %s: write it into bootstrap.yml as state_key, or let the others run: bootstrap state trust %s", r.StateKey, f.Argument())
	}
	return nil
}
