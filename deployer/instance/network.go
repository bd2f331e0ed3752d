package instance

import (
	"context"
	"net"
	"net/netip"

	"bootstrap/deployer/plan"
	"bootstrap/internal/proxy"
)

// Network is the network of a new VM of the embedded CPI.
type Network struct {
	Own     bool     // true: a network of the VM's own; false: that of this machine
	Out     string   // the program that connects it to other networks; empty: none does
	Ports   []string // published ports on this machine
	Problem error    // why the VM cannot have this network; nil: it can
}

// NewNetwork returns the network of a new VM; zero without the embedded CPI.
func (h *Host) NewNetwork(ctx context.Context) Network {
	if !h.in.EmbeddedCPI() || h.in.Env.Network == nil {
		return Network{}
	}
	ports, _ := plan.LookUp(h.in.Manifest.CPI.Properties, "local_cpi.ports")
	return h.in.Env.Network(h.in.Manifest.Interfaces(), ports, h.NewMachine(ctx).Kind)
}

// inside returns a dialer from inside of the current VM, if the VM has a network of its
// own; nil: it has none.
func (rec *Record) inside() proxy.Dial {
	if rec.Env.Inside == nil || rec.About.Local == "" {
		return nil
	}
	vm := rec.vm
	if rec.State != nil {
		vm = rec.State.Get().CurrentVMCID
	}
	return rec.Env.Inside(rec.About.Local, vm)
}

// dialAgent returns a dialer for the VM's agent and SSH server; nil: they are reached
// directly.
func (rec *Record) dialAgent() proxy.Dial {
	if dial := rec.inside(); dial != nil {
		return dial
	}
	return rec.Env.Route.Dial
}

// dialService returns a dialer for the VM's jobs; nil: they are reached directly.
// Published ports are at the loopback addresses of this machine.
func (rec *Record) dialService() proxy.Dial {
	dial := rec.inside()
	if dial == nil {
		return rec.Env.Route.Dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if at, err := netip.ParseAddrPort(address); err == nil && !at.Addr().IsLoopback() {
			return dial(ctx, network, address)
		}
		if rec.Env.Route.Dial != nil {
			return rec.Env.Route.Dial(ctx, network, address)
		}
		return proxy.Direct().DialContext(ctx, network, address)
	}
}
