package deployer

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"bootstrap/manifest"
	"bootstrap/network"
)

// An address answers if one of its ports is open. If this machine refuses a connection to
// its own loopback address, that is no answer.
func TestAnswers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.8.0.77:0")
	if err != nil {
		t.Skipf("one loopback address only: %v", err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	var d net.Dialer
	if why := probed(t.Context(), d.DialContext, netip.MustParseAddr("127.8.0.77"), []int{1, port}); why == "" {
		t.Error("an open port is no answer")
	}
	if why := probed(t.Context(), d.DialContext, netip.MustParseAddr("127.8.0.78"), []int{1, port}); why != "" {
		t.Errorf("nobody listens: %s", why)
	}
	other := func(err error) string {
		return probed(t.Context(), func(context.Context, string, string) (net.Conn, error) { return nil, err }, netip.MustParseAddr("10.0.0.7"), []int{22})
	}
	_, refused := d.DialContext(t.Context(), "tcp", "127.8.0.78:1")
	if why := other(refused); why != "it refuses connections to port 22" {
		t.Errorf("a refused connection: %q", why)
	}
	if why := other(net.ErrClosed); why != "" {
		t.Errorf("another error: %q", why)
	}
}

// Only new addresses are probed, those of all instances, at the port of the agent, too.
func TestWarnOfAnswers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.8.0.79:0")
	if err != nil {
		t.Skipf("one loopback address only: %v", err)
	}
	defer l.Close()
	m := &manifest.Manifest{}
	m.CPI.MBusURL = &url.URL{Scheme: "https", Host: l.Addr().String()}
	change := func(last byte, action network.Action, why network.ReasonKind) network.Change {
		addr := netip.AddrFrom4([4]byte{127, 8, 0, last})
		return network.Change{Action: action, Reservation: network.Reservation{Network: "default", Block: netip.PrefixFrom(addr, 32)}, Reason: network.Reason{Kind: why}}
	}
	var warnings []string
	warnOfAnswers(t.Context(), nil, m, []network.Change{
		change(78, network.Reserve, network.New), change(79, network.Reserve, network.New),
		change(79, network.Reserve, network.InUse), change(79, network.Bind, network.Same),
	}, func(text string) { warnings = append(warnings, text) })
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "address 127.8.0.79 of network default answers (port ") {
		t.Errorf("%q", warnings)
	}
}
