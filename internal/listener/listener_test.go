package listener

import (
	"net"
	"os"
	"testing"
)

func TestAt(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("not here: %v", err)
			continue
		}
		if p := At(t.Context(), l.Addr().String()); p.PID != os.Getpid() || p.Name == "" {
			t.Errorf("%s: %v", l.Addr(), p)
		}
		l.Close()
	}
	for _, address := range []string{"", "x", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"} {
		if p := At(t.Context(), address); p != (Process{}) {
			t.Errorf("%q: %v", address, p)
		}
	}
}

// On a machine with many addresses, each of them has its own ports.
func TestAtOneOfManyAddresses(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for host, here := range map[string]bool{"127.0.0.1": true, "": true, "0.0.0.0": true, "127.0.0.2": false, "::1": false} {
		if p := At(t.Context(), net.JoinHostPort(host, port)); (p.PID == os.Getpid()) != here {
			t.Errorf("%q: %v", host, p)
		}
	}
}

// Only the folder of an embedded VM is shown: other arguments may be secrets.
func TestAbout(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"process 7 (mysql)":                          {"/usr/bin/mysql", "-pSECRET"},
		"process 7 (the agent of the VM in /a/vm-1)": {"/opt/bootstrap", "plugin", "agent", "/a/vm-1"},
		"process 7 (the agent of the VM in /a/vm-2)": {"/run/machine/program", "plugin", "agent-inside", "/a/vm-2"},
		"process 7 (bootstrap)":                      {"bootstrap", "plugin", "agent", "/a/vm-1", "SECRET"},
		"process 7":                                  {""},
	} {
		if got := about(7, args).String(); got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}
