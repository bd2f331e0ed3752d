// Package deployment deploys a manifest with many instances. It decides which instances
// there are, which addresses they have and in which order they change. It deploys each of
// them as package deployer deploys the VM of a manifest with one, from what was read once.
package deployment

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"bootstrap/deployer"
	"bootstrap/deployment/record"
	"bootstrap/deployment/roster"
	"bootstrap/manifest"
	"bootstrap/network"
)

// VM is the VM of an instance, as its state records it.
type VM struct {
	Installation string // the installation id of its state; empty: it has no state
	CID          string // empty: it has no VM
	Detached     bool   // bootstrap stop --hard has deleted the VM
	Empty        bool   // there is no VM and no disk, and it is not detached
}

// Draft has the instances of a deployment after a deploy.
type Draft struct {
	// Record has the instances that stay, the new ones, and those that the deploy
	// deletes. It is not saved.
	Record *record.Record
	// New are the ids of instances that the old record does not have.
	New map[string]bool
	// Lost are instances with a persistent disk that would be deleted because their group
	// was given zones, or has none any more: their data would be orphaned.
	Lost []roster.Going
	// Alone is true if one instance is left, as a manifest with one instance would have
	// made it: then no record is needed.
	Alone bool

	deployment *manifest.Deployment
	asked      []network.Instance
	outcomes   []network.Outcome // of asked
}

// TakenError says that another deployment has reserved an address of a plan since the
// plan was made. Nothing was changed.
type TakenError struct{}

func (*TakenError) Error() string {
	return "another deployment has reserved an address of the plan; nothing was changed: run the same command again"
}

// reserve reserves the addresses of all instances. The error is a *TakenError if they are
// not those of the draft.
func (d *Draft) reserve(ctx context.Context, opts deployer.Options) error {
	if d.deployment == nil { // all instances are deleted
		return nil
	}
	taken, err := deployer.ReserveSeveral(ctx, opts, d.deployment, d.asked, d.outcomes)
	if err == nil && taken {
		err = &TakenError{}
	}
	return err
}

// Make drafts the instances of a deployment: those of the record that stay, new ones, and
// those to delete, with the addresses of all. vm returns the VM of an instance.
// New instances have the ids of a saved plan, if there is one. errand is the instance group
// with lifecycle errand that gets its instance now; empty: none. Others have one only as long
// as it is kept alive.
func Make(ctx context.Context, of deployer.Several, old *record.Record, vm func(*record.Instance) VM, saved *Saved, errand string) (*Draft, error) {
	d := of.Deployment
	networks := network.ByName(d.Networks)
	nameNetworks(d, old)
	list, err := roster.Make(groupsOf(d, old, errand), recordedOf(old, vm), networks)
	if err != nil {
		return nil, err
	}
	draft := &Draft{Record: old.With(d.Name), New: map[string]bool{}}
	draft.Record.Groups = nil
	for _, g := range d.Groups {
		if hasInstances(&g, old, errand) {
			draft.Record.Groups = append(draft.Record.Groups, record.Group{Name: g.Name, Canaries: g.Rules.Canaries, MaxInFlight: g.Rules.MaxInFlight, MinHealthy: g.Rules.MinHealthy, OnFailure: g.Rules.OnFailure, Serial: g.Rules.Serial})
		}
	}
	var asked []network.Instance
	renamed := map[string]string{} // new names of groups to former ones
	for _, in := range list.Instances {
		entry := &record.Instance{ID: in.ID, Group: in.Group, Index: in.Index, Zone: in.Zone, Bootstrap: in.Bootstrap}
		g := groupOf(d, in.Group)
		entry.Disk, entry.Errand = g.Manifest.Group.Disk != nil || len(g.Manifest.Group.Disks) > 0, g.Errand
		if in.Was == nil {
			entry.ID = cmp.Or(saved.id(entry.Name()), uuid.NewString())
			draft.New[entry.ID] = true
			entry.State = old.NewState(entry)
		} else if was, found := old.ByID(in.ID); found {
			entry.State, entry.Ignored, entry.Addresses, entry.PostDeploy = was.State, was.Ignored, was.Addresses, was.PostDeploy
			entry.Installation, entry.StateSerial = was.Installation, was.StateSerial
			entry.KeepAlive, entry.DNSVersion = was.KeepAlive && g.Errand, was.DNSVersion
			if was.Group != in.Group {
				renamed[in.Group] = was.Group
			}
		}
		draft.Record.Instances = append(draft.Record.Instances, entry)
		asked = append(asked, wishesOf(d, g, in, entry, vm(entry)))
	}
	outcomes, err := of.Decide(ctx, d.Networks, asked)
	if err != nil {
		return nil, err
	}
	draft.deployment, draft.asked, draft.outcomes = d, asked, outcomes
	for i, entry := range draft.Record.Instances {
		entry.Addresses = addressesOf(outcomes[i])
	}
	draft.Alone = isAlone(of, draft.Record, vm)
	for _, g := range list.Going {
		was, found := old.ByID(g.ID)
		if !found {
			continue
		}
		going := *was
		going.Going = string(g.Why)
		draft.Record.Instances = append(draft.Record.Instances, &going)
		if g.Disk && !g.Empty && (g.Why == roster.ZonesGiven || g.Why == roster.ZonesRemoved) {
			draft.Lost = append(draft.Lost, g)
		}
	}
	if deployer.HasNames(d, old) {
		draft.Record.Names = deployer.NamesOf(d, draft.Record, renamed)
	}
	return draft, nil
}

// groupOf returns the group with the name.
func groupOf(d *manifest.Deployment, name string) *manifest.Group {
	i := slices.IndexFunc(d.Groups, func(g manifest.Group) bool { return g.Name == name })
	return &d.Groups[i]
}

// groupsOf returns the groups of a deployment in the form that roster.Make takes.
func groupsOf(d *manifest.Deployment, old *record.Record, errand string) []roster.Group {
	var groups []roster.Group
	for _, g := range d.Groups {
		if !hasInstances(&g, old, errand) {
			continue
		}
		group := roster.Group{Group: g.Group}
		if g.Errand {
			group.Instances = 1 // A Director, too, uses only the first one.
		}
		for _, from := range g.From {
			group.From = append(group.From, roster.Origin(from))
		}
		groups = append(groups, group)
	}
	return groups
}

// hasInstances reports whether a group has instances. A group with lifecycle errand has
// one only while its errand runs, or as long as it is kept alive.
func hasInstances(g *manifest.Group, old *record.Record, errand string) bool {
	return !g.Errand || g.Name == errand || slices.ContainsFunc(old.Instances, func(in *record.Instance) bool { return in.Group == g.Name && in.KeepAlive })
}

// recordedOf returns the instances of a record in the form that roster.Make takes.
func recordedOf(r *record.Record, vm func(*record.Instance) VM) []roster.Recorded {
	var list []roster.Recorded
	for _, in := range r.Instances {
		was := roster.Recorded{
			ID: in.ID, Group: in.Group, Index: in.Index, Zone: in.Zone, Bootstrap: in.Bootstrap, Ignored: in.Ignored, Disk: in.Disk, Empty: vm(in).Empty,
		}
		for name, block := range in.Addresses {
			was.Held = append(was.Held, network.Reservation{Network: name, Block: block})
		}
		list = append(list, was)
	}
	return list
}

// wishesOf returns the addresses that an instance asks the ledger for, and those that it
// has.
func wishesOf(d *manifest.Deployment, g *manifest.Group, in roster.Instance, entry *record.Instance, vm VM) network.Instance {
	deployment := vm.Installation
	if deployment == "" {
		deployment = entry.ID // no address is reserved under this name yet
	}
	asked := network.Instance{
		Owner: network.Owner{Deployment: deployment, Name: d.Name, Instance: entry.Name()},
		Zone:  in.Zone, VM: vm.CID, Wishes: slices.Clone(g.Wishes), LastKnown: map[string]netip.Addr{},
	}
	for i := range asked.Wishes {
		w := &asked.Wishes[i]
		w.Static = nil
		if addr, ok := in.Static[w.Network]; ok {
			w.Static = []netip.Addr{addr}
		}
	}
	for name, block := range entry.Addresses {
		n, found := network.Find(d.Networks, name)
		switch {
		case !found:
		case n.Type == network.Dynamic:
			asked.LastKnown[name] = block.Addr()
		default:
			held := network.Reservation{Scope: n.Scope, Owner: asked.Owner, Network: name, VM: vm.CID}
			held.Block, held.Kind = n.Claim(block.Addr())
			asked.Held = append(asked.Held, held)
		}
	}
	return asked
}

// addressesOf returns the addresses that an instance has after the changes.
func addressesOf(o network.Outcome) map[string]netip.Prefix {
	has := map[string]netip.Prefix{}
	for _, c := range o.Changes {
		if (c.Action == network.Bind || c.Action == network.Reserve) && c.Reservation.Block.IsValid() {
			has[c.Reservation.Network] = c.Reservation.Block
		}
	}
	return has
}

// Recorded returns a function that reads the VM of an instance from its state. home is
// ~/.bosh.
func Recorded(r *record.Record, home string) func(*record.Instance) VM {
	return func(in *record.Instance) VM {
		st, found, err := r.ReadState(in, home)
		switch {
		case err != nil:
			return VM{} // The command about the instance reports what is wrong with its state.
		case !found:
			return VM{Empty: true}
		}
		return VM{
			Installation: st.InstallationID, CID: st.CurrentVMCID, Detached: st.Detached(),
			Empty: st.CurrentVMCID == "" && len(st.UsedDisks()) == 0 && !st.Detached(),
		}
	}
}
