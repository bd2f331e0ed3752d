package local

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"

	"bootstrap/cpi/local/network"
)

// Dialer returns how this program reaches the VM below the CPI's folder root if the
// VM has a network of its own: from inside the VM, so that the addresses of agent and
// SSH server mean the same to both. It is nil if the VM shares this machine's
// network, or does not exist.
func Dialer(root, cid string) func(ctx context.Context, network, address string) (net.Conn, error) {
	machine, ok := ownVM(root, cid)
	if !ok {
		return nil
	}
	return func(ctx context.Context, kind, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return (&net.Dialer{}).DialContext(ctx, kind, address)
		}
		dir := filepath.Join(root, vms().folder, cid)
		if addr.IsLoopback() {
			conn, err := network.Dial(ctx, dir, kind, address)
			if !errors.Is(err, syscall.ECONNREFUSED) {
				return conn, err
			}
			// It may listen only at the VM's address.
			return network.Dial(ctx, dir, kind, net.JoinHostPort(machine.Own.Interfaces[0].Address.Addr().String(), port))
		}
		if !machine.Own.Has(addr.Unmap()) {
			if dir, ok = whoHas(root, addr.Unmap()); !ok {
				return (&net.Dialer{}).DialContext(ctx, kind, address)
			}
		}
		return network.Dial(ctx, dir, kind, address)
	}
}

// ownVM reads the record of a VM that has a network of its own.
func ownVM(root, cid string) (machine vm, ok bool) {
	if !isCID(vms(), cid) {
		return machine, false
	}
	err := readJSON(filepath.Join(root, vms().folder, cid, vms().record), &machine)
	return machine, err == nil && machine.Own != nil && len(machine.Own.Interfaces) > 0
}

// whoHas returns the folder of a VM with the address.
func whoHas(root string, addr netip.Addr) (dir string, ok bool) {
	entries, _ := os.ReadDir(filepath.Join(root, vms().folder))
	for _, entry := range entries {
		if machine, ok := ownVM(root, entry.Name()); ok && machine.Own.Has(addr) {
			return filepath.Join(root, vms().folder, entry.Name()), true
		}
	}
	return "", false
}
