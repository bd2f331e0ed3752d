package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bootstrap/addresses"
	"bootstrap/deployer/instance"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/network"
	"bootstrap/state"
	"bootstrap/state/file"
)

// HeldAddress is a reservation in the form of --json.
type HeldAddress struct {
	Address      string     `json:"address"` // an address, or a block such as 10.0.0.16/28
	Network      string     `json:"network"`
	Scope        string     `json:"scope,omitempty"`
	Deployment   string     `json:"deployment"`
	Installation string     `json:"installation_id"`
	Instance     string     `json:"instance"`
	Type         string     `json:"type"`         // automatic, static or vip
	VM           string     `json:"vm,omitempty"` // CID; empty: no VM has it yet
	Since        *time.Time `json:"since,omitempty"`
}

// Held converts a reservation.
func Held(r network.Reservation) HeldAddress {
	h := HeldAddress{
		Address: r.Address(), Network: r.Network, Scope: r.Scope, Deployment: r.Owner.Name, Installation: r.Owner.Deployment,
		Instance: r.Owner.Instance, Type: string(r.Kind), VM: r.VM,
	}
	if !r.Since.IsZero() {
		since := r.Since.UTC().Truncate(time.Second)
		h.Since = &since
	}
	return h
}

// Subnet has the numbers of addresses in a subnet, in the form of --json.
type Subnet struct {
	Network    string   `json:"network"`
	Range      string   `json:"range,omitempty"` // empty for a vip network's list
	Zones      []string `json:"zones"`
	Free       uint64   `json:"free"` // free addresses for instances without static_ips
	Total      uint64   `json:"total"`
	StaticFree uint64   `json:"static_free"`
	Static     uint64   `json:"static"`
}

// Need is how many addresses deployments need on a network, in the form of --json.
type Need struct {
	Network string `json:"network"`
	Needed  int    `json:"needed"` // addresses needed at the same time
	Static  int    `json:"static"` // how many of Needed are static
	Swap    int    `json:"swap"`   // how many of Needed are used only until an old VM is deleted
	Held    int    `json:"held"`   // how many of Needed the ledger has already
}

// LedgerQuery selects reservations of the ledger.
type LedgerQuery struct {
	Manifests []string
	StateFile string           // path of the state, if there is one manifest; empty: beside it
	Inputs    document.Options // inputs of the manifests, and the cloud config
}

// ledgerView is a ledger with the deployments that a query names.
type ledgerView struct {
	env       *instance.Env
	address   string
	instances []*instance.Instance  // existing deployments; if read is true, all of the query
	asks      []*instance.Placement // requests of the instances, if read is true
	ids       []string              // installation ids of existing deployments
}

// view finds the deployments of a query; it does not lock their states. If read is true,
// it reads their manifests, and deployments need not exist.
func (q LedgerQuery) view(ctx context.Context, cfg instance.Config, read bool) (*ledgerView, error) {
	v := &ledgerView{env: instance.NewEnv(cfg), address: cfg.Database}
	manifests, err := instance.Distinct(q.Manifests, q.StateFile)
	if err != nil {
		return nil, err
	}
	for _, path := range manifests {
		list, several, err := instance.Options{Manifest: path, StateFile: q.StateFile, Inputs: q.Inputs}.Each()
		if err != nil {
			return nil, err
		}
		for _, from := range list {
			if err := v.add(ctx, from, read, several); err != nil {
				return nil, err
			}
		}
	}
	v.address = cmp.Or(v.address, instance.LedgerPath(cfg.Home))
	return v, nil
}

// add adds an instance. Of several, those that are not created yet are left out unless
// read is true.
func (v *ledgerView) add(ctx context.Context, from instance.Options, read, several bool) error {
	t, exists, err := v.find(ctx, from, !read && !several)
	if err == nil {
		err = cmp.Or(t.Addresses.UnnamedLedger(), t.Addresses.LostLedger())
	}
	if err != nil || several && !read && !exists {
		return err
	}
	if exists {
		v.ids = append(v.ids, t.Installation.String())
	}
	if read {
		in, err := t.ReadIfAny(ctx)
		if err != nil {
			return err
		}
		v.asks = append(v.asks, t.Addresses.For(in))
		if !in.Manifest.SharesNetworks() {
			return fmt.Errorf("the manifest %s has networks of its own, and no ledger has their addresses: bootstrap plan says which address the deployment gets, and bootstrap addresses list which it has", from.Manifest)
		}
	}
	if used := t.Addresses.LedgerAddress(); v.address == "" {
		v.address = used
	} else if used != v.address {
		return errors.New("the deployments have their addresses in different ledgers: name the manifests of one, or the ledger with --database")
	}
	v.instances = append(v.instances, t)
	return nil
}

// find returns a deployment with its state.
func (v *ledgerView) find(ctx context.Context, from instance.Options, must bool) (t *instance.Instance, exists bool, err error) {
	path, err := file.Path(from.Manifest, from.StateFile)
	if err != nil {
		return nil, false, err
	}
	var st state.State
	if st, exists, err = from.ReadState(path, v.env.Home); err != nil {
		return nil, false, err
	}
	if !exists && must {
		return nil, false, from.Missing(ctx, path)
	}
	t = instance.New(v.env, from)
	t.StatePath = path
	if exists {
		t.Installation = st.Installation()
		if err := t.UseInstallation(ctx, st); err != nil {
			return nil, true, err
		}
		t.State, err = file.OpenReadOnly(path, file.Options{Home: v.env.Home})
	}
	return t, exists, err
}

// Addresses calls each with reservations, and returns where the ledger is: all
// reservations, those of deployments, or those on the networks of a cloud config.
// Addresses that are only in the state of a deployment are included.
func Addresses(ctx context.Context, cfg instance.Config, q LedgerQuery, each func(HeldAddress)) (place string, err error) {
	v, err := q.view(ctx, cfg, false)
	if err != nil {
		return "", err
	}
	defer v.env.Close()
	var networks []network.Network
	if len(q.Inputs.CloudConfigs) > 0 {
		if networks, err = manifest.LoadNetworks(ctx, v.env.Inputs(q.Inputs)); err != nil {
			return "", err
		}
	}
	ledger, err := v.env.LedgerToRead(ctx, v.address)
	if err != nil {
		return "", err
	}
	inLedger := map[string]bool{}
	key := func(r network.Reservation) string { return r.Owner.Deployment + " " + r.Address() }
	err = ledger.Each(ctx, func(r network.Reservation) {
		if len(q.Manifests) > 0 && !slices.Contains(v.ids, r.Owner.Deployment) {
			return
		}
		if n, ok := network.Holding(networks, r.Network, r.Block.Addr()); networks == nil || ok && n.Scope == r.Scope {
			each(Held(r))
			if len(v.instances) > 0 {
				inLedger[key(r)] = true
			}
		}
	})
	if err != nil || networks != nil {
		return addresses.Place(v.address), err
	}
	for _, t := range v.instances {
		t.About = t.Known
		recorded, err := t.Addresses.List(ctx)
		if err != nil {
			return "", err
		}
		for _, r := range recorded {
			if !inLedger[key(r)] { // addresses adopt may have added it to the ledger
				each(Held(r))
			}
		}
	}
	return addresses.Place(v.address), nil
}

// LedgerCheck is what CheckAddresses finds.
type LedgerCheck struct {
	Place    string
	Subnets  []Subnet
	Needs    []Need
	Findings []string // problems
}

// CheckAddresses returns how many addresses of each network are free and needed, and the
// problems of the ledger.
func CheckAddresses(ctx context.Context, cfg instance.Config, q LedgerQuery) (*LedgerCheck, error) {
	v, err := q.view(ctx, cfg, true)
	if err != nil {
		return nil, err
	}
	defer v.env.Close()
	ledger, err := v.env.LedgerToRead(ctx, v.address)
	if err != nil {
		return nil, err
	}
	check := &LedgerCheck{Place: addresses.Place(v.address)}
	if check.Findings, err = ledger.Check(ctx); err != nil {
		return nil, err
	}
	networks, instances, err := v.wanted(ctx, q)
	if err != nil || len(networks) == 0 {
		return check, err
	}
	held, err := ledger.List(ctx, addresses.Filter{})
	if err != nil {
		return nil, err
	}
	check.addSubnets(networks, held)
	check.addNeeds(networks, instances, held)
	_, err = ledger.Decide(ctx, networks, instances)
	if refused, ok := errors.AsType[*network.Refused](err); ok {
		check.Findings, err = append(check.Findings, refused.Error()), nil
	}
	return check, err
}

// wanted returns the networks of the cloud config, and the requests of the deployments.
func (v *ledgerView) wanted(ctx context.Context, q LedgerQuery) (networks []network.Network, instances []network.Instance, err error) {
	if len(v.instances) == 0 && len(q.Inputs.CloudConfigs) > 0 {
		networks, err = manifest.LoadNetworks(ctx, v.env.Inputs(q.Inputs))
		return networks, nil, err
	}
	for _, of := range v.asks {
		for _, n := range of.Networks() {
			if _, known := network.Find(networks, n.Name); !known {
				networks = append(networks, n)
			}
		}
		instances = append(instances, of.Wanted())
	}
	return networks, instances, nil
}

func (c *LedgerCheck) addSubnets(networks []network.Network, held []network.Reservation) {
	for i := range networks {
		for _, u := range networks[i].Usage(held) {
			s := Subnet{Network: u.Network, Zones: append([]string{}, u.Zones...), Free: u.Free, Total: u.Total, StaticFree: u.StaticFree, Static: u.Static}
			if u.Range.IsValid() {
				s.Range = u.Range.String()
			}
			c.Subnets = append(c.Subnets, s)
		}
	}
	for _, r := range held {
		n, named := network.Find(networks, r.Network)
		if named && n.Type == network.VIP {
			continue // static_ips may name any address
		}
		if n, ok := network.Holding(networks, r.Network, r.Block.Addr()); ok && n.Scope == r.Scope {
			continue
		}
		h := Held(r)
		c.Findings = append(c.Findings, fmt.Sprintf("%s of %s (network %s) is in no subnet of the networks: it stays reserved until its deployment is deployed again or deleted", h.Address, r.Owner, r.Network))
	}
}

func (c *LedgerCheck) addNeeds(networks []network.Network, instances []network.Instance, held []network.Reservation) {
	for _, n := range network.Needs(networks, instances) {
		need := Need{Network: n.Network, Needed: n.Automatic + n.Static, Static: n.Static, Swap: n.Swap}
		for _, r := range held {
			if r.Network == n.Network && slices.ContainsFunc(instances, func(in network.Instance) bool { return in.Owner.Same(r.Owner) }) {
				need.Held++
			}
		}
		c.Needs = append(c.Needs, need)
	}
}
