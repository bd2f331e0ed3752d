package addresses_test

import (
	"net/netip"
	"testing"
	"time"

	"bootstrap/addresses"
	"bootstrap/network"
)

// A VM that the ledger does not know yet keeps its address while another VM replaces it:
// the new VM gets another address.
func TestSwapOfAVMThatTheLedgerDoesNotKnow(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) *addresses.Ledger{
		"memory": func(t *testing.T) *addresses.Ledger {
			l, err := addresses.Memory(nil, nil, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			return l
		},
		"SQLite": func(t *testing.T) *addresses.Ledger { return open(t, file(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			networks := []network.Network{{Name: "a", Type: network.Manual, Subnets: []network.Subnet{{Range: netip.MustParsePrefix("10.0.0.0/24")}}}}
			owner := network.Owner{Deployment: "d", Instance: "g/0"}
			old := netip.MustParsePrefix("10.0.0.1/32")
			in := network.Instance{
				Owner: owner, VM: "vm", Replace: true, Swap: true, Wishes: []network.Wish{{Network: "a"}},
				Held: []network.Reservation{{Block: old, Owner: owner, Network: "a", Kind: network.Automatic, VM: "vm"}},
			}
			outcomes, err := l.Reserve(t.Context(), "run", networks, []network.Instance{in})
			if err != nil {
				t.Fatal(err)
			}
			if got := outcomes[0].Changes[0].Reservation.Block; got == old {
				t.Errorf("the new VM gets %s, too", got)
			}
			held, err := l.List(t.Context(), addresses.Filter{})
			if err != nil || len(held) != 2 {
				t.Errorf("%v, %v", held, err)
			}
		})
	}
}
