package tunnel

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// FuzzJump looks for addresses of jumpboxes that are parsed wrongly.
func FuzzJump(f *testing.F) {
	for _, s := range []string{
		"ssh+socks5://user@host:22?private-key=/key", "ssh://user:password@[::1]:2222", "ssh://host",
		"ssh://user@host:0?private-key=%00", "ssh://@:22", "ssh+socks5://a@b?private-key=a&private-key=b", "http://user@host",
		"ssh://one@a,ssh://two@b:99999", "ssh://user@host]22", "ssh+socks5://user@[fe80::1%25eth0]", "ssh://user@bücher.example",
		"ssh+socks5://user:password@[fe80::1%25]22]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		machines, _ := ParseVia(text, noEnv)
		if cfg, err := ParseJump(text, noEnv); err == nil {
			machines = append(machines, cfg)
		}
		for _, cfg := range machines {
			if cfg.User == "" || cfg.Host == "" {
				t.Fatalf("%q is accepted: user %q, host %q", text, cfg.User, cfg.Host)
			}
			if _, _, err := net.SplitHostPort(net.JoinHostPort(cfg.Host, "22")); err != nil {
				t.Fatalf("%q: host %q: %v", text, cfg.Host, err)
			}
		}
	})
}

// FuzzKnownHosts damages the file of known host keys: a VM's key is found unchanged or
// not at all, and lines of other hosts do not change.
func FuzzKnownHosts(f *testing.F) {
	_, public := newKey(f, "")
	key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
	for _, s := range []string{
		"", "vm-1 " + key + "\n", "vm-1 " + key, "\n\nvm-1\n", "vm-1 ssh-ed25519 AAAA\n", "vm-2 " + key + "\r\nvm-1 " + key + "\r\n",
		"# vm-1\nvm+1 " + key, "vm-1 command=\"x\" " + key, "\xEF\xBB\xBFvm-1 " + key, "vm-1 " + key[:30],
	} {
		f.Add(s, "vm-1")
		f.Add(s, "vm 1\n")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		if name == "" {
			t.Skip() // Forget does not remove a jumpbox, which is stored by its address
		}
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := &auth{cfg: Config{Host: "h", Port: 22, HostName: name, KnownHosts: file, Report: func(string) {}}}
		h, err := a.host()
		if err != nil {
			var damaged *knownHostsError
			if !errors.As(err, &damaged) || !strings.Contains(err.Error(), file) {
				t.Fatalf("a bad error: %v", err)
			}
		} else if h.know.key == nil {
			h.got = public
			if err := h.remember(t.Context()); err != nil {
				t.Fatal(err)
			}
			again, err := (&auth{cfg: a.cfg}).host()
			if err != nil || again.know.key == nil || !bytes.Equal(again.know.key.Marshal(), public.Marshal()) {
				t.Fatalf("remembered, and then: %v %v", again, err)
			}
		}
		if err := Forget(t.Context(), file, name); err != nil {
			t.Fatal(err)
		}
		if h, err := (&auth{cfg: a.cfg}).host(); err != nil || h.know.key != nil {
			t.Fatalf("forgotten, and still there: %v", err)
		}
	})
}
