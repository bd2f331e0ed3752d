package secrets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/internal/sealed"
	"bootstrap/manifest/document"
	"bootstrap/manifest/store"
	"bootstrap/state/team"
)

// Place is the place of a vars store: a file, or the store of a team.
type Place struct {
	Path string // as the person wrote it, or path of this machine's copy
	Team *Team  // nil: it is a file
}

// Team is the store of a team that keeps a vars store beside a state.
type Team struct {
	Name  string // its address without passwords
	State string // its address for --state
	Save  func(ctx context.Context, sealed []byte) error
	Pull  func(ctx context.Context) error // copies the vars store from the store
	// Lock locks the store against other runs, and returns a function to unlock it.
	Lock func(ctx context.Context) (unlock func(), err error)
	// Rekey encrypts other secrets in the store for these recipients. If removes is set,
	// somebody may not read it any more: then everything is signed with a new key.
	Rekey func(ctx context.Context, keys *sealed.Keys, to []string, removes bool) error
	// Renewed ends a Rekey that removes somebody, after Save.
	Renewed func(ctx context.Context) (fingerprint string, err error)
	// Fingerprint returns that of the state key; empty: there is none yet.
	Fingerprint func(ctx context.Context) (string, error)
	// Share writes the state key to the store, encrypted for its readers.
	Share func(ctx context.Context, to []string) error
}

// open returns the vars store.
func (p Place) open(keys *sealed.Keys) (*store.File, error) {
	if p.Team != nil {
		f := store.At(p.Path, p.Team.Name, keys, p.Team.Save)
		f.State = p.Team.State
		return f, nil
	}
	return at(p.Path, keys)
}

// address returns the store of a team from the flag or the environment; empty: there is
// none.
func (c commands) address(flag string) string {
	if address := c.Getenv("BOOTSTRAP_STATE"); flag == "" && team.IsAddress(address) {
		return address
	}
	return flag
}

// oneStore requires one vars store: a file, or the store of a team.
func (c commands) oneStore(cmd *cobra.Command, args []string) error {
	address, _ := cmd.Flags().GetString("state")
	switch {
	case len(args) > 0 && address != "":
		return errors.New("a vars store and --state cannot be used together")
	case len(args) == 0 && c.address(address) != "":
		return nil
	case len(args) == 0:
		f, err := environment.Here(c.Getenv)
		if err != nil || len(f.Values("vars-store")) > 0 || slices.ContainsFunc(f.Values("state"), team.IsAddress) {
			return err
		}
	}
	switch len(args) {
	case 0:
		return fmt.Errorf("%s needs a vars store: %s", cli.ShortPath(cmd), cli.Form(cmd))
	case 1:
		return nil
	}
	return cli.TooMany(cmd, args)
}

// fromEnvironment adds settings of the environment to a command without a vars store: the vars
// store, and keys that decrypt it.
func (c commands) fromEnvironment(args []string, address string, keys *sealed.Keys) ([]string, string, error) {
	if len(args) > 0 || c.address(address) != "" {
		return args, c.address(address), nil
	}
	f, err := environment.Here(c.Getenv)
	if err != nil {
		return nil, "", err
	}
	keys.Identities = append(keys.Identities, f.Values("identity")...)
	if stores := f.Values("vars-store"); len(stores) > 0 {
		return stores, "", nil
	}
	return nil, strings.Join(f.Values("state"), ""), nil
}

// find returns the vars store in the store of a team.
func (c commands) find(ctx context.Context, address string, wait time.Duration, keys *sealed.Keys) (Place, error) {
	c.NameTarget(&deployer.Options{Options: instance.Options{StateFile: address}})
	t, err := c.OpenStore(ctx, address, instance.Config{LockWait: wait}, &instance.Options{Inputs: document.Options{Keys: keys}})
	if err != nil {
		return Place{}, err
	}
	keeps := &Team{Name: t.Place(), State: t.Argument(), Save: t.SaveVars, Pull: t.PullVars}
	keeps.Lock = func(ctx context.Context) (func(), error) {
		if _, err := t.Lock(ctx); err != nil {
			return nil, err
		}
		unlock := func() {
			if err := t.Unlock(context.WithoutCancel(ctx)); err != nil {
				c.Warn(err.Error())
			}
		}
		if err := t.PullVars(ctx); err != nil {
			unlock()
			return nil, err
		}
		return unlock, nil
	}
	keeps.Rekey = func(ctx context.Context, keys *sealed.Keys, to []string, removes bool) error {
		return instance.RekeyShared(ctx, t, keys, to, removes)
	}
	keeps.Fingerprint = func(ctx context.Context) (string, error) {
		_, fingerprint, err := t.KeyText(ctx)
		return fingerprint, err
	}
	keeps.Renewed = func(ctx context.Context) (string, error) {
		if err := t.KeyRenewed(ctx); err != nil {
			return "", err
		}
		return keeps.Fingerprint(ctx)
	}
	keeps.Share = func(ctx context.Context, to []string) error { return t.ShareKey(ctx, to, false) }
	return Place{Path: t.VarsPath(), Team: keeps}, nil
}
