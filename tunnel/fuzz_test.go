package tunnel

import (
	"net"
	"testing"
)

// FuzzJump looks for addresses of jumpboxes that are taken for what they are
// not.
func FuzzJump(f *testing.F) {
	for _, s := range []string{
		"ssh+socks5://user@host:22?private-key=/key", "ssh://user:password@[::1]:2222", "ssh://host",
		"ssh://user@host:0?private-key=%00", "ssh://@:22", "ssh+socks5://a@b?private-key=a&private-key=b", "http://user@host",
		"ssh://one@a,ssh://two@b:99999", "ssh://user@host]22", "ssh+socks5://user@[fe80::1%25eth0]", "ssh://user@bücher.example",
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
