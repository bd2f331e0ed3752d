package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"bootstrap/addresses"
	"bootstrap/deployer/kept"
	"bootstrap/network"
	"bootstrap/state"
	"bootstrap/state/file"
)

// Ledger returns the address ledger at a path or a postgres:// URL. The first call opens
// it, and Close closes it.
func (e *Env) Ledger(ctx context.Context, address string) (*addresses.Ledger, error) {
	if ledger := e.ledgers[address]; ledger != nil {
		return ledger, nil
	}
	ledger, err := addresses.Open(ctx, address, time.Now)
	if err != nil {
		return nil, err
	}
	if e.ledgers == nil {
		e.ledgers = map[string]*addresses.Ledger{}
	}
	e.ledgers[address] = ledger
	return ledger, nil
}

// Distinct returns the manifests in the order of their states, without manifests that
// share a state: runs that lock several states must not wait for each other. state is the
// path of the state, if there is only one manifest; it may be empty.
func Distinct(manifests []string, state string) ([]string, error) {
	of := map[string]string{}
	for _, manifest := range manifests {
		path, err := file.Path(manifest, state)
		if err != nil {
			return nil, err
		}
		if _, known := of[path]; !known {
			of[path] = manifest
		}
	}
	var list []string
	for _, path := range slices.Sorted(maps.Keys(of)) {
		list = append(list, of[path])
	}
	return list, nil
}

// LedgerPath returns the path of the default ledger.
func LedgerPath(home string) string { return filepath.Join(home, "addresses.db") }

// LedgerAddress returns the ledger of the deployment: that of the command line, the
// recorded one, or the default one.
func (a *Addresses) LedgerAddress() string {
	return cmp.Or(a.rec.Env.Database, a.rec.Known.Database, LedgerPath(a.rec.Env.Home))
}

// Ledger returns the ledger of the deployment.
func (a *Addresses) Ledger(ctx context.Context) (*addresses.Ledger, error) {
	a.rec.Env.Secret(addresses.Secrets(a.LedgerAddress())...)
	if err := cmp.Or(a.UnnamedLedger(), a.LostLedger()); err != nil {
		return nil, err
	}
	return a.rec.Env.Ledger(ctx, a.LedgerAddress())
}

// recordedLedger returns the ledger in the state; empty: the state has none.
func (a *Addresses) recordedLedger() string {
	if a.rec.State == nil {
		return ""
	}
	return a.rec.State.Get().Own.Ledger
}

// SharedLedger returns LedgerAddress in the form for the state.
func (a *Addresses) SharedLedger() string { return addresses.Shared(a.LedgerAddress()) }

// UnnamedLedger returns an error if the state says that a team's database has the
// addresses, and nobody has named that database on this machine.
func (a *Addresses) UnnamedLedger() error {
	recorded := a.recordedLedger()
	if !strings.Contains(recorded, "://") || a.rec.Env.Database != "" || recorded == a.SharedLedger() {
		return nil
	}
	return fmt.Errorf("the state records that the addresses of this deployment are in the ledger %s: name that with --database or BOOTSTRAP_DATABASE", recorded)
}

// LostLedger returns an error if the file of the deployment's ledger is missing.
func (a *Addresses) LostLedger() error {
	if a.LedgerLost() {
		return &addresses.Error{Ledger: a.LedgerAddress(), Kind: addresses.Gone, Detail: "it does not exist, although this deployment has addresses in it"}
	}
	return nil
}

// LedgerLost reports whether the file of the deployment's ledger is missing. A new ledger
// would offer the addresses of other deployments.
func (a *Addresses) LedgerLost() bool {
	path := a.LedgerAddress()
	return path == a.rec.Known.Database && IsMissing(path)
}

// IsMissing reports whether the ledger at the address is a file that does not
// exist.
func IsMissing(address string) bool {
	if strings.Contains(address, "://") {
		return false
	}
	_, err := os.Stat(address)
	return errors.Is(err, fs.ErrNotExist)
}

// OldLedgers returns earlier ledgers of the deployment, which may still have addresses of
// it.
func (a *Addresses) OldLedgers() []string {
	var list []string
	for _, address := range append([]string{cmp.Or(a.rec.Known.Database, a.recordedLedger())}, a.rec.Known.OldDatabases...) {
		known := func(other string) bool { return addresses.Same(address, other) || addresses.Shared(other) == address }
		if address == "" || known(a.LedgerAddress()) || slices.ContainsFunc(list, known) {
			continue
		}
		a.rec.Env.Secret(addresses.Secrets(address)...)
		list = append(list, address)
	}
	return list
}

// LeavesLedger returns a warning if the deployment changes its ledger; empty: it does
// not.
func (a *Addresses) LeavesLedger() string {
	left := cmp.Or(a.rec.Known.Database, a.recordedLedger())
	if !slices.Contains(a.OldLedgers(), left) {
		return ""
	}
	if IsMissing(left) {
		if a.rec.Known.Database != "" {
			return ""
		}
		return fmt.Sprintf("until now, this deployment had its addresses in the ledger %s of another machine. They stay reserved there until they are released there: bootstrap addresses release %s --force", left, a.rec.Installation)
	}
	place := addresses.Place(left)
	return fmt.Sprintf("until now, this deployment had its addresses in the ledger %s. They stay reserved there, too, so that no other deployment of that ledger gets them, until bootstrap delete releases them. To release them before: bootstrap addresses release %s --database %s --force", place, a.rec.Installation, place)
}

// LedgerToRead returns the ledger at an address for a run that changes nothing: an empty
// one in memory if the file does not exist.
func (e *Env) LedgerToRead(ctx context.Context, address string) (*addresses.Ledger, error) {
	e.Secret(addresses.Secrets(address)...)
	if e.Offline || IsMissing(address) {
		return addresses.Memory(nil, nil, time.Now)
	}
	return e.Ledger(ctx, address)
}

// UsesLedger reports whether the ledger may have addresses of the deployment.
func (a *Addresses) UsesLedger() bool {
	return a.rec.read != nil && a.rec.read.Manifest.SharesNetworks() || a.rec.Known.Database != "" || len(a.rec.Known.OldDatabases) > 0 || a.recordedLedger() != ""
}

// asked is a request to the ledger.
type asked struct {
	networks []network.Network
	network.Instance
}

// question returns the request of the deployment to the ledger. It claims the VM's
// addresses in the state and on this machine, so that a VM that was created without a
// ledger keeps them. replace is true if the VM is replaced for another reason than its
// addresses, swap if the new VM is created before the old one is deleted.
func (a *Placement) question(replace, swap bool) asked {
	p := a.in.Manifest.Placement
	in := asked{networks: p.Networks, Instance: network.Instance{
		Owner:   a.Owner(),
		Zone:    a.zone(),
		Wishes:  p.Group.Wishes,
		Replace: replace, Swap: swap && a.Kept() == "",
		LastKnown: map[string]netip.Addr{},
		Chosen:    map[string]netip.Addr{},
	}}
	for name, block := range a.recordedBlocks() {
		in.Chosen[name] = block.Addr()
	}
	if a.rec.State == nil {
		in.Held = a.recordedHeld(in.Instance)
		return in
	}
	st := a.rec.State.Get()
	in.VM = st.CurrentVMCID
	if old := st.Own.Swap; old != nil {
		in.Orphans = []string{old.CID}
	}
	for _, w := range p.Group.Wishes {
		addr, ok := a.addressOn(w)
		if !ok && p.Own && in.VM != "" {
			addr, ok = a.reported(w)
		}
		n, found := network.Find(p.Networks, w.Network)
		switch {
		case !ok || !found || p.Own && a.renamed(w.Network, addr):
		case n.Type == network.Dynamic:
			in.LastKnown[w.Network] = addr
		default:
			in.Held = append(in.Held, network.Reservation{
				Scope: n.Scope, Block: p.Block(w.Network, addr), Owner: in.Owner, Network: w.Network, Kind: network.Automatic, VM: in.VM,
			})
		}
	}
	in.Held = a.recordedHeld(in.Instance)
	return in
}

// zone returns the zone of the instance: the recorded one, if the manifest and the static
// addresses allow it, or the manifest's choice.
func (a *Placement) zone() string {
	p := a.in.Manifest.Placement
	if p.Own || a.in.Manifest.Identity != nil || a.rec.State == nil || a.rec.State.Get().Own.Zone == "" {
		return p.Zone
	}
	was := network.Member{Instance: a.in.Manifest.Instance(), Zone: a.rec.State.Get().Own.Zone}
	members, err := network.Place(network.ByName(p.Networks), p.Group, []network.Member{was})
	if err != nil || len(members) != 1 {
		return p.Zone
	}
	return members[0].Zone
}

// Networks returns the networks of the deployment.
func (a *Placement) Networks() []network.Network { return a.in.Manifest.Placement.Networks }

// Wanted returns the deployment's part of the request. A new deployment is named by the
// path of its state.
func (a *Placement) Wanted() network.Instance {
	in := a.question(false, a.in.Manifest.Update.VMStrategy == "create-swap-delete").Instance
	if a.rec.Installation == uuid.Nil {
		in.Owner.Deployment = a.rec.From.StateName(a.rec.StatePath)
	}
	return in
}

// Claims returns the addresses of the deployment's VM, according to this machine's record
// of the last deploy, or to the state. It looks for a network by name, and then by range;
// networks may be empty.
func (a *Addresses) Claims(networks []network.Network) []network.Reservation {
	st := a.rec.State.Get()
	if st.CurrentVMCID == "" {
		return nil
	}
	has := map[string]netip.Addr{}
	if applied, ok := a.rec.Folder().Applied(kept.Current); ok && applied.VM == st.CurrentVMCID {
		for name, settings := range applied.Spec.Networks {
			text, _ := settings["ip"].(string)
			if addr, err := netip.ParseAddr(text); err == nil && settings["type"] != string(network.Dynamic) {
				has[name] = addr
			}
		}
	} else if addr, err := netip.ParseAddr(st.Own.Address); err == nil {
		has[""] = addr
	}
	owner := a.Owner()
	if a.rec.About.Group == "" {
		owner.Instance = kept.Deployment{Group: st.Own.Group}.Instance()
	}
	var list []network.Reservation
	for _, name := range slices.Sorted(maps.Keys(has)) {
		r := network.Reservation{
			Block: netip.PrefixFrom(has[name], has[name].BitLen()), Owner: owner, Network: name, Kind: network.Static, VM: st.CurrentVMCID,
		}
		if n, ok := network.Holding(networks, name, has[name]); ok {
			r.Scope, r.Network = n.Scope, n.Name
			r.Block, r.Kind = n.Claim(has[name])
		}
		list = append(list, r)
	}
	return list
}

// RememberLedger records the ledger in the state and on this machine.
func (a *Addresses) RememberLedger() error {
	address, old := a.LedgerAddress(), a.OldLedgers()
	if place := a.SharedLedger(); place != a.recordedLedger() {
		if err := a.rec.State.Update(func(st *state.State) error { st.Own.Ledger = place; return nil }); err != nil {
			return err
		}
	}
	if a.rec.Known.Database == address {
		return nil
	}
	k, _ := a.rec.Folder().Deployment()
	k.Database, k.OldDatabases = address, old
	if err := a.rec.Folder().SetDeployment(k); err != nil {
		return fmt.Errorf("cannot write this machine's record of the deployment: %w", err)
	}
	a.rec.Known.Database, a.rec.Known.OldDatabases = address, old
	return nil
}

// addressOn returns the VM's address on a network, if it is recorded.
func (a *Addresses) addressOn(w network.Wish) (netip.Addr, bool) {
	st := a.rec.State.Get()
	if st.CurrentVMCID == "" {
		return netip.Addr{}, false
	}
	if addr, ok := a.ofVM(w.Network); ok {
		return addr, true
	}
	if applied, ok := a.rec.Folder().Applied(kept.Current); ok && applied.VM == st.CurrentVMCID {
		if ip, ok := applied.Spec.Networks[w.Network]["ip"].(string); ok {
			addr, err := netip.ParseAddr(ip)
			return addr, err == nil
		}
	}
	if !slices.Contains(w.Default, "addressable") && !slices.Contains(w.Default, "gateway") {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(st.Own.Address)
	return addr, err == nil
}

// Refused adds the name of the ledger to a refusal.
func (e *Env) Refused(err error, address string) error {
	usual := cmp.Or(e.Getenv("BOOTSTRAP_DATABASE"), LedgerPath(e.Home))
	if refused, ok := errors.AsType[*network.Refused](err); ok && !addresses.Same(address, usual) {
		refused.Ledger = addresses.Argument(addresses.Place(address))
	}
	return err
}

// Owner returns the instance for which addresses are reserved.
func (a *Addresses) Owner() network.Owner {
	return network.Owner{Deployment: a.rec.Installation.String(), Name: a.rec.About.Name, Instance: a.rec.About.Instance()}
}

// Has reports whether the instance has the address after the change.
func Has(c network.Change) bool {
	switch c.Action {
	case network.Bind, network.Reserve:
		return true
	case network.Ask:
		return c.Reservation.Block.IsValid()
	}
	return false
}
