package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/deployer/plan"
	"bootstrap/internal/failure"
	"bootstrap/internal/listener"
	"bootstrap/manifest"
)

// CheckPorts tries the addresses at which a new VM on this machine will listen. vm
// is the CID of the VM that the new one replaces, which may still use them; empty:
// there is none.
func (h *Host) CheckPorts(ctx context.Context, vm string) error {
	if !h.in.EmbeddedCPI() {
		return nil
	}
	ports, err := h.NewPorts(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range ports {
		err := p.try(ctx)
		if err == nil {
			continue
		}
		if why := listener.Refused(p.Address, err); why != "" {
			errs = append(errs, portError(fmt.Errorf("%s cannot listen at %s: %w: %s", p.What, p.Address, err, why), p.Remedy))
			continue
		}
		var by listener.Process
		if !p.UDP {
			by = listener.At(ctx, p.Address)
		}
		holder := ""
		if by.VM != "" {
			holder = filepath.Base(by.VM) // The folder of a VM has the CID as its name.
		}
		switch {
		case vm != "" && (by.PID == 0 || holder == vm):
		case h.rec.State != nil && h.rec.State.Get().Own.Swap != nil && holder == h.rec.State.Get().Own.Swap.CID:
			errs = append(errs, portError(fmt.Errorf("%s cannot listen at %s: VM %s uses that until VM %s has replaced it", p.What, p.Address, h.rec.State.Get().Own.Swap.CID, vm), "finish the previous deploy with its cloud_provider.mbus, then run this one"))
		default:
			errs = append(errs, portTaken(by, p.Address, p.What, p.Remedy, err))
		}
	}
	return errors.Join(errs...)
}

// NewPort is an address of this machine at which a new VM on it will listen.
type NewPort struct {
	Address string // host:port
	UDP     bool
	What    string // the listener, for messages
	Remedy  string // what to do if the address is in use
}

// NewPorts lists the addresses of this machine at which a new VM will listen. An error
// says why the VM cannot have its network.
func (h *Host) NewPorts(ctx context.Context) ([]NewPort, error) {
	n := h.NewNetwork(ctx)
	if n.Own {
		return publishedPorts(n), n.Problem // The agent listens at no address of this machine.
	}
	return agentPorts(h.in.Manifest), n.Problem
}

// agentPorts lists the addresses at which the agent of a VM in this machine's network
// will listen, according to the CPI's properties. The CPI itself reports wrong
// properties.
func agentPorts(m *manifest.Manifest) []NewPort {
	property := func(name string) string {
		v, _ := plan.LookUp(m.CPI.Properties, name)
		if v == nil {
			return ""
		}
		return fmt.Sprint(v)
	}
	own, _ := m.Address()
	// The CPI replaces the wildcard address with the address of the VM.
	at := func(host, port string) string {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = own
		}
		if host == "" || port == "" || port == "0" {
			return ""
		}
		return net.JoinHostPort(host, port)
	}
	ports := []NewPort{
		{What: "the agent of the new VM", Remedy: "change the port in cloud_provider.mbus and cloud_provider.properties.agent.mbus"},
		{What: "the SSH server of the new VM", Remedy: "change cloud_provider.properties.local_cpi.ssh.port and the port of the tunnel",
			Address: at(property("local_cpi.ssh.address"), property("local_cpi.ssh.port"))},
	}
	if mbus, err := url.Parse(cmp.Or(property("local_cpi.agent.mbus"), property("agent.mbus"))); err == nil {
		ports[0].Address = at(mbus.Hostname(), mbus.Port())
	}
	return slices.DeleteFunc(ports, func(p NewPort) bool { return p.Address == "" })
}

// publishedPorts lists the published ports.
func publishedPorts(n Network) (ports []NewPort) {
	for _, p := range n.Ports {
		at, udp := strings.CutSuffix(p, "/udp")
		i := strings.LastIndexByte(at, ':')
		ports = append(ports, NewPort{Address: at[:i], UDP: udp, What: "port " + p[i+1:] + " of the new VM", Remedy: "change local_cpi.ports in cloud_provider.properties"})
	}
	return ports
}

// try listens at the address for a moment.
func (p NewPort) try(ctx context.Context) error {
	var l io.Closer
	var err error
	if p.UDP {
		l, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp", p.Address)
	} else {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", p.Address)
	}
	if err != nil {
		return err
	}
	return l.Close()
}

// portTaken returns the error for an address in use, with the process that uses it.
func portTaken(by listener.Process, address, what, remedy string, err error) error {
	holder := "stop the program that listens there"
	switch {
	case by.VM != "":
		holder = by.String() + " uses the port: if that is the VM of this deployment, restore its state file (bootstrap state backups MANIFEST), else delete that VM or stop the process"
	case by.PID != 0:
		holder = by.String() + " uses the port: stop it"
	}
	return portError(fmt.Errorf("%s cannot listen at %s: %w", what, address, err), holder+", or "+remedy)
}

// PortError says that a port of a new VM is not free.
type PortError struct {
	Err    error
	Remedy string
}

func (e *PortError) Error() string {
	return fmt.Sprintf("%v; %s; nothing was changed", e.Err, e.Remedy)
}
func (e *PortError) Unwrap() error { return e.Err }

func portError(err error, remedy string) error {
	return failure.Named("port-taken", &PortError{Err: err, Remedy: remedy})
}
