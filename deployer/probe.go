package deployer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/proxy"
	"bootstrap/network"
)

// probeLimit is how long an address may take to answer: a free address usually never
// answers.
const probeLimit = 2 * time.Second

// probePorts returns ports on which machines often listen: SSH, web servers, agents.
func probePorts() []int { return []int{22, 80, 443, 6868} }

// probe warns of each newly reserved address that answers: another machine uses it, and
// the ledger does not know that.
func (a *reservations) probe(ctx context.Context) {
	dial := a.rec.Env.Route.Dial
	if dial == nil { // The VM is reached directly.
		dial = proxy.Direct().DialContext
	}
	ports := probePorts()
	if port, err := strconv.Atoi(a.in.Manifest.CPI.MBusURL.Port()); err == nil && !slices.Contains(ports, port) {
		ports = append(ports, port)
	}
	for _, c := range a.planned.Changes {
		if c.Action != network.Reserve || c.Reason.Kind == network.InUse || c.Reservation.Kind == network.Floating {
			continue
		}
		addr := c.Reservation.Block.Addr()
		if why := probed(ctx, dial, addr, ports); why != "" {
			a.rec.Out.Warning(fmt.Sprintf("address %s of network %s answers (%s), although nobody has reserved it: if another machine has it, put it into `reserved` of its subnet, and run `bootstrap deploy MANIFEST` again", addr, c.Reservation.Network, why))
		}
	}
}

// probed returns how a machine at the address answers; empty: none answers. This machine
// refuses connections to all its loopback addresses, so a refusal from there shows
// nothing.
func probed(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), addr netip.Addr, ports []int) string {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	found := make(chan string, len(ports))
	for _, port := range ports {
		guard.Go(ctx, func() {
			conn, err := dial(ctx, "tcp", netip.AddrPortFrom(addr, uint16(port)).String())
			switch {
			case err == nil:
				_ = conn.Close()
				found <- fmt.Sprintf("port %d is open", port)
			case saysRefused(err) && !addr.IsLoopback():
				found <- fmt.Sprintf("it refuses connections to port %d", port)
			default:
				found <- ""
			}
		})
	}
	for range ports {
		select {
		case why := <-found:
			if why != "" {
				return why
			}
		case <-ctx.Done():
			return ""
		}
	}
	return ""
}

// saysRefused reports whether a machine refused the connection, even if a jumpbox made
// it.
func saysRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(strings.ToLower(err.Error()), "connection refused")
}
