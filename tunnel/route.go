package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"bootstrap/internal/regular"
)

// Route makes connections through one or several machines. It logs in to each one from
// the previous one.
type Route struct{ jumps []*Jump }

// NewRoute returns a Route through the machines in their order; the first is
// reached with its Dial.
func NewRoute(machines []Config) *Route {
	r := &Route{}
	for i, cfg := range machines {
		if i > 0 {
			cfg.Dial = r.jumps[i-1].DialContext
		}
		r.jumps = append(r.jumps, NewJump(cfg))
	}
	return r
}

// Enter logs in to all machines now, so that errors appear before the route is used.
func (r *Route) Enter(ctx context.Context) error {
	_, _, err := r.last().enter(ctx)
	return err
}

// DialContext connects to address from the last machine.
func (r *Route) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return r.last().DialContext(ctx, network, address)
}

func (r *Route) last() *Jump { return r.jumps[len(r.jumps)-1] }

// Close ends all connections.
func (r *Route) Close() error {
	var errs []error
	for i := len(r.jumps) - 1; i >= 0; i-- {
		errs = append(errs, r.jumps[i].Close())
	}
	return errors.Join(errs...)
}

// ParseVia reads a list of machines, ssh://user@host:port?private-key=path separated by
// commas. If a URL has neither a key nor a password, the user's own keys are used: those
// of the ssh-agent and of ~/.ssh.
func ParseVia(text string, getenv func(string) string) ([]Config, error) {
	var machines []Config
	for part := range strings.SplitSeq(text, ",") {
		u := viaURL(part)
		if u == nil {
			// The value may contain a password.
			return nil, errors.New("expected ssh://user@host[:port][?private-key=PATH], several with commas between them")
		}
		cfg, err := fromURL(u, getenv)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u.Hostname(), err)
		}
		machines = append(machines, cfg)
	}
	return machines, nil
}

// IsVia reports whether text is the URL of one machine in the form that ParseVia reads.
func IsVia(text string) bool { return viaURL(text) != nil }

// viaURL parses the URL of one machine; nil if the text is not such a URL.
func viaURL(text string) *url.URL {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "ssh" || u.Hostname() == "" || u.User.Username() == "" || strings.Trim(u.Path, "/") != "" {
		return nil
	}
	return u
}

// fromURL returns the machine of a URL, with the keys that the environment names.
func fromURL(u *url.URL, getenv func(string) string) (Config, error) {
	cfg := Config{
		Host:        u.Hostname(),
		User:        u.User.Username(),
		Passphrase:  getenv("BOOTSTRAP_SSH_PASSPHRASE"),
		AgentSocket: getenv("SSH_AUTH_SOCK"),
	}
	if !isHost(cfg.Host) {
		return Config{}, fmt.Errorf("%q is neither a host name nor an IP address", cfg.Host)
	}
	cfg.Password, _ = u.User.Password()
	if port := u.Port(); port != "" {
		var err error
		if cfg.Port, err = strconv.Atoi(port); err != nil || cfg.Port < 1 || cfg.Port > 65535 {
			return Config{}, fmt.Errorf("%q is not a port", port)
		}
	}
	cfg.HostName = jumpboxName + cfg.Host
	if cfg.Port != 0 && cfg.Port != 22 {
		cfg.HostName = jumpboxName + cfg.address()
	}
	home := getenv("HOME")
	path := u.Query().Get("private-key")
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(home, rest)
	}
	if path != "" {
		key, err := regular.Read(path)
		if err != nil {
			return Config{}, fmt.Errorf("cannot read the private key: %w", err)
		}
		cfg.PrivateKey = string(key)
	} else if cfg.Password == "" && home != "" {
		cfg.PrivateKey = ownKey(filepath.Join(home, ".ssh"), cfg.Passphrase)
	}
	if cfg.PrivateKey == "" && cfg.Password == "" && cfg.AgentSocket == "" {
		return Config{}, errors.New("no private key, password or ssh-agent; add ?private-key=PATH to its URL, or run an ssh-agent")
	}
	return cfg, nil
}

// isHost reports whether name can be a host name or an address. URLs may contain other
// names, with which connecting would fail later.
func isHost(name string) bool {
	if ip, err := netip.ParseAddr(name); err == nil {
		name = ip.Zone() // most addresses have no zone
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return !unicode.In(c, unicode.Letter, unicode.Mark, unicode.Digit) && !strings.ContainsRune("-_.", c)
	})
}

// ownKey returns the first readable key that ssh itself would use; empty: there is none.
func ownKey(dir, passphrase string) string {
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		text, err := regular.Read(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if _, err := readKey(string(text), passphrase); err == nil {
			return string(text)
		}
	}
	return ""
}
