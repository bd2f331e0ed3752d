package deployer

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

func TestListenerAt(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("not here: %v", err)
			continue
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if by := listenerAt(port); !strings.HasPrefix(by, fmt.Sprintf("process %d (", os.Getpid())) {
			t.Errorf("%s: %q", l.Addr(), by)
		}
		l.Close()
	}
	for _, port := range []string{"", "x", "70000"} {
		if by := listenerAt(port); by != "" {
			t.Errorf("%q: %q", port, by)
		}
	}
}

func TestNameOf(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"mysql":                          {"/usr/bin/mysql", "-pSECRET"},
		"bootstrap plugin agent /a/vm-1": {"/opt/bootstrap", "plugin", "agent", "/a/vm-1"},
		"bootstrap":                      {"bootstrap", "plugin", "agent", "/a/vm-1", "SECRET"},
		".":                              {""},
	} {
		if got := nameOf(args); got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}
