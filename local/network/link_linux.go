package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Configure makes the interfaces of a VM, in whose network namespace this process runs,
// and returns their other ends, where the VM's frames arrive.
func Configure(spec *Spec) (ends []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, end := range ends {
				_ = end.Close()
			}
			ends = nil
			err = fmt.Errorf("cannot make the VM's network: %w", err)
		}
	}()
	if err := up("lo"); err != nil {
		return nil, err
	}
	// The queue of frames that the cable has not read yet is short. Frames that do not
	// fit are lost and sent again later; with a small send buffer that happens less
	// often, so connections are faster.
	_ = os.WriteFile("/proc/sys/net/ipv4/tcp_wmem", []byte("4096 65536 131072"), 0o644) // #nosec G306 -- it exists
	// A user of a VM with one user has no capabilities, not even NET_BIND_SERVICE of bpm.yml.
	_ = os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0o644) // #nosec G306 -- it exists
	for n, i := range spec.Interfaces {
		end, err := connect(i, fmt.Sprintf("wire%d", n))
		if err != nil {
			return ends, err
		}
		ends = append(ends, end)
	}
	return ends, nil
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	return nil
}

// connect makes one interface, and opens its other end, which has the name wire.
func connect(i Interface, wire string) (*os.File, error) {
	own := mac(i.Address.Addr())
	link := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: i.Name, MTU: mtu, HardwareAddr: net.HardwareAddr(own[:])},
		PeerName:  wire, PeerMTU: mtu,
	}
	if err := netlink.LinkAdd(link); err != nil {
		return nil, fmt.Errorf("interface %s: %w", i.Name, err)
	}
	peer, err := netlink.LinkByName(wire)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", wire, err)
	}
	// This end is not an interface of the VM: it has no address, not even an automatic
	// one.
	if err := netlink.LinkSetIP6AddrGenMode(peer, nl.IN6_ADDR_GEN_MODE_NONE); err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EAFNOSUPPORT) {
		return nil, fmt.Errorf("interface %s: %w", wire, err)
	}
	if err := completeFrames(i.Name); err != nil {
		return nil, fmt.Errorf("interface %s: %w", i.Name, err)
	}
	end, err := openWire(peer.Attrs().Index)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", wire, err)
	}
	if err := errors.Join(up(wire), up(i.Name), addAddress(link, i)); err != nil {
		_ = end.Close()
		return nil, err
	}
	return end, nil
}

func addAddress(link netlink.Link, i Interface) error {
	address := &netlink.Addr{IPNet: ipNet(i.Address)}
	if i.Address.Addr().Is6() {
		address.Flags = unix.IFA_F_NODAD // the CPI has checked that no other VM uses the address
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		return fmt.Errorf("address %s: %w", i.Address, err)
	}
	if !i.Gateway.IsValid() {
		return nil
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: i.Gateway.AsSlice()}
	if !i.Address.Contains(i.Gateway) {
		route.Flags = int(netlink.FLAG_ONLINK)
	}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("gateway %s: %w", i.Gateway, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// ethtoolValue is the kernel's struct of that name.
type ethtoolValue struct{ command, value uint32 }

// completeFrames makes the kernel compute the checksums of frames that it sends, and
// split them into packets, because the cable does neither.
func completeFrames(name string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	for _, command := range []uint32{unix.ETHTOOL_STSO, unix.ETHTOOL_SGSO, unix.ETHTOOL_STXCSUM} {
		value := ethtoolValue{command: command}
		request := struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}{data: unsafe.Pointer(&value)} // #nosec G103 -- the call reads the value before it returns
		copy(request.name[:unix.IFNAMSIZ-1], name)
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))) // #nosec G103 -- as above
		if errno != 0 {
			return fmt.Errorf("cannot turn off offloading: %w", errno)
		}
	}
	return nil
}

// openWire opens the other end of an interface for whole frames.
func openWire(index int) (*os.File, error) {
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	wire := os.NewFile(uintptr(s), "wire")
	_ = unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20) // as much as is allowed
	err = unix.SetsockoptInt(s, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	if err == nil {
		err = unix.Bind(s, &unix.SockaddrLinklayer{Protocol: allProtocols(), Ifindex: index})
	}
	if err != nil {
		_ = wire.Close()
		return nil, err
	}
	return wire, nil
}

// allProtocols is ETH_P_ALL in the byte order of the network.
func allProtocols() uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], unix.ETH_P_ALL)
	return binary.NativeEndian.Uint16(b[:])
}
