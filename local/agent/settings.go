package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"bootstrap/internal/atomicfile"

	"bootstrap/agent"
	"bootstrap/internal/guard"
	"bootstrap/local/machine"
)

const (
	fetchTimeout = 10 * time.Second
	maxSettings  = 16 << 20
)

// settings are the settings from the CPI, with the changes that messages made.
type settings struct {
	fetch                 func(context.Context) ([]byte, error)
	cache, updates, hints string // names of files
	log                   *slog.Logger

	mu      sync.Mutex
	current agent.Settings
	env     diskEnv
	update  updateSettings
}

// diskEnv is the part of the env about mounting disks.
type diskEnv struct {
	Env struct {
		FS          string   `json:"persistent_disk_fs"`
		Options     []string `json:"persistent_disk_mount_options"`
		Partitioner string   `json:"persistent_disk_partitioner"`
	} `json:"env"`
}

// updateSettings is the argument of update_settings.
type updateSettings struct {
	Blobstores       []agent.Blobstore `json:"blobstores"`
	DiskAssociations []struct {
		Name string `json:"name"`
		CID  string `json:"cid"`
	} `json:"disk_associations"`
	MBus struct {
		Cert agent.Cert `json:"cert"`
		URLs []string   `json:"urls"`
	} `json:"mbus"`
	TrustedCerts string `json:"trusted_certs"`
}

// names returns the names of the disks.
func (u *updateSettings) names() map[string]bool {
	names := map[string]bool{}
	for _, d := range u.DiskAssociations {
		names[d.Name] = true
	}
	return names
}

// merge adds another update and reports whether the agent has to restart.
func (u *updateSettings) merge(other updateSettings) bool {
	u.TrustedCerts, u.DiskAssociations = other.TrustedCerts, other.DiskAssociations
	restart := false
	empty := updateSettings{}.MBus
	if !reflect.DeepEqual(other.MBus, u.MBus) && !reflect.DeepEqual(other.MBus, empty) {
		u.MBus, restart = other.MBus, true
	}
	if other.Blobstores != nil && !reflect.DeepEqual(other.Blobstores, u.Blobstores) {
		u.Blobstores, restart = other.Blobstores, true
	}
	return restart
}

// load fetches the settings. If that fails, it uses the last ones.
func (s *settings) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	data, err := s.fetch(ctx)
	var fresh agent.Settings
	if err == nil {
		err = json.Unmarshal(data, &fresh)
	}
	if err == nil {
		err = checkSettings(fresh)
	}
	if err != nil {
		cached, cerr := os.ReadFile(s.cache)
		if cerr == nil {
			cerr = json.Unmarshal(cached, &fresh)
		}
		if cerr != nil || checkSettings(fresh) != nil {
			return failf("Invoking settings fetcher: %w", err)
		}
		s.log.Warn("using the last settings", "cause", err)
		data = cached
	} else if err := atomicfile.WriteMode(s.cache, data, 0o600); err != nil {
		return failf("Writing setting json: %w", err)
	}
	var env diskEnv
	if err := json.Unmarshal(data, &env); err != nil {
		return failf("Reading the settings: %w", err)
	}
	var update updateSettings
	if err := readJSON(s.updates, &update); err != nil {
		return failf("Reading Update Settings json: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.env, s.update = fresh, env, update
	return nil
}

// checkSettings refuses incomplete settings, such as the empty object of a VM
// that is still being created.
func checkSettings(s agent.Settings) error {
	if s.AgentID == "" {
		return errors.New("the settings have no agent_id")
	}
	return nil
}

// forget removes the changes that messages made, like a reboot does if the settings are
// kept in memory (env.bosh.agent.settings.tmpfs).
func (s *settings) forget() error {
	if !s.get().Env.Bosh.Agent.Settings.TmpFS {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update = updateSettings{}
	return removeFiles(s.updates)
}

func (s *settings) get() agent.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// apply stores an update and reports whether the agent has to restart.
func (s *settings) apply(other updateSettings) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.update
	restart := next.merge(other)
	if restart {
		// If the agent could not restart with these settings, it could never get others.
		if len(next.MBus.URLs) > 0 {
			if _, err := parseBus(next.MBus.URLs[0]); err != nil {
				return false, err
			}
		}
		if c := next.MBus.Cert; c.CA != "" {
			if _, err := tls.X509KeyPair([]byte(c.Certificate), []byte(c.PrivateKey)); err != nil {
				return false, fmt.Errorf("cannot use the certificate for the message bus: %w", err)
			}
		}
	}
	if err := writeJSON(s.updates, next, 0o600); err != nil {
		return false, failf("Writing Update Settings json: %w", err)
	}
	s.update = next
	return restart, nil
}

// bus is the URL at which the agent listens, from the newest of the three
// places that can contain it.
func (s *settings) bus() (*url.URL, error) {
	s.mu.Lock()
	given := s.current.MBus
	text := given
	if urls := s.current.Env.Bosh.MBus.URLs; len(urls) > 0 {
		text = urls[0]
	}
	if len(s.update.MBus.URLs) > 0 {
		text = s.update.MBus.URLs[0]
	}
	s.mu.Unlock()
	bus, err := parseBus(text)
	if err != nil {
		return nil, err
	}
	// VMs without a network of their own share this machine's: there the CPI replaced all
	// addresses by that of the VM.
	if own, err := parseBus(given); err == nil && allAddresses(bus) && !allAddresses(own) {
		bus.Host = net.JoinHostPort(own.Hostname(), bus.Port())
	}
	return bus, nil
}

// allAddresses reports whether a URL has the host 0.0.0.0 or [::].
func allAddresses(bus *url.URL) bool {
	ip := net.ParseIP(bus.Hostname())
	return ip != nil && ip.IsUnspecified()
}

func parseBus(text string) (*url.URL, error) {
	bus, err := url.Parse(text)
	switch {
	case err != nil:
		// The parser's error would show the password.
		return nil, errors.New("cannot listen for messages: the mbus in the VM's settings is not a URL")
	case bus.Scheme != "https":
		return nil, fmt.Errorf("cannot listen for messages: the mbus in the VM's settings must be an https URL, not %q", bus.Scheme)
	case bus.Port() == "":
		return nil, fmt.Errorf("cannot listen for messages: the mbus in the VM's settings has no port (%s)", bus.Host)
	}
	return bus, nil
}

func (s *settings) cert() agent.Cert {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.update.MBus.Cert.CA != "" {
		return s.update.MBus.Cert
	}
	return s.current.Env.Bosh.MBus.Cert
}

// newSettings returns settings that are fetched from a file, or from the registry through
// a port that is forwarded to the VM.
func newSettings(vm machine.VM, log *slog.Logger, boot agent.Boot, dial func(ctx context.Context, network, address string) (net.Conn, error)) *settings {
	s := &settings{
		cache: vm.Path("bosh", "settings.json"), updates: vm.Path("bosh", "update_settings.json"),
		hints: vm.Path("bosh", "persistent_disk_hints.json"), log: log,
	}
	if boot.SettingsFile != "" {
		s.fetch = func(context.Context) ([]byte, error) { return os.ReadFile(boot.SettingsFile) }
		return s
	}
	client := &http.Client{
		Transport:     &http.Transport{DialContext: guard.Dial(dial), DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.fetch = func(ctx context.Context) ([]byte, error) {
		data, err := fetchRegistry(ctx, client, boot.Registry, boot.Name)
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // the URL in the error contains credentials
		}
		if err != nil {
			return nil, fmt.Errorf("cannot get the settings from the registry: %w", err)
		}
		return data, nil
	}
	return s
}

func fetchRegistry(ctx context.Context, client *http.Client, base, name string) ([]byte, error) {
	address := strings.TrimSuffix(base, "/") + "/instances/" + url.PathEscape(name) + "/settings"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	reply, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	var body struct {
		Settings string `json:"settings"`
		Status   string `json:"status"`
	}
	err = json.NewDecoder(io.LimitReader(reply.Body, maxSettings)).Decode(&body)
	switch {
	case reply.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered with status %d", reply.StatusCode)
	case err != nil:
		return nil, fmt.Errorf("its answer is not JSON: %w", err)
	case body.Status != "ok":
		return nil, fmt.Errorf("its status is %q", body.Status)
	}
	return []byte(body.Settings), nil
}

// network contains the settings that complete a network of a spec.
type network struct {
	Type, IP, Netmask, Gateway string
	UseDHCP, Resolved          bool
}

func networkOf(fields map[string]any) network {
	text := func(key string) string { s, _ := fields[key].(string); return s }
	flag := func(key string) bool { b, _ := fields[key].(bool); return b }
	return network{text("type"), text("ip"), text("netmask"), text("gateway"), flag("use_dhcp"), flag("resolved")}
}

func (n network) dhcp() bool {
	switch {
	case n.Type == "vip":
		return false
	case n.Type == "dynamic" || n.UseDHCP || n.Resolved:
		return true
	}
	return n.IP == "" || n.Netmask == ""
}

// resolve sets the address of a network without one to the address at which the agent
// listens: an embedded VM has no network interface of its own.
func (n network) resolve(bus *url.URL) network {
	if n.IP != "" {
		return n
	}
	n.IP, n.Netmask, n.Gateway = "127.0.0.1", "255.0.0.0", "127.0.0.1"
	if ip := net.ParseIP(bus.Hostname()); ip != nil && !ip.IsUnspecified() {
		n.IP = ip.String()
	}
	return n
}
