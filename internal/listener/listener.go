// Package listener finds the process that listens at a TCP address of this machine.
package listener

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	sockets "github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/process"
)

// searchTime limits the search for a process.
const searchTime = 3 * time.Second

// Process is a process that listens on a port.
type Process struct {
	PID  int    // 0: unknown
	Name string // name of the program; empty: unknown
	// VM is the folder of the embedded VM that the process belongs to; empty: it belongs
	// to no VM.
	VM string
}

// At finds the process that keeps others from listening at host:port: it listens there,
// or at all addresses. An empty host means all addresses. The result is unknown if the
// process belongs to another user or is in another network namespace, and on operating
// systems that do not report it.
func At(ctx context.Context, address string) Process {
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return Process{}
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Process{}
	}
	connections, err := sockets.ConnectionsWithContext(ctx, "tcp")
	if err != nil {
		return Process{}
	}
	for _, c := range connections {
		if c.Status == "LISTEN" && uint64(c.Laddr.Port) == number && c.Pid > 0 && clash(c.Laddr.IP, host) {
			// A process without a readable command line may be of another user.
			argv, _ := (&process.Process{Pid: c.Pid}).CmdlineSliceWithContext(ctx)
			p := about(int(c.Pid), argv)
			if p.VM == "" {
				p.VM = vmOf(ctx, c.Pid)
			}
			return p
		}
	}
	return Process{}
}

// Refused returns why nobody, or not this user, can listen at host:port; empty if the
// error has another reason.
func Refused(address string, err error) string {
	host, port, _ := net.SplitHostPort(address)
	switch {
	case errors.Is(err, syscall.EACCES):
		return "this machine allows only root to listen at ports below 1024; use a higher one, or sudo sysctl -w net.ipv4.ip_unprivileged_port_start=" + port
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return host + " is not an address of this machine"
	}
	return ""
}

// clash reports whether nobody can listen at both hosts with the same port.
func clash(a, b string) bool {
	every := func(host string) bool {
		ip := net.ParseIP(host)
		return host == "" || host == "*" || ip != nil && ip.IsUnspecified()
	}
	x, y := net.ParseIP(a), net.ParseIP(b)
	return every(a) || every(b) || a == b || x != nil && x.Equal(y)
}

// String names the process: "process 12 (mysqld)".
func (p Process) String() string {
	switch {
	case p.PID == 0:
		return "another process"
	case p.VM != "" && p.Name == "":
		return fmt.Sprintf("process %d (the agent of the VM in %s)", p.PID, p.VM)
	case p.VM != "":
		return fmt.Sprintf("process %d (%s of the VM in %s)", p.PID, p.Name, p.VM)
	case p.Name == "":
		return fmt.Sprintf("process %d", p.PID)
	}
	return fmt.Sprintf("process %d (%s)", p.PID, p.Name)
}

// about returns those facts about a process that may be shown: other arguments of its
// command may be secrets.
func about(pid int, argv []string) Process {
	p := Process{PID: pid}
	if len(argv) > 0 && argv[0] != "" {
		p.Name = filepath.Base(argv[0])
	}
	if len(argv) == 4 && argv[1] == "plugin" && (argv[2] == "agent" || argv[2] == "agent-inside") {
		p.Name, p.VM = "", argv[3]
	}
	var cable struct {
		Dir string `json:"dir"`
	}
	if len(argv) == 4 && argv[1] == "plugin" && argv[2] == "network" && json.Unmarshal([]byte(argv[3]), &cable) == nil && cable.Dir != "" {
		p.Name, p.VM = "a published port", cable.Dir
	}
	return p
}

// generations is the largest number of processes between a process and the first process
// of its VM.
const generations = 32

// vmOf returns the folder of the VM that a process belongs to, for a VM that consists of
// namespaces; empty: it belongs to none.
func vmOf(ctx context.Context, pid int32) string {
	for range generations {
		parent, err := (&process.Process{Pid: pid}).PpidWithContext(ctx)
		if err != nil || parent <= 1 {
			return ""
		}
		pid = parent
		argv, _ := (&process.Process{Pid: pid}).CmdlineSliceWithContext(ctx)
		var vm struct {
			Dir string `json:"dir"`
		}
		if len(argv) == 5 && argv[1] == "plugin" && argv[2] == "machine" && json.Unmarshal([]byte(argv[4]), &vm) == nil {
			return vm.Dir
		}
	}
	return ""
}

// PortsOf returns the TCP ports at which the processes of an embedded VM listen, in
// ascending order, without those of its agent. vm is the name of the VM's folder. The
// result is empty on systems that do not show processes.
func PortsOf(ctx context.Context, vm string) []int {
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	connections, err := sockets.ConnectionsWithContext(ctx, "tcp")
	if err != nil {
		return nil
	}
	of := map[int32]bool{}
	var ports []int
	for _, c := range connections {
		if c.Status != "LISTEN" || c.Pid <= 0 {
			continue
		}
		is, known := of[c.Pid]
		if !known {
			is = serves(ctx, c.Pid, vm)
			of[c.Pid] = is
		}
		if is {
			ports = append(ports, int(c.Laddr.Port))
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// serves reports whether a process belongs to the VM in the folder of that name, and is
// not an agent.
func serves(ctx context.Context, pid int32, vm string) bool {
	p := &process.Process{Pid: pid}
	argv, err := p.CmdlineSliceWithContext(ctx)
	if err != nil {
		return false
	}
	found := about(int(pid), argv)
	switch {
	case found.VM != "":
		return found.Name != "" && filepath.Base(found.VM) == vm
	case len(argv) > 2 && argv[1] == "plugin": // another part of the agent
		return false
	}
	if dir := vmOf(ctx, pid); dir != "" {
		return filepath.Base(dir) == vm
	}
	env, err := p.EnvironWithContext(ctx)
	return err == nil && slices.ContainsFunc(env, func(v string) bool {
		root, ok := strings.CutPrefix(v, "VCAP_ROOT=")
		return ok && filepath.Base(filepath.Dir(root)) == vm
	})
}
