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
	Path string               // as the person wrote it, or path of this machine's copy
	Team *team.Copy           // keeps the vars store beside a state; nil: it is a file
	Warn func(message string) // reports that the store could not be unlocked
}

// open returns the vars store.
func (p Place) open(keys *sealed.Keys) (*store.File, error) {
	if p.Team != nil {
		f := store.At(p.Path, p.Team.Place(), keys, p.Team.SaveVars)
		f.State = p.Team.Argument()
		return f, nil
	}
	return at(p.Path, keys)
}

// lock locks the store of a team against other runs, and copies the vars store from it.
func (p Place) lock(ctx context.Context) (unlock func(), err error) {
	if _, err := p.Team.Lock(ctx); err != nil {
		return nil, err
	}
	unlock = func() {
		if err := p.Team.Unlock(context.WithoutCancel(ctx)); err != nil {
			p.Warn(err.Error())
		}
	}
	if err := p.Team.PullVars(ctx); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
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
	return Place{Path: t.VarsPath(), Team: t, Warn: c.Warn}, nil
}
