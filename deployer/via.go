package deployer

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/internal/proxy"

	"bootstrap/deployer/report"
	"bootstrap/tunnel"
)

// route is how the VM and what is downloaded are reached: directly unless
// dial is set.
type route struct {
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	jumps *tunnel.Route // nil unless it goes through SSH
}

// openRoute takes the way that --via names, else the one of BOSH_ALL_PROXY.
// The jumpboxes of --via are entered at once.
func (r *run) openRoute(ctx context.Context) error {
	all := r.opts.Getenv("BOSH_ALL_PROXY")
	switch {
	case len(r.opts.Via) > 0:
		machines, err := tunnel.ParseVia(strings.Join(r.opts.Via, ","), r.opts.Getenv)
		if err != nil {
			return fmt.Errorf("cannot use --via: %w", err)
		}
		if err := r.openJumps(machines); err != nil {
			return err
		}
		var names []string
		for _, m := range machines {
			names = append(names, strings.TrimPrefix(m.HostName, "the jumpbox "))
		}
		return r.do("Entering the jumpbox "+strings.Join(names, ", then "), func(*report.Stage) error { return r.route.jumps.Enter(ctx) })
	case strings.HasPrefix(all, "ssh+"):
		machine, err := tunnel.ParseJump(all, r.opts.Getenv)
		if err != nil {
			return fmt.Errorf("cannot use BOSH_ALL_PROXY: %w", err)
		}
		return r.openJumps([]tunnel.Config{machine})
	case all != "":
		dial, err := proxy.SOCKS(all, r.opts.Getenv)
		if err != nil {
			return fmt.Errorf("cannot use BOSH_ALL_PROXY: %w", err)
		}
		r.route.dial = dial
	}
	return nil
}

func (r *run) openJumps(machines []tunnel.Config) error {
	if err := os.MkdirAll(r.opts.Home, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of known host keys: %w", err)
	}
	for i := range machines {
		r.opts.Secret(machines[i].Password)
		machines[i].KnownHosts = filepath.Join(r.opts.Home, "known_hosts")
		machines[i].Report = r.root.Info
	}
	r.route.jumps = tunnel.NewRoute(machines)
	r.route.dial = r.route.jumps.DialContext
	return nil
}

func (r *run) closeRoute() {
	if r.route.jumps != nil {
		_ = r.route.jumps.Close()
	}
}
