// Package reach connects to a VM: through jumpboxes and proxies, and to its agent, whose
// settings may be older or newer than the manifest.
package reach

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/deployer/report"
	"bootstrap/internal/proxy"
	"bootstrap/tunnel"
)

// Route is the way of connections to the VM and for downloads.
type Route struct {
	Dial  func(ctx context.Context, network, address string) (net.Conn, error) // nil: connect directly
	jumps *tunnel.Route                                                        // nil: no SSH connection is used
}

// RouteOptions selects the route.
type RouteOptions struct {
	Via    []string // jumpboxes, as ssh://user@host:port URLs or lists of them with commas
	Home   string   // folder of known host keys
	Getenv func(string) string
	Secret func(values ...string) // adds values that the redactor hides
	Report *report.Stage          // report of the run
}

// OpenRoute opens the route of --via, or that of BOSH_ALL_PROXY. It logs in to the
// jumpboxes of --via at once. The route must be closed, even after an error.
func OpenRoute(ctx context.Context, o RouteOptions) (Route, error) {
	all := o.Getenv("BOSH_ALL_PROXY")
	switch {
	case len(o.Via) > 0:
		machines, err := tunnel.ParseVia(strings.Join(o.Via, ","), o.Getenv)
		if err != nil {
			return Route{}, fmt.Errorf("cannot use --via: %w", err)
		}
		route, err := o.jump(machines)
		if err != nil {
			return route, err
		}
		var names []string
		for _, m := range machines {
			names = append(names, strings.TrimPrefix(m.HostName, "the jumpbox "))
		}
		return route, o.Report.Do("Entering the jumpbox "+strings.Join(names, ", then "), func(*report.Stage) error { return route.jumps.Enter(ctx) })
	case strings.HasPrefix(all, "ssh+"):
		machine, err := tunnel.ParseJump(all, o.Getenv)
		if err != nil {
			return Route{}, fmt.Errorf("cannot use BOSH_ALL_PROXY: %w", err)
		}
		return o.jump([]tunnel.Config{machine})
	case all != "":
		dial, err := proxy.SOCKS(all, o.Getenv)
		if err != nil {
			return Route{}, fmt.Errorf("cannot use BOSH_ALL_PROXY: %w", err)
		}
		return Route{Dial: dial}, nil
	}
	return Route{}, nil
}

func (o RouteOptions) jump(machines []tunnel.Config) (Route, error) {
	if err := os.MkdirAll(o.Home, 0o700); err != nil {
		return Route{}, fmt.Errorf("cannot make the folder of known host keys: %w", err)
	}
	for i := range machines {
		o.Secret(machines[i].Password)
		machines[i].KnownHosts = filepath.Join(o.Home, "known_hosts")
		machines[i].Report = o.Report.Info
	}
	jumps := tunnel.NewRoute(machines)
	return Route{Dial: jumps.DialContext, jumps: jumps}, nil
}

// Close closes the connections to the jumpboxes.
func (r Route) Close() {
	if r.jumps != nil {
		_ = r.jumps.Close()
	}
}
