// Package ledger changes the address ledger on request: it adopts the addresses of
// existing deployments, and releases those of deleted ones.
package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/addresses"
	"bootstrap/deployer/instance"
	"bootstrap/manifest"
	"bootstrap/network"
	"bootstrap/state/file"
)

// Adopt records the addresses of existing VMs in the ledger, all or none, and returns the
// new reservations. The states are locked until it returns.
func Adopt(ctx context.Context, cfg instance.Config, from instance.Options, manifests []string) ([]network.Reservation, error) {
	env := instance.NewEnv(cfg)
	defer env.Close()
	manifests, err := instance.Distinct(manifests, from.StateFile)
	if err != nil {
		return nil, err
	}
	var instances []*instance.Instance
	var all []network.Reservation
	address := cfg.Database
	for _, path := range manifests {
		from.Manifest = path
		list, several, err := from.Each()
		if err != nil {
			return nil, err
		}
		for _, one := range list {
			if _, err := os.Stat(one.StateFile); several && errors.Is(err, fs.ErrNotExist) {
				continue // it was not created yet
			}
			t := instance.New(env, one)
			defer t.Close()
			claims, err := claimsOf(ctx, t)
			if err != nil {
				return nil, err
			}
			if address = cmp.Or(address, t.Addresses.LedgerAddress()); address != t.Addresses.LedgerAddress() {
				return nil, errors.New("the deployments have their addresses in different ledgers: name the manifests of one, or the ledger with --database")
			}
			instances, all = append(instances, t), append(all, claims...)
		}
	}
	ledger, err := env.Ledger(ctx, address)
	if err != nil {
		return nil, err
	}
	adopted, err := ledger.Adopt(ctx, all)
	if err != nil {
		return nil, env.Refused(err, address)
	}
	for _, t := range instances {
		if text := t.Addresses.LeavesLedger(); text != "" {
			t.Out.Warning(fmt.Sprintf("deployment %q: %s", t.About.Name, text))
		}
		if err := t.Addresses.RememberLedger(); err != nil {
			return adopted, err
		}
	}
	return adopted, nil
}

// claimsOf locks the state of a deployment, which must exist, and returns the
// addresses of its VM.
func claimsOf(ctx context.Context, t *instance.Instance) ([]network.Reservation, error) {
	path, err := file.Path(t.From.Manifest, t.From.StateFile)
	if err != nil {
		return nil, err
	}
	t.StatePath = path
	if found, err := file.Exists(path); err != nil {
		return nil, err
	} else if !found {
		return nil, t.From.Missing(ctx, path)
	}
	if err := t.Lock(ctx); err != nil {
		return nil, err
	}
	if err := t.Addresses.UnnamedLedger(); err != nil {
		return nil, err
	}
	in, wrong := t.ReadIfAny(ctx)
	var networks []network.Network
	switch {
	case wrong == nil && in.Manifest.Placement != nil:
		networks = in.Manifest.Placement.Networks
	case len(t.From.Inputs.CloudConfigs) > 0:
		only := t.From.Inputs
		only.Ops = nil // The operations belong to the manifest that describes the VM.
		if networks, err = manifest.LoadNetworks(ctx, only); err != nil {
			return nil, err
		}
	}
	if wrong != nil {
		if t.Known.Name == "" {
			return nil, wrong // The names of deployment and instance group are unknown then.
		}
		t.About = t.Known
	}
	return t.Addresses.Claims(networks), nil
}

// Selection says what Release releases.
type Selection struct {
	Words []string // addresses, names of deployments, installation ids
	Force bool     // also release addresses of an existing deployment
}

// Release releases addresses, or all addresses of deployments, and returns them. The
// deployments must not exist any more, unless what.Force is true. confirm gets a line for
// each address before anything is released; if it returns an error, nothing is released.
func Release(ctx context.Context, cfg instance.Config, what Selection, confirm func(context.Context, []string) error) ([]network.Reservation, error) {
	env := instance.NewEnv(cfg)
	defer env.Close()
	address := cmp.Or(cfg.Database, instance.LedgerPath(cfg.Home))
	ledger, err := env.LedgerToRead(ctx, address)
	if err != nil {
		return nil, err
	}
	all, err := ledger.List(ctx, addresses.Filter{})
	if err != nil {
		return nil, err
	}
	var chosen []network.Reservation
	var lines []string
	for _, text := range what.Words {
		found, err := selected(all, text)
		if err != nil {
			return nil, fmt.Errorf("%w, in the ledger %s", err, addresses.Place(address))
		}
		for _, r := range found {
			if slices.Contains(chosen, r) {
				continue
			}
			why := inUseBy(r, cfg.Home, strings.Contains(address, "://"))
			if why != "" && !what.Force {
				return nil, &InUseError{Reservation: r, Why: why}
			}
			chosen = append(chosen, r)
			lines = append(lines, fmt.Sprintf("address %s of %s is released%s; another deployment may get it", r.Block.Addr(), r.Owner, prefixed(", although ", why)))
		}
	}
	if err := confirm(ctx, lines); err != nil {
		return nil, err
	}
	return ledger.Release(ctx, chosen...)
}

func prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// InUseError says that an address belongs to an existing deployment.
type InUseError struct {
	Reservation network.Reservation
	Why         string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("cannot release %s of %s: %s; nothing was changed; delete the deployment with bootstrap delete, or add --force", e.Reservation.Block.Addr(), e.Reservation.Owner, e.Why)
}

func (e *InUseError) Name() string { return "address-held" }

// inUseBy returns why the deployment of a reservation may exist; empty: this machine
// would have a record of it, and has none.
func inUseBy(r network.Reservation, home string, shared bool) string {
	if info, err := os.Stat(filepath.Join(home, r.Owner.Deployment)); err == nil && info.IsDir() && r.Owner.Deployment != "" {
		return "the deployment still exists on this machine"
	}
	if shared && r.VM != "" {
		return fmt.Sprintf("VM %s has the address, and another machine may still use the deployment", r.VM)
	}
	return ""
}

// selected returns the reservations of an address, a deployment or an installation id.
func selected(all []network.Reservation, text string) ([]network.Reservation, error) {
	addr, _ := netip.ParseAddr(text)
	addr = addr.Unmap()
	block, _ := netip.ParsePrefix(text)
	if block.IsValid() {
		addr, block = block.Addr(), block.Masked()
	}
	ids := map[string]bool{}
	var found []network.Reservation
	for _, r := range all {
		if addr.IsValid() && r.Block.Contains(addr) && (block == netip.Prefix{} || r.Block == block) || !addr.IsValid() && (r.Owner.Name == text || r.Owner.Deployment == text) {
			found = append(found, r)
			ids[r.Owner.Deployment] = true
		}
	}
	switch {
	case len(found) == 0 && block.IsValid():
		return nil, fmt.Errorf("nobody has reserved the block %s as a whole: name each address", text)
	case len(found) == 0 && addr.IsValid():
		return nil, fmt.Errorf("nobody has the address %s", text)
	case len(found) == 0:
		return nil, fmt.Errorf("no deployment %q has an address", text)
	case len(ids) > 1:
		var owners []string
		for _, r := range found {
			owners = append(owners, fmt.Sprintf("%s of %s (%s)", r.Block.Addr(), r.Owner, r.Owner.Deployment))
		}
		return nil, fmt.Errorf("%q means several deployments: give the id of one in place of it: %s", text, strings.Join(owners, ", "))
	}
	return found, nil
}
