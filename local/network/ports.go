package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Port is a port of a VM that this machine publishes.
type Port struct {
	Network string         `json:"network"` // tcp or udp
	Listen  netip.AddrPort `json:"listen"`  // port on this machine
	Port    uint16         `json:"port"`    // port of the VM
}

// loopback is the address for published ports without an address.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1}) // a constant

// String returns the port in the form in which a person writes it.
func (p Port) String() string {
	text := fmt.Sprintf("%s:%d", p.Listen, p.Port)
	if p.Network == "udp" {
		text += "/udp"
	}
	return text
}

// ParsePorts reads a list of published ports: "8080:80", "127.0.0.1:8080:80",
// "[::1]:8080:80", "80", each with "/udp" or "/tcp" at the end if wanted.
func ParsePorts(list []string) ([]Port, error) {
	var ports []Port
	for _, text := range list {
		p, err := parsePort(text)
		if err != nil {
			return nil, fmt.Errorf("cannot publish the port '%s': %w", text, err)
		}
		if i := slices.IndexFunc(ports, p.clashes); i >= 0 && ports[i].Listen == p.Listen {
			return nil, fmt.Errorf("cannot publish the port '%s': %s is in the list twice", text, p.Listen)
		} else if i >= 0 {
			return nil, fmt.Errorf("cannot publish the port '%s': %s and %s of the list include each other; remove one of the two", text, p.Listen, ports[i].Listen)
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// clashes reports whether only one of two ports can be published.
func (p Port) clashes(o Port) bool {
	a, b := p.Listen.Addr(), o.Listen.Addr()
	// All addresses of IPv6 include those of IPv4.
	includes := func(all, one netip.Addr) bool { return all.IsUnspecified() && (all.Is6() || one.Is4()) }
	return p.Network == o.Network && p.Listen.Port() == o.Listen.Port() && (a == b || includes(a, b) || includes(b, a))
}

var errPortForm = errors.New("want MACHINE_PORT:VM_PORT or ADDRESS:MACHINE_PORT:VM_PORT, with /udp at the end for UDP, such as 8080:80 or 127.0.0.1:5353:53/udp")

func parsePort(text string) (Port, error) {
	p := Port{Network: "tcp"}
	rest := text
	if where, kind, ok := strings.Cut(text, "/"); ok {
		if kind != "tcp" && kind != "udp" {
			return p, fmt.Errorf("'%s' is neither tcp nor udp", kind)
		}
		rest, p.Network = where, kind
	}
	rest, inside := cutLast(rest)
	var err error
	if p.Port, err = parseNumber(inside); err != nil {
		return p, err
	}
	address, outside := loopback, inside
	if rest != "" {
		var host string
		host, outside = cutLast(rest)
		if host != "" {
			if address, err = netip.ParseAddr(strings.Trim(host, "[]")); err != nil || strings.HasPrefix(host, "[") != address.Is6() {
				return p, fmt.Errorf("'%s' is not an IP address; %w", host, errPortForm)
			}
		}
	}
	number, err := parseNumber(outside)
	if err != nil {
		return p, err
	}
	p.Listen = netip.AddrPortFrom(address.Unmap(), number)
	return p, nil
}

// cutLast splits a text at its last colon.
func cutLast(text string) (before, after string) {
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		return text[:i], text[i+1:]
	}
	return "", text
}

func parseNumber(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("'%s' is not a port, 1 to 65535; %w", text, errPortForm)
	}
	return uint16(n), nil
}

// listenAddress returns the address of a port for package net.
func (p Port) listenAddress() string {
	return net.JoinHostPort(p.Listen.Addr().String(), strconv.Itoa(int(p.Listen.Port())))
}
