// Package addressestest runs the same cases on every kind of ledger. They were first
// run against BOSH's Director; docs/decisions.md says where the results differ on
// purpose.
package addressestest

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/addresses"
	"bootstrap/network"
)

//go:embed testdata/cases.json
var cases []byte

// directorCases were computed by the classes of BOSH's Director at cloudfoundry/bosh
// 96f913526a (2026-08-22): the situations of its specs of 2025 and 2026 for reserved
// ranges and prefixes, and random networks.
//
//go:embed testdata/director.json
var directorCases []byte

// testCase is a case: its networks, the ledger at the beginning, and what deployments do
// one after the other.
type testCase struct {
	ID              string
	Networks        []any
	Only            string   // database or memory: run only on this kind of ledger; empty: on both
	GatewayOptional bool     `json:"gateway_optional"`
	Ledger          []string // "DEPLOYMENT INSTANCE ADDRESS NETWORK KIND [VM]"
	VMs             []string // "DEPLOYMENT INSTANCE VM"
	Orphans         []string // the same
	Steps           []step
}

// step is an action of one deployment (As; empty: d), and its expected results.
type step struct {
	As       string
	Networks []any // the networks from this step on; empty: those of the previous step or of the case
	// Deploy has "INSTANCE NETWORK[=STATIC]… [@ZONE] [swap]" for each instance; other
	// instances of the deployment are deleted.
	Deploy  *[]string
	Create  string   // fails: create_vm fails for the first new VM
	Gets    []string // the addresses of each instance; "-": it has none
	Refused string   // the Director's name of the error
	// Needed and Free are those of the error, unless both are 0.
	Needed, Free int
	// Plan has "ACTION ADDRESS: REASON" for each address, if not nil.
	Plan []string
	// Recreates are the instances whose VM was replaced, if not nil.
	Recreates []string
	// The next fields list instances: VM stopped, VM lost, instance deleted, orphaned VM
	// deleted.
	StopHard []string `json:"stop-hard"`
	LoseVM   []string `json:"lose-vm"`
	Delete   []string
	CleanUp  []string `json:"clean-up"`
	// Ledger has "DEPLOYMENT INSTANCE ADDRESS" for each reservation, by address, if
	// not nil.
	Ledger *[]string
}

// Run runs all cases, each with a new ledger that open returns. memory is true for
// ledgers of addresses.Memory, in which each network is a scope of its own and released
// addresses are given out last.
func Run(t *testing.T, memory bool, open func(t *testing.T) *addresses.Ledger) {
	var all []testCase
	for _, file := range [][]byte{cases, directorCases} {
		var some []testCase
		if err := json.Unmarshal(file, &some); err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	kind := "database"
	if memory {
		kind = "memory"
	}
	for _, c := range all {
		if c.Only != "" && c.Only != kind {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, ledger: open(t), vms: map[network.Owner]string{}, orphans: map[network.Owner][]string{}}
			w.set(c)
			for i, s := range c.Steps {
				w.step = fmt.Sprintf("step %d", i+1)
				w.run(c, s)
				if memory {
					w.rebuild()
				}
			}
		})
	}
}

// world is the state of a running case.
type world struct {
	t        *testing.T
	step     string
	ledger   *addresses.Ledger
	networks []network.Network
	vms      map[network.Owner]string
	orphans  map[network.Owner][]string
	made     int // number of VMs that were made, for their CIDs
}

// must ends the test if err is not nil.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", w.step, err)
	}
}

// parse reads the networks of a case or step.
func (w *world) parse(c testCase, list []any) {
	w.t.Helper()
	r := network.Rules{GatewayOptional: c.GatewayOptional, Zones: []string{"az-1", "az-2"}}
	networks, problems := network.Parse(list, r)
	if len(problems) > 0 {
		w.t.Fatalf("%s: %+v", w.step, problems)
	}
	w.networks = networks
}

// rebuild makes a new ledger in memory, as each run of a deployment does.
func (w *world) rebuild() {
	again, err := addresses.Memory(w.all(), w.ledger.Released(), time.Now)
	w.must(err)
	w.ledger = again
}

// set makes the reservations and VMs that the case begins with.
func (w *world) set(c testCase) {
	w.step = "the start"
	w.parse(c, c.Networks)
	for _, line := range c.Ledger {
		f := append(strings.Fields(line), "")
		n, _ := network.Find(w.networks, f[3])
		_, err := w.ledger.Adopt(w.t.Context(), []network.Reservation{{Scope: n.Scope, Block: block(f[2]), Owner: owner(f[0], f[1]), Network: f[3], Kind: network.Kind(f[4]), VM: f[5]}})
		w.must(err)
	}
	for _, line := range c.VMs {
		f := strings.Fields(line)
		w.vms[owner(f[0], f[1])] = f[2]
	}
	for _, line := range c.Orphans {
		f := strings.Fields(line)
		w.orphans[owner(f[0], f[1])] = []string{f[2]}
	}
}

// owner returns the owner of a deployment with the name.
func owner(deployment, instance string) network.Owner {
	return network.Owner{Deployment: "id-of-" + deployment + "-" + instance, Name: deployment, Instance: instance}
}

// block reads an address or a block.
func block(text string) netip.Prefix {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen())
	}
	return netip.MustParsePrefix(text)
}

// show returns a block in the notation of the cases.
func show(b netip.Prefix) string {
	switch {
	case !b.IsValid():
		return "-"
	case b.IsSingleIP():
		return b.Addr().String()
	}
	return b.String()
}

// run runs a step and checks its results.
func (w *world) run(c testCase, s step) {
	w.t.Helper()
	if s.As == "" {
		s.As = "d"
	}
	if s.Networks != nil {
		w.parse(c, s.Networks)
	}
	for _, name := range slices.Concat(s.StopHard, s.LoseVM) {
		w.vms[owner(s.As, name)] = ""
	}
	for _, name := range s.Delete {
		w.delete(owner(s.As, name))
	}
	for _, name := range s.CleanUp {
		o := owner(s.As, name)
		for _, vm := range w.orphans[o] {
			_, err := w.ledger.ReleaseVM(w.t.Context(), o.Deployment, vm)
			w.must(err)
		}
		delete(w.orphans, o)
	}
	if s.Deploy != nil {
		w.deploy(s)
	}
	if s.Ledger != nil {
		got := []string{}
		for _, r := range w.all() {
			got = append(got, r.Owner.Name+" "+r.Owner.Instance+" "+show(r.Block))
		}
		if !slices.Equal(got, *s.Ledger) {
			w.t.Errorf("%s: the ledger has %q, want %q", w.step, got, *s.Ledger)
		}
	}
}

// all returns all reservations by address.
func (w *world) all() []network.Reservation {
	all, err := w.ledger.List(w.t.Context(), addresses.Filter{})
	w.must(err)
	slices.SortFunc(all, func(a, b network.Reservation) int { return a.Block.Addr().Compare(b.Block.Addr()) })
	return all
}

// held returns the addresses that the instance holds.
func (w *world) held(o network.Owner) []network.Reservation {
	return slices.DeleteFunc(w.all(), func(r network.Reservation) bool { return !r.Owner.Same(o) })
}

// delete deletes an instance.
func (w *world) delete(o network.Owner) {
	held := w.held(o)
	for range 2 { // the second call has nothing left to release
		_, err := w.ledger.Release(w.t.Context(), held...)
		w.must(err)
	}
	delete(w.vms, o)
}

// instance reads an instance of a deploy.
func (w *world) instance(as, line string) network.Instance {
	fields := strings.Fields(line)
	in := network.Instance{Owner: owner(as, fields[0])}
	for _, f := range fields[1:] {
		name, static, found := strings.Cut(f, "=")
		zone, isZone := strings.CutPrefix(f, "@")
		switch {
		case isZone:
			in.Zone = zone
		case f == "swap":
			in.Swap, in.Replace = true, true
		case found:
			in.Wishes = append(in.Wishes, network.Wish{Network: name, Static: []netip.Addr{netip.MustParseAddr(static)}})
		default:
			in.Wishes = append(in.Wishes, network.Wish{Network: f})
		}
	}
	in.VM, in.Orphans = w.vms[in.Owner], w.orphans[in.Owner]
	return in
}

// instances returns the instances that a step deploys, followed by those that it
// deletes.
func (w *world) instances(s step) []network.Instance {
	var instances []network.Instance
	for _, line := range *s.Deploy {
		instances = append(instances, w.instance(s.As, line))
	}
	for _, r := range w.all() {
		gone := r.Owner.Name == s.As && !slices.ContainsFunc(instances, func(in network.Instance) bool { return in.Owner.Same(r.Owner) })
		if gone {
			instances = append(instances, network.Instance{Owner: r.Owner, VM: w.vms[r.Owner]})
		}
	}
	return instances
}

// deploy does the same for the instances as a run of deploy, in the same order.
func (w *world) deploy(s step) {
	w.t.Helper()
	instances := w.instances(s)
	wanted := len(*s.Deploy)
	would, err := w.ledger.Decide(w.t.Context(), w.networks, instances)
	if err != nil && s.Refused == "" {
		w.t.Fatalf("%s: %v", w.step, err)
	}
	outcomes, err := w.ledger.Reserve(w.t.Context(), w.step, w.networks, instances)
	if s.Refused != "" || err != nil {
		w.refused(s, err)
		return
	}
	w.checkPlan(s, would, outcomes)
	for _, in := range instances[wanted:] {
		w.delete(in.Owner)
	}
	var gets, recreated []string
	for i, in := range instances[:wanted] {
		made := in.VM == "" || outcomes[i].Moves || in.Replace
		if made && s.Create == "fails" {
			if !in.Swap || outcomes[i].NoSwap != "" {
				w.vms[in.Owner] = ""
			}
			return
		}
		if made {
			w.create(in, outcomes[i])
		}
		if made && in.VM != "" {
			recreated = append(recreated, in.Owner.Instance)
		}
		for _, c := range outcomes[i].Changes[:len(in.Wishes)] {
			gets = append(gets, show(c.Reservation.Block))
		}
	}
	if s.Gets != nil && !slices.Equal(gets, s.Gets) {
		w.t.Errorf("%s gets %q, want %q", w.step, gets, s.Gets)
	}
	if s.Recreates != nil && !slices.Equal(recreated, s.Recreates) {
		w.t.Errorf("%s recreates %q, want %q", w.step, recreated, s.Recreates)
	}
}

// checkPlan compares the reservations with the expectations of the step and with the
// earlier decision.
func (w *world) checkPlan(s step, would, outcomes []network.Outcome) {
	w.t.Helper()
	var plan []string
	for i, o := range outcomes {
		for j, got := range o.Changes {
			plan = append(plan, fmt.Sprintf("%s %s: %s", got.Action, show(got.Reservation.Block), got.Reason))
			if c := would[i].Changes[j]; c.Action != got.Action || c.Reservation.Block != got.Reservation.Block || c.Reason != got.Reason {
				w.t.Errorf("%s: %+v was decided, and then %+v", w.step, c, got)
			}
		}
		if o.NoSwap != "" {
			plan = append(plan, "no swap: "+o.NoSwap)
		}
	}
	if s.Plan != nil && !slices.Equal(plan, s.Plan) {
		w.t.Errorf("%s plans\n%s\nwant\n%s", w.step, strings.Join(plan, "\n"), strings.Join(s.Plan, "\n"))
	}
}

// create makes a VM for the instance and records it: the new VM gets its addresses, and
// the addresses of a deleted VM are released.
func (w *world) create(in network.Instance, o network.Outcome) {
	w.made++
	vm := fmt.Sprintf("vm-%d", w.made)
	if in.Swap && o.NoSwap == "" && in.VM != "" {
		w.orphans[in.Owner] = append(w.orphans[in.Owner], in.VM)
	}
	w.vms[in.Owner] = vm
	var has []network.Reservation
	for _, c := range o.Changes {
		if c.Action == network.Bind || c.Action == network.Reserve {
			has = append(has, c.Reservation)
		}
	}
	_, err := w.ledger.Record(w.t.Context(), in.Owner, vm, has, w.orphans[in.Owner]...)
	w.must(err)
}

// refused checks an error of the decision.
func (w *world) refused(s step, err error) {
	w.t.Helper()
	var refused *network.Refused
	if !errors.As(err, &refused) || refused.Kind != s.Refused {
		w.t.Fatalf("%s: %v, want %s", w.step, err, s.Refused)
	}
	if s.Needed+s.Free > 0 && (refused.Needed != s.Needed || refused.Free != s.Free) {
		w.t.Errorf("%s: %v, want %d needed and %d free", w.step, err, s.Needed, s.Free)
	}
	if !strings.Contains(err.Error(), s.Refused) || refused.Kind == network.AlreadyInUse && !strings.Contains(err.Error(), "held by") {
		w.t.Errorf("%s: the error does not say enough: %v", w.step, err)
	}
	w.t.Log(err)
}
