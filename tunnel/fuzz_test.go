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
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := ParseJump(text, func(string) string { return "" })
		if err != nil {
			return
		}
		if cfg.User == "" || cfg.Host == "" {
			t.Fatalf("%q is accepted: user %q, host %q", text, cfg.User, cfg.Host)
		}
		if _, _, err := net.SplitHostPort(net.JoinHostPort(cfg.Host, "22")); err != nil {
			t.Fatalf("%q: host %q: %v", text, cfg.Host, err)
		}
	})
}
