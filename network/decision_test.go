package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go4.org/netipx"
)

// For every kind of reason there is a text, which uses only fields of a reason.
func TestReasonsHaveWords(t *testing.T) {
	source, err := os.ReadFile("decision.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`(?m)^\t\w+ +ReasonKind = "([^"]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(kinds) != len(words) {
		t.Errorf("%d kinds, and words for %d", len(kinds), len(words))
	}
	for _, m := range kinds {
		r := Reason{Kind: ReasonKind(m[1]), From: "from", To: "to"}
		if text := r.String(); text == m[1] || strings.ContainsAny(text, "{}") {
			t.Errorf("%s has the words %q", m[1], text)
		}
	}
}

// nobody is a ledger without reservations.
type nobody struct{}

func (nobody) Overlapping(string, netip.Addr, netip.Addr) (Reservation, bool, error) {
	return Reservation{}, false, nil
}

func (nobody) LowestFree(_ string, in []netipx.IPRange, bits int) (netip.Prefix, bool, error) {
	return netip.PrefixFrom(in[0].From(), bits), true, nil
}

// Choosing addresses takes linear time, also beside addresses that are held here and there,
// and ends with its context.
func TestDecideForMany(t *testing.T) {
	t.Parallel()
	networks := []Network{{Name: "a", Type: Manual, Subnets: []Subnet{{Range: netip.MustParsePrefix("10.0.0.0/8"), Gateway: netip.MustParseAddr("10.0.0.1"), Prefix: 32}}}}
	instances := make([]Instance, 20_000)
	held := netip.MustParseAddr("10.0.0.3")
	for i := range instances {
		instances[i] = Instance{Owner: Owner{Deployment: fmt.Sprint(i)}, Wishes: []Wish{{Network: "a"}}}
		if i%2 == 0 {
			instances[i].Held = []Reservation{{Owner: instances[i].Owner, Network: "a", Kind: Automatic, Block: netip.PrefixFrom(held, 32)}}
			held = held.Next().Next()
		}
	}
	began := time.Now()
	outcomes, err := Decide(func() error { return nil }, networks, instances, nobody{})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	seen := map[netip.Prefix]bool{}
	for i, o := range outcomes {
		block := o.Changes[0].Reservation.Block
		if seen[block] {
			t.Fatalf("%s is chosen twice", block)
		}
		seen[block] = true
		if i == 1 && block.String() != "10.0.0.2/32" || i == 3 && block.String() != "10.0.0.4/32" {
			t.Errorf("instance %d has %s, which is not the lowest free one", i, block)
		}
	}
	stop := errors.New("Ctrl-C")
	if _, err := Decide(func() error { return stop }, networks, instances, nobody{}); !errors.Is(err, stop) {
		t.Errorf("after Ctrl-C: %v", err)
	}
}
