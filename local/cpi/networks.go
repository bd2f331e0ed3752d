package cpi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/local/namespace"
	"bootstrap/local/network"
)

// kindProperty is the cloud property of a network that names its kind.
const kindProperty = "kind"

// Kinds of networks.
const (
	// NetworkMachine is the network of this machine, with its addresses and ports.
	NetworkMachine = "machine"
	// NetworkOwn is a network of VMs, which reach each other and the outside.
	NetworkOwn = "own"
	// NetworkIsolated is a network of VMs that reach only each other.
	NetworkIsolated = "isolated"
)

// networksFolder is the folder for the networks of VMs.
const networksFolder = "networks"

func (r *root) networks() string { return filepath.Join(r.dir, networksFolder) }

// kindOf returns the kind of a network: the one in its cloud_properties, or own if this
// machine does not have the address.
func kindOf(name string, fields map[string]any) (string, error) {
	props, _ := fields["cloud_properties"].(map[string]any)
	ip, _ := fields["ip"].(string)
	type_, _ := fields["type"].(string)
	switch asked := props[kindProperty]; asked {
	case nil:
	case NetworkMachine:
		return NetworkMachine, nil
	case NetworkOwn, NetworkIsolated:
		if type_ == "vip" || type_ == "dynamic" || ip == "" {
			return "", fail(cpi.TypeCloudError, "cannot use '%s: %v' in the cloud_properties of network '%s': only a manual network can have it", kindProperty, asked, name)
		}
		return asked.(string), nil
	default:
		return "", fail(cpi.TypeCloudError, "cannot use '%s: %v' in the cloud_properties of network '%s': it must be %s, %s or %s", kindProperty, asked, name, NetworkMachine, NetworkOwn, NetworkIsolated)
	}
	if netmask, _ := fields["netmask"].(string); type_ != "manual" && type_ != "" || ip == "" || netmask == "" {
		return NetworkMachine, nil
	}
	if addr, err := netip.ParseAddr(ip); err != nil || addr.Unmap().IsLoopback() {
		return NetworkMachine, nil
	}
	if mine, err := isMine(ip); err != nil || mine {
		return NetworkMachine, err
	}
	return NetworkOwn, nil
}

// isMine reports whether this machine has the address.
func isMine(ip string) (bool, error) {
	address, err := netip.ParseAddr(ip)
	if err != nil {
		return false, err
	}
	mine, err := net.InterfaceAddrs()
	if err != nil {
		return false, fmt.Errorf("cannot list this machine's addresses: %w", err)
	}
	return slices.ContainsFunc(mine, func(one net.Addr) bool {
		prefix, err := netip.ParsePrefix(one.String())
		return err == nil && prefix.Addr().Unmap().WithZone("") == address.Unmap()
	}), nil
}

// networkSpec returns the VM's own network; nil: the VM uses this machine's network.
func networkSpec(asked networks) (*network.Spec, error) {
	spec := &network.Spec{}
	shared, own := "", ""
	for _, name := range asked.inOrder() {
		kind, err := kindOf(name, asked[name])
		if err != nil {
			return nil, err
		}
		if kind == NetworkMachine {
			if type_, _ := asked[name]["type"].(string); type_ != "vip" {
				shared = name
			}
			continue
		}
		i, err := interfaceOf(name, asked[name])
		if err != nil {
			return nil, err
		}
		if kind == NetworkOwn && i.Address.Addr().Is6() {
			return nil, fail(cpi.TypeCloudError, "cannot use network '%s': %s is not an address of this machine, and only IPv4 networks lead outside; use an IPv4 address, or set 'kind: %s' in the network's cloud_properties", name, i.Address.Addr(), NetworkIsolated)
		}
		i.Name = fmt.Sprintf("eth%d", len(spec.Interfaces))
		i.Out = kind == NetworkOwn && i.Gateway.IsValid()
		own = cmp.Or(own, name)
		if len(spec.Interfaces) > 0 {
			i.Gateway, i.Out = netip.Addr{}, false // only the VM's main network has the default route
		}
		if slices.ContainsFunc(spec.Interfaces, func(o network.Interface) bool { return o.Segment() == i.Segment() }) {
			return nil, fail(cpi.TypeCloudError, "cannot use network '%s': another network of the VM has the same range; remove one of the two", name)
		}
		spec.Interfaces = append(spec.Interfaces, i)
		servers, err := nameServers(name, asked[name])
		if err != nil {
			return nil, err
		}
		spec.DNS = append(spec.DNS, servers...)
	}
	switch {
	case len(spec.Interfaces) == 0:
		return nil, nil
	case shared != "":
		return nil, fail(cpi.TypeCloudError, "cannot use network '%s', which is this machine's, and network '%s' with %s for the same VM: a VM has this machine's network or networks of its own; remove one of the two", shared, own, spec.Interfaces[0].Address)
	}
	return spec, nil
}

// inOrder returns the names of the networks, the main one first.
func (n networks) inOrder() []string {
	names := slices.Sorted(maps.Keys(n))
	main := slices.IndexFunc(names, func(name string) bool {
		defaults, _ := n[name]["default"].([]any)
		return slices.Contains(defaults, any("gateway"))
	})
	if main > 0 {
		name := names[main]
		names = append([]string{name}, slices.Delete(names, main, main+1)...)
	}
	return names
}

func interfaceOf(name string, fields map[string]any) (i network.Interface, err error) {
	text := func(key string) string { s, _ := fields[key].(string); return s }
	addr, err := netip.ParseAddr(text("ip"))
	if err != nil {
		return i, fail(cpi.TypeCloudError, "cannot use network '%s': '%s' is not an IP address", name, text("ip"))
	}
	addr = addr.Unmap()
	if addr.IsLoopback() || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() {
		return i, fail(cpi.TypeCloudError, "cannot use network '%s': %s cannot be the address of a VM in a network of its own", name, addr)
	}
	bits := -1
	if mask, err := netip.ParseAddr(text("netmask")); err == nil && mask.BitLen() == addr.BitLen() {
		if ones, size := net.IPMask(mask.AsSlice()).Size(); size > 0 {
			bits = ones
		}
	}
	if bits < 0 {
		return i, fail(cpi.TypeCloudError, "cannot use network '%s': its netmask '%s' is not valid for %s", name, text("netmask"), addr)
	}
	i.Address = netip.PrefixFrom(addr, bits)
	if gateway, err := netip.ParseAddr(text("gateway")); err == nil && gateway.Unmap() != addr {
		i.Gateway = gateway.Unmap()
	}
	return i, nil
}

func nameServers(name string, fields map[string]any) (servers []netip.Addr, err error) {
	list, _ := fields["dns"].([]any)
	for _, one := range list {
		text, _ := one.(string)
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fail(cpi.TypeCloudError, "cannot use network '%s': '%v' in its dns is not an IP address", name, one)
		}
		servers = append(servers, addr)
	}
	return servers, nil
}

// helperRemedy is what a person can do if there is no helper.
const helperRemedy = "install the package slirp4netns or passt"

// wayOut returns the program that connects the VM's networks to others; empty: they need
// none.
func wayOut(spec *network.Spec) (string, error) {
	if spec == nil || !slices.ContainsFunc(spec.Interfaces, func(i network.Interface) bool { return i.Out }) {
		return "", nil
	}
	program, err := network.Helper()
	if err != nil {
		return "", fmt.Errorf("cannot give the VM a network of its own, because %s is not an address of this machine: %w; %s, use 127.0.0.1 or another address of this machine, or set 'kind: isolated' in the network's cloud_properties if the VM needs no way out", spec.Interfaces[0].Address.Addr(), err, helperRemedy)
	}
	return program, nil
}

// withResolver returns the VM's network with the name server of that program, if the
// manifest names none.
func withResolver(spec *network.Spec, program string) *network.Spec {
	if spec == nil || len(spec.DNS) > 0 || program == "" {
		return spec
	}
	with := *spec
	with.DNS = []netip.Addr{network.Resolver(program, spec.Interfaces[0])}
	return &with
}

// ownNetwork adds the VM's own network to the record of a new VM, if one is requested.
func (c *call) ownNetwork(machine *vm) error {
	if err := c.wishNetwork(machine); err != nil || machine.Own == nil {
		return err
	}
	if _, err := wayOut(machine.Own); err != nil {
		return err
	}
	return c.addressFree(machine.Own)
}

// wishNetwork sets the requested network of the VM.
func (c *call) wishNetwork(machine *vm) (err error) {
	if machine.Own, err = networkSpec(machine.Networks); err != nil {
		return err
	}
	ports, err := network.ParsePorts(c.cfg.Ports)
	if err != nil {
		return fmt.Errorf("cannot use local_cpi.ports: %w", err)
	}
	if machine.Own == nil {
		if len(ports) > 0 {
			return fail(cpi.TypeCloudError, "cannot use local_cpi.ports: the VM shares this machine's network, so its jobs listen at this machine's ports already; remove the property, or give the VM an address that this machine does not have")
		}
		return nil
	}
	machine.Ports = ports
	if !agent.Isolated(machine.Machine) {
		return fail(cpi.TypeCloudError, "cannot give the VM the address %s: it is not an address of this machine, and only a VM of namespaces has a network of its own; use 127.0.0.1 or another of its addresses", machine.Own.Interfaces[0].Address.Addr())
	}
	return nil
}

// addressFree returns an error if another VM of the network has the address.
func (c *call) addressFree(spec *network.Spec) error {
	return c.eachOwn(func(other vm) error {
		for _, theirs := range other.Own.Interfaces {
			for _, ours := range spec.Interfaces {
				if theirs.Segment() == ours.Segment() && theirs.Address.Addr() == ours.Address.Addr() {
					return fail(cpi.TypeCloudError, "cannot give the VM the address %s: VM '%s' has it, in the same network %s", ours.Address.Addr(), other.CID, ours.Address.Masked())
				}
			}
		}
		return nil
	})
}

// eachOwn calls do for each VM that has a network of its own.
func (c *call) eachOwn(do func(vm) error) error {
	if _, err := os.Lstat(c.root.networks()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	cids, err := c.root.list(vms())
	if err != nil {
		return err
	}
	for _, cid := range cids {
		var machine vm
		if err := c.root.load(vms(), cid, &machine); err != nil || machine.Own == nil {
			continue
		}
		if err := do(machine); err != nil {
			return err
		}
	}
	return nil
}

// connect starts the process that connects a VM to its network. open are its published
// ports, and out is the program that connects to other networks.
func (c *call) connect(ctx context.Context, machine vm, program, out string, open []*os.File) error {
	dir := c.root.path(vms(), machine.CID)
	cable := network.Cable{Dir: dir, Networks: c.root.networks(), Spec: machine.Own, Ports: machine.Ports, Out: out}
	cable.UID, cable.GID = namespace.Owner()
	return cable.Start(ctx, program, environment(dir), open)
}

// reconnect connects VMs again if their connecting process has ended.
func (c *call) reconnect(ctx context.Context) error {
	return c.eachOwn(func(machine vm) error {
		c.reconnectVM(ctx, machine)
		return nil
	})
}

// reconnectTime is how long connecting a VM again may take.
const reconnectTime = 10 * time.Second

// reconnectVM connects a VM again if its connecting process has ended. An error is
// written to the agent's log, because it is not an error of the present command.
func (c *call) reconnectVM(ctx context.Context, machine vm) {
	ctx, cancel := context.WithTimeout(ctx, reconnectTime)
	defer cancel()
	dir := c.root.path(vms(), machine.CID)
	if network.IsConnected(dir) || !network.Runs(ctx, dir) {
		return
	}
	log, program, err := prepareStart(c.self, dir)
	if err != nil {
		return
	}
	defer log.Close()
	out, err := wayOut(machine.Own)
	var open []*os.File
	if err == nil {
		open, err = network.Open(ctx, machine.Ports)
	}
	if err == nil {
		defer closeFiles(open)
		err = c.connect(ctx, machine, program, out, open)
	}
	if err != nil {
		fmt.Fprintf(log, "the VM is not connected to its network: %v\n", err)
	}
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// NewNetwork returns the network of a new VM of a kind, with these networks and published
// ports: whether it is the VM's own and, if so, the program that connects to other
// networks, and the ports. The error says why the VM cannot have the network, as far as
// that is known before it has addresses.
func NewNetwork(asked map[string]map[string]any, published any, machine string) (own bool, out string, ports []string, err error) {
	var nets networks
	var list []string
	if text, failed := json.Marshal(asked); failed != nil || json.Unmarshal(text, &nets) != nil {
		return false, "", nil, nil // the CPI reports this error
	}
	if text, failed := json.Marshal(published); failed != nil || json.Unmarshal(text, &list) != nil {
		return false, "", nil, errors.New("cannot use local_cpi.ports: it must be a list of texts such as 8080:80")
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(nets)), lacksAddress) {
		if nets, err = resolve(nets); err != nil {
			return false, "", nil, err
		}
	}
	c := &call{}
	c.cfg.Ports = list
	made := vm{Machine: machine, Networks: nets}
	if err := c.wishNetwork(&made); err != nil || made.Own == nil {
		return false, "", nil, err
	}
	for _, p := range made.Ports {
		ports = append(ports, p.String())
	}
	program, err := wayOut(made.Own)
	if program != "" {
		program = filepath.Base(program)
	}
	return true, program, ports, err
}

// OwnNetwork returns the kind of a network of their own that several new VMs of this machine can
// have; empty: they can only share this machine's network.
func OwnNetwork(ctx context.Context, self string) string {
	if kind, _, _ := NewMachine(ctx, self, "", false); kind != agent.MachineNamespace {
		return ""
	}
	if _, err := network.Helper(); err != nil {
		return NetworkIsolated
	}
	return NetworkOwn
}

// lacksAddress reports whether the address of a network is not chosen yet.
func lacksAddress(fields map[string]any) bool {
	ip, _ := fields["ip"].(string)
	return ip == "" && fields["type"] != "dynamic"
}
