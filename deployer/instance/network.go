package instance

import (
	"context"
	"net"
	"net/netip"

	"bootstrap/deployer/plan"
	"bootstrap/internal/proxy"
)

// Network is what connects a new VM of the embedded CPI.
type Network struct {
	Own     bool     // a network of the VM's own, else that of this machine
	Out     string   // the program that leads out of it; empty: nothing does
	Ports   []string // that this machine publishes
	Problem error    // why the VM cannot have the network; nil: it can
}

// NewNetwork returns what connects a new VM; zero without the embedded CPI.
func (t *Instance) NewNetwork(ctx context.Context) Network {
	if t.Manifest == nil || !t.EmbeddedCPI() || t.Env.Network == nil {
		return Network{}
	}
	ports, _ := plan.LookUp(t.Manifest.CPI.Properties, "local_cpi.ports")
	return t.Env.Network(t.Manifest.Interfaces(), ports, t.NewMachine(ctx).Kind)
}

// inside returns how the current VM is reached if it is one of the embedded CPI
// with a network of its own: from inside the VM. Else it is nil.
func inside(t *Instance) proxy.Dial {
	if t.Env.Inside == nil || t.About.Local == "" {
		return nil
	}
	vm := t.seenVM
	if t.State != nil {
		vm = t.State.Get().CurrentVMCID
	}
	return t.Env.Inside(t.About.Local, vm)
}

// dialAgent returns how the agent and the SSH server of the VM are reached; nil:
// directly.
func dialAgent(t *Instance) proxy.Dial {
	if dial := inside(t); dial != nil {
		return dial
	}
	return t.Env.Route.Dial
}

// dialService returns how the jobs of the VM are reached; nil: directly. Published
// ports are at the loopback addresses of this machine.
func dialService(t *Instance) proxy.Dial {
	dial := inside(t)
	if dial == nil {
		return t.Env.Route.Dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if at, err := netip.ParseAddrPort(address); err == nil && !at.Addr().IsLoopback() {
			return dial(ctx, network, address)
		}
		if t.Env.Route.Dial != nil {
			return t.Env.Route.Dial(ctx, network, address)
		}
		return proxy.Direct().DialContext(ctx, network, address)
	}
}
