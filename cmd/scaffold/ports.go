package scaffold

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bootstrap/deployer/kept"
	"bootstrap/internal/listener"
)

// pagePort is the port of the example release on this machine.
const pagePort = "8788"

// mostShifts is how many environments on this machine can get ports of their own.
const mostShifts = 100

// choosePorts sets a number to add to all proposed ports of a VM on this machine, so that
// no process listens there and no deployed environment of this user has them. home is
// ~/.bosh; it may be empty. If the folder already has an environment, its ports stay.
func (r *Request) choosePorts(ctx context.Context, home string) {
	r.shift = 0
	if r.Provider != "local" {
		return
	}
	var ports []int
	if r.Purpose == release && r.found == nil {
		ports = append(ports, number(pagePort))
	}
	agent := 0
	for _, s := range r.settings() {
		if s.name == "agent_port" {
			agent = number(s.standard)
		}
		if s.isPort() && r.values[s.name] == "" {
			ports = append(ports, number(s.standard))
		}
	}
	recorded := map[int]bool{}
	for _, d := range deployed(home) {
		port := 0
		if u := d.MBusURL(); u != nil {
			port = number(u.Port())
		}
		if filepath.Dir(d.Manifest) == r.absolute() && port >= agent && port < agent+mostShifts {
			r.shift = port - agent
			return
		}
		recorded[port] = true
	}
	for shift := range mostShifts {
		free := true
		for _, port := range ports {
			free = free && !recorded[agent+shift] && !isTaken(ctx, port+shift)
		}
		if free {
			r.shift = shift
			return
		}
	}
}

// deployed returns the records in ~/.bosh of environments on this machine.
func deployed(home string) (list []kept.Deployment) {
	if home == "" {
		return nil
	}
	folders, _ := os.ReadDir(home) // if it cannot be read, there are none
	for _, f := range folders {
		if d, ok := kept.At(filepath.Join(home, f.Name())).Deployment(); ok && d.Local != "" {
			list = append(list, d)
		}
	}
	return list
}

// isPort reports whether the value is a port of this machine.
func (s *setting) isPort() bool { return strings.HasSuffix(s.name, "_port") }

// number returns a port; 0: it is none.
func number(port string) int {
	n, _ := strconv.Atoi(port)
	return n
}

// shifted returns a port for this request.
func (r *Request) shifted(port string) string { return strconv.Itoa(number(port) + r.shift) }

// isTaken reports whether another process listens at a port of the proposed address for
// VMs of this machine.
func isTaken(ctx context.Context, port int) bool {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return listener.Refused(address, err) == ""
	}
	_ = l.Close()
	return false
}
