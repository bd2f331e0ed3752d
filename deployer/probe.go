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

	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
	"bootstrap/internal/proxy"
	"bootstrap/manifest"
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
	warnOfAnswers(ctx, a.rec.Env.Route.Dial, a.in.Manifest, a.planned.Changes, a.rec.Out.Warning)
}

// probeSeveral is probe for the instances of a deployment. m is the manifest of one of them.
func probeSeveral(ctx context.Context, opts Options, m *manifest.Manifest, planned []network.Outcome) error {
	r := newRun(opts)
	defer r.t.Env.Close()
	if err := r.t.Env.OpenRoute(ctx); err != nil {
		return err
	}
	var changes []network.Change
	for _, o := range planned {
		changes = append(changes, o.Changes...)
	}
	warnOfAnswers(ctx, r.t.Env.Route.Dial, m, changes, func(text string) {
		opts.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: text})
	})
	return ctx.Err()
}

// dialer connects to an address; nil: directly.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// warnOfAnswers warns of each address that the changes reserve and that answers.
func warnOfAnswers(ctx context.Context, dial dialer, m *manifest.Manifest, changes []network.Change, warn func(string)) {
	if dial == nil {
		dial = proxy.Direct().DialContext
	}
	ports := probePorts()
	if port, err := strconv.Atoi(m.CPI.MBusURL.Port()); err == nil && !slices.Contains(ports, port) {
		ports = append(ports, port)
	}
	changes = slices.DeleteFunc(slices.Clone(changes), func(c network.Change) bool {
		return c.Action != network.Reserve || c.Reason.Kind == network.InUse || c.Reservation.Kind == network.Floating
	})
	whys := make([]string, len(changes))
	_ = guard.Each(ctx, probesAtOnce, len(changes), func(i int) {
		whys[i] = probed(ctx, dial, changes[i].Reservation.Block.Addr(), ports)
	})
	for i, c := range changes {
		if whys[i] != "" {
			warn(fmt.Sprintf("address %s of network %s answers (%s), although nobody has reserved it: if another machine has it, put it into `reserved` of its subnet, and run `bootstrap deploy MANIFEST` again", c.Reservation.Block.Addr(), c.Reservation.Network, whys[i]))
		}
	}
}

// probesAtOnce is how many addresses are probed at the same time.
const probesAtOnce = 16

// probed returns how a machine at the address answers; empty: none answers. This machine
// refuses connections to all its loopback addresses, so a refusal from there shows
// nothing.
func probed(ctx context.Context, dial dialer, addr netip.Addr, ports []int) string {
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
