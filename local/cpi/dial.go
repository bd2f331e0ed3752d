package cpi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"bootstrap/agent"
	"bootstrap/local/namespace"
	"bootstrap/local/network"
)

// sshPort is the port that the agent of a stemcell reports for the VM's SSH server.
const sshPort = "22"

// Dialer returns a function for connections to the VM below the CPI's folder root, if the
// VM has a network or a root file system of its own. With a network of its own, it
// connects from inside of the VM, where the addresses of agent and SSH server are valid.
// It is nil if this machine's network is sufficient, or if the VM does not exist. If the
// process that connects the VM to its network was killed, the first connection starts it
// again, with the program self.
func Dialer(self, root, cid string) func(ctx context.Context, network, address string) (net.Conn, error) {
	machine, ok := localVM(root, cid)
	if !ok {
		return nil
	}
	direct := (&net.Dialer{}).DialContext
	var dial dialFunc
	if machine.Own != nil {
		dial = ownDialer(self, root, machine)
	}
	if machine.Machine != agent.MachineContainer {
		return dial
	}
	return func(ctx context.Context, kind, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		switch {
		case err == nil && port == sshPort && machine.has(host):
			return dialLogin(ctx, filepath.Join(root, vms().folder, cid))
		case dial != nil:
			return dial(ctx, kind, address)
		}
		return direct(ctx, kind, address)
	}
}

// has reports whether an address belongs to the VM.
func (m vm) has(address string) bool {
	for _, one := range m.Networks {
		if one["ip"] == address {
			return true
		}
	}
	return false
}

// dialLogin connects to the socket for logins of the VM in dir.
func dialLogin(ctx context.Context, dir string) (net.Conn, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	// The name of a socket must be short.
	name := filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd())), namespace.LoginSocket)
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", name)
	if err != nil {
		return nil, fmt.Errorf("the VM takes no logins: %w", err)
	}
	return conn, nil
}

// ownDialer returns a function that connects from inside of a VM with a network of its
// own.
func ownDialer(self, folder string, machine vm) dialFunc {
	cid := machine.CID
	var first sync.Once
	return func(ctx context.Context, kind, address string) (net.Conn, error) {
		first.Do(func() { (&call{self: self, root: &root{dir: folder}}).reconnectVM(ctx, machine) })
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return (&net.Dialer{}).DialContext(ctx, kind, address)
		}
		dir := filepath.Join(folder, vms().folder, cid)
		if addr.IsLoopback() {
			conn, err := network.Dial(ctx, dir, kind, address)
			if !errors.Is(err, syscall.ECONNREFUSED) {
				return conn, err
			}
			// The server may listen only at the VM's address.
			return network.Dial(ctx, dir, kind, net.JoinHostPort(machine.Own.Interfaces[0].Address.Addr().String(), port))
		}
		if !machine.Own.Has(addr.Unmap()) {
			var ok bool
			if dir, ok = whoHas(folder, addr.Unmap()); !ok {
				return (&net.Dialer{}).DialContext(ctx, kind, address)
			}
		}
		return network.Dial(ctx, dir, kind, address)
	}
}

// localVM reads the record of a VM.
func localVM(root, cid string) (machine vm, ok bool) {
	if !isCID(vms(), cid) {
		return machine, false
	}
	err := readJSON(filepath.Join(root, vms().folder, cid, vms().record), &machine)
	return machine, err == nil
}

// ownVM reads the record of a VM that has a network of its own.
func ownVM(root, cid string) (machine vm, ok bool) {
	machine, ok = localVM(root, cid)
	return machine, ok && machine.Own != nil && len(machine.Own.Interfaces) > 0
}

// whoHas returns the folder of the VM that has the address.
func whoHas(root string, addr netip.Addr) (dir string, ok bool) {
	entries, _ := os.ReadDir(filepath.Join(root, vms().folder))
	for _, entry := range entries {
		if machine, ok := ownVM(root, entry.Name()); ok && machine.Own.Has(addr) {
			return filepath.Join(root, vms().folder, entry.Name()), true
		}
	}
	return "", false
}
