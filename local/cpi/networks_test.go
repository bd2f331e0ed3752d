//go:build !windows

package cpi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/internal/process"
	"bootstrap/local/network"
)

// servicePort is the port of stand-in agents with a network of their own.
const servicePort = 70

// serve answers lines of text: from the VM's address for an address, and with the VM's
// name and the same text for anything else.
func serve() error {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", servicePort))
	if err != nil {
		return err
	}
	packets, err := net.ListenPacket("udp", fmt.Sprintf(":%d", servicePort))
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	go func() {
		text := make([]byte, 1<<10)
		for {
			n, from, err := packets.ReadFrom(text)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(fmt.Appendf(nil, "%s: %s", name, text[:n]), from)
		}
	}()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answer(conn, name)
		}
	}()
	return nil
}

// answer answers one line. "send ADDRESS" sends many bytes to the address, and "count"
// counts received bytes.
func answer(conn net.Conn, name string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	line, _ := in.ReadString('\n')
	line = strings.TrimSpace(line)
	if line == "count" {
		n, _ := io.Copy(io.Discard, in)
		fmt.Fprint(conn, n)
		return
	}
	address, sends := strings.CutPrefix(line, "send ")
	if _, _, err := net.SplitHostPort(address); err != nil {
		fmt.Fprintf(conn, "%s: %s", name, line)
		return
	}
	inner, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		fmt.Fprint(conn, err)
		return
	}
	defer inner.Close()
	if sends {
		fmt.Fprintln(inner, "count")
		_, _ = inner.Write(make([]byte, manyBytes))
		_ = inner.(*net.TCPConn).CloseWrite()
	} else {
		fmt.Fprintln(inner, "from "+name)
	}
	_, _ = io.Copy(conn, inner)
}

// manyBytes is more than all buffers of a connection can have.
const manyBytes = 16 << 20

// say sends a line over a connection and returns the answer; empty: no answer.
func say(conn net.Conn, err error, line string) string {
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintln(conn, line)
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

// inside sends a line to the service of a VM, over the connection that bootstrap uses for
// agents.
func (w *world) inside(t *testing.T, vm, line string) string {
	t.Helper()
	dial := Dialer(os.Args[0], w.root, vm)
	if dial == nil {
		t.Fatalf("VM %s has no network of its own", vm)
	}
	conn, err := dial(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", servicePort))
	return say(conn, err, line)
}

func published(t *testing.T, address, line string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	return say(conn, err, line)
}

// freePort returns a free port of this machine.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// setPorts changes the published ports of VMs that are created later.
func (w *world) setPorts(t *testing.T, ports ...string) {
	t.Helper()
	w.cfg["ports"] = ports
	w.writeConfig(t)
	w.made = nil
}

func (w *world) ownVM(ctx context.Context, stemcell, name, ip, kind string) (string, error) {
	vm, err := w.client().CreateVM(ctx, cpi.VMRequest{
		AgentID: name, StemcellCID: stemcell, CloudProperties: map[string]any{"machine": w.machine},
		Networks: map[string]map[string]any{"default": {
			"type": "manual", "ip": ip, "netmask": "255.255.255.0", "gateway": "10.244.7.1",
			"cloud_properties": map[string]any{"kind": kind}, "default": []string{"dns", "gateway"},
		}},
		Env: map[string]any{"bosh": map[string]any{"password": "*"}},
	})
	return vm.CID, err
}

func (w *world) mustOwnVM(t *testing.T, stemcell, name, ip, kind string) string {
	t.Helper()
	vm, err := w.ownVM(t.Context(), stemcell, name, ip, kind)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

// cable returns the id of the process that connects a VM to its network.
func (w *world) cable(t *testing.T, vm string) int {
	t.Helper()
	found := 0
	until(t, "the cable of "+vm, func() bool {
		for _, pid := range processesBelow(w.file("vms", vm)) {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.Contains(string(text), "plugin\x00network\x00") && process.Lives(pid) {
				found = pid
			}
		}
		return found != 0
	})
	return found
}

// Two VMs of a network reach each other, and this machine reaches their published ports.
// Without the helper for other networks, they reach nothing else. Killed parts are
// started again, and nothing is left at the end.
func TestOwnNetwork(t *testing.T) {
	t.Parallel()
	w := namespaces(t)
	stemcell := w.stemcell(t)
	port := freePort(t)
	w.setPorts(t, fmt.Sprintf("%s:%d", port, servicePort), fmt.Sprintf("%s:%d/udp", port, servicePort))
	a := w.mustOwnVM(t, stemcell, "vm-a", "10.244.7.5", NetworkIsolated)
	w.setPorts(t)
	b := w.mustOwnVM(t, stemcell, "vm-b", "10.244.7.6", NetworkIsolated)

	check := func(when string) {
		t.Helper()
		if got := w.inside(t, b, "10.244.7.5:70"); got != "vm-a: from vm-b" {
			t.Errorf("%s, b gets %q from a", when, got)
		}
		if got := w.inside(t, a, "10.244.7.6:70"); got != "vm-b: from vm-a" {
			t.Errorf("%s, a gets %q from b", when, got)
		}
		if got := published(t, "127.0.0.1:"+port, "hello"); got != "vm-a: hello" {
			t.Errorf("%s, the published port answers %q", when, got)
		}
	}
	check("at first")
	if got := w.inside(t, a, "send 10.244.7.6:70"); got != strconv.Itoa(manyBytes) {
		t.Errorf("of %d bytes, %q arrive at the other VM", manyBytes, got)
	}
	packets, err := net.Dial("udp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	_ = packets.SetDeadline(time.Now().Add(20 * time.Second))
	answer := make([]byte, 100)
	fmt.Fprint(packets, "packet")
	if n, err := packets.Read(answer); err != nil || string(answer[:n]) != "vm-a: packet" {
		t.Errorf("the UDP port answers %q, %v", answer[:n], err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := w.inside(t, a, l.Addr().String()); !strings.Contains(got, "refused") {
		t.Errorf("the VM reaches this machine's loopback: %q", got)
	}
	if got := w.inside(t, a, "192.0.2.1:70"); !strings.Contains(got, "unreachable") && !strings.Contains(got, "no route") {
		t.Errorf("an isolated VM reaches the outside: %q", got)
	}

	// The address is in use, and the port, too.
	if _, err := w.ownVM(t.Context(), stemcell, "vm-c", "10.244.7.5", NetworkIsolated); err == nil || !strings.Contains(err.Error(), "VM '"+a+"' has it") {
		t.Errorf("the same address twice: %v", err)
	}
	w.setPorts(t, port+":70")
	if _, err := w.ownVM(t.Context(), stemcell, "vm-c", "10.244.7.7", NetworkIsolated); err == nil || !strings.Contains(err.Error(), "at 127.0.0.1:"+port+": process ") {
		t.Errorf("the same port twice: %v", err)
	}

	// The next call replaces a cable that was killed.
	old := w.cable(t, a)
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the cable", func() bool { return !process.Lives(old) })
	if got := published(t, "127.0.0.1:"+port, "hello"); got != "" {
		t.Errorf("without a cable, the port answers %q", got)
	}
	if found, err := w.client().HasVM(t.Context(), b); err != nil || !found {
		t.Errorf("has_vm: %v, %v", found, err)
	}
	check("with another cable")
	if err := syscall.Kill(w.cable(t, a), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the cable", func() bool { return !network.IsConnected(w.file("vms", a)) })
	w.inside(t, a, "whatever")
	check("after a command")
	if err := w.client().RebootVM(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	check("after a reboot")

	if err := w.client().DeleteVM(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", "127.0.0.1:"+port); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the port of a deleted VM: %v, %v", conn, err)
	}
	if got := w.inside(t, b, "still"); got != "vm-b: still" {
		t.Errorf("the other VM answers %q", got)
	}
	if err := errors.Join(w.client().DeleteVM(t.Context(), b), w.client().DeleteStemcell(t.Context(), stemcell)); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t)
}

// If the first process of a VM is killed, its cable ends, and reboot_vm starts both
// again. The same in a folder with a long path and spaces.
func TestOwnNetworkEnds(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	long := filepath.Join("a home with spaces", strings.Repeat("long", 30))
	w := newWorld(t, 2, nil)
	w.machine, w.root = agent.MachineNamespace, filepath.Join(filepath.Dir(w.jobs), long, "root")
	w.cfg["root"] = w.root
	w.writeConfig(t)
	stemcell := w.stemcell(t)
	vm := w.mustOwnVM(t, stemcell, "vm-a", "10.244.7.5", NetworkIsolated)
	if got := w.inside(t, vm, "hello"); got != "vm-a: hello" {
		t.Errorf("it answers %q", got)
	}
	cable := w.cable(t, vm)
	for _, pid := range processesBelow(w.root) {
		if pid != cable {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "the end of all processes", func() bool { return len(processesBelow(w.root)) == 0 })
	if found, err := w.client().HasVM(t.Context(), vm); err != nil || !found {
		t.Errorf("has_vm: %v, %v", found, err)
	}
	if err := w.client().RebootVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if got := w.inside(t, vm, "again"); got != "vm-a: again" {
		t.Errorf("after a reboot it answers %q", got)
	}
	if err := errors.Join(w.client().DeleteVM(t.Context(), vm), w.client().DeleteStemcell(t.Context(), stemcell)); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t)
}

// A VM reaches other networks through a helper, which is started again when it ends.
// Without one, the error names the package before anything is created.
func TestWayOut(t *testing.T) {
	w := namespaces(t)
	stemcell := w.stemcell(t)
	outside := outsideAddress(t)
	l, err := net.Listen("tcp", net.JoinHostPort(outside, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hidden, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hidden.Close()
	for _, l := range []net.Listener{l, hidden} {
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go answer(conn, "outside")
			}
		}()
	}
	for _, name := range []string{"passt", "slirp4netns"} {
		t.Run(name, func(t *testing.T) {
			program, err := exec.LookPath(name)
			if err != nil {
				t.Skipf("%s is not installed", name)
			}
			t.Setenv("PATH", onlyWith(t, program))
			w.made = nil
			vm := w.mustOwnVM(t, stemcell, "vm-"+name, "10.244.7.5", NetworkOwn)
			reached := func() bool { return w.inside(t, vm, l.Addr().String()) == "outside: from vm-"+name }
			t.Cleanup(func() {
				if log, _ := os.ReadFile(w.file("vms", vm, "cable.log")); t.Failed() {
					t.Logf("the log of the cable: %s", log)
				}
			})
			until(t, "the outside", reached)
			if name == "passt" {
				t.Log("not tested: large uploads, with which some versions of passt stall")
			} else if got := w.inside(t, vm, "send "+l.Addr().String()); got != strconv.Itoa(manyBytes) {
				t.Errorf("of %d bytes, %q arrive outside", manyBytes, got)
			}
			for _, address := range []string{hidden.Addr().String()} {
				if got := w.inside(t, vm, address); strings.HasPrefix(got, "outside") {
					t.Errorf("the VM reaches this machine's loopback at %s", address)
				}
			}
			for _, pid := range helpers(t, w.cable(t, vm)) {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				until(t, "the end of the helper", func() bool { return !process.Lives(pid) })
			}
			until(t, "the outside again", reached)
			if err := w.client().DeleteVM(t.Context(), vm); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Setenv("PATH", onlyWith(t))
		w.made = nil
		const want = "neither slirp4netns nor passt (pasta) is installed; install the package slirp4netns or passt, use 127.0.0.1"
		if _, err := w.ownVM(t.Context(), stemcell, "vm-none", "10.244.7.5", NetworkOwn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without a helper: %v", err)
		}
		asked := map[string]map[string]any{"default": {"type": "manual", "ip": "10.244.7.5", "netmask": "255.255.255.0", "gateway": "10.244.7.1"}}
		if own, _, _, err := NewNetwork(asked, nil, agent.MachineNamespace); !own || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a plan without a helper: %v, %v", own, err)
		}
	})
	if err := w.client().DeleteStemcell(t.Context(), stemcell); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t)
}

// outsideAddress returns an address of this machine other than loopback.
func outsideAddress(t *testing.T) string {
	t.Helper()
	mine, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range mine {
		if ip, ok := one.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has only a loopback address")
	return ""
}

// onlyWith returns a PATH with what the CPI's script needs, and the named programs.
func onlyWith(t *testing.T, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range append(programs, bash) {
		if err := os.Symlink(program, filepath.Join(dir, filepath.Base(program))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// helpers returns the ids of the child processes of a cable.
func helpers(t *testing.T, cable int) []int {
	t.Helper()
	var found []int
	until(t, "the helper", func() bool {
		all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cable))
		for _, file := range all {
			text, _ := os.ReadFile(file)
			for child := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(child); err == nil {
					found = append(found, pid)
				}
			}
		}
		return len(found) > 0
	})
	return found
}

// Networks and ports that a VM cannot have are refused before anything is created.
func TestNewNetworkRefuses(t *testing.T) {
	t.Parallel()
	manual := func(ip, netmask, gateway string, properties map[string]any) map[string]any {
		return map[string]any{"type": "manual", "ip": ip, "netmask": netmask, "gateway": gateway, "cloud_properties": properties}
	}
	isolated := map[string]any{"kind": NetworkIsolated}
	good := manual("10.244.7.5", "255.255.255.0", "10.244.7.1", isolated)
	for name, c := range map[string]struct {
		networks map[string]map[string]any
		ports    any
		machine  string
		want     string
	}{
		"unknown kind":         {networks: map[string]map[string]any{"a": manual("10.244.7.5", "255.255.255.0", "", map[string]any{"kind": "bridge"})}, want: "it must be machine, own or isolated"},
		"dynamic":              {networks: map[string]map[string]any{"a": {"type": "dynamic", "cloud_properties": map[string]any{"kind": NetworkOwn}}}, want: "only a manual network can have it"},
		"with the machine's":   {networks: map[string]map[string]any{"a": good, "b": manual("127.0.0.1", "255.0.0.0", "", nil)}, want: "a VM has this machine's network or networks of its own"},
		"twice the same range": {networks: map[string]map[string]any{"a": good, "b": manual("10.244.7.6", "255.255.255.0", "", isolated)}, want: "another network of the VM has the same range"},
		"loopback":             {networks: map[string]map[string]any{"a": manual("127.0.0.5", "255.0.0.0", "", isolated)}, want: "127.0.0.5 cannot be the address of a VM"},
		"netmask":              {networks: map[string]map[string]any{"a": manual("10.244.7.5", "255.0.255.0", "", isolated)}, want: "its netmask '255.0.255.0' is not valid"},
		"IPv6 outside":         {networks: map[string]map[string]any{"a": manual("2001:db8::5", "ffff:ffff:ffff:ffff::", "2001:db8::1", nil)}, want: "only IPv4 networks lead outside"},
		"a folder":             {networks: map[string]map[string]any{"a": good}, machine: agent.MachineFolder, want: "only a VM of namespaces has a network of its own"},
		"ports of a shared":    {networks: map[string]map[string]any{"a": manual("127.0.0.1", "255.0.0.0", "", nil)}, ports: []any{"8080:80"}, want: "the VM shares this machine's network"},
		"ports not a list":     {networks: map[string]map[string]any{"a": good}, ports: "8080:80", want: "it must be a list"},
		"a port twice":         {networks: map[string]map[string]any{"a": good}, ports: []any{"8080:80", "8080:81"}, want: "is in the list twice"},
	} {
		machine := agent.MachineNamespace
		if c.machine != "" {
			machine = c.machine
		}
		if _, _, _, err := NewNetwork(c.networks, c.ports, machine); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	own, out, ports, err := NewNetwork(map[string]map[string]any{"a": good}, []any{"8080:80"}, agent.MachineNamespace)
	if !own || out != "" || len(ports) != 1 || err != nil {
		t.Errorf("an isolated network: %v, %q, %v, %v", own, out, ports, err)
	}
	if own, _, _, err := NewNetwork(map[string]map[string]any{"a": manual("127.0.0.1", "255.0.0.0", "", nil)}, nil, agent.MachineNamespace); own || err != nil {
		t.Errorf("this machine's network: %v, %v", own, err)
	}
}
