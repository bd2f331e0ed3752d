package cpi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/local/namespace"
)

// settings is agent.Settings with the whole env of create_vm.
type settings struct {
	agent.Settings
	Env map[string]any `json:"env"`
}

// networks are the networks of a VM by name, in the form of create_vm's arguments and
// result.
type networks map[string]map[string]any

// resolve checks that this machine has the requested addresses, and chooses addresses for
// dynamic networks.
func resolve(asked networks) (networks, error) {
	if len(asked) == 0 {
		return nil, fail(cpi.TypeCloudError, "cannot make a VM without a network")
	}
	resolved := networks{}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		network := maps.Clone(asked[name])
		if network == nil {
			network = map[string]any{}
		}
		props, _ := network["cloud_properties"].(map[string]any)
		if err := refuseUnknown(fmt.Sprintf("the cloud_properties of network '%s'", name), props, kindProperty); err != nil {
			return nil, err
		}
		ip, _ := network["ip"].(string)
		switch kind, _ := network["type"].(string); {
		case kind == "dynamic" && ip == "":
			network["ip"], network["netmask"], network["gateway"] = "127.0.0.1", "255.0.0.0", "127.0.0.1"
		case kind == "dynamic" || kind == "manual" || kind == "" || kind == "vip":
			if own, err := kindOf(name, network); err != nil {
				return nil, err
			} else if own != NetworkMachine && runtime.GOOS == "linux" {
				break
			}
			if err := checkAddress(name, ip); err != nil {
				return nil, err
			}
		default:
			return nil, fail(cpi.TypeCloudError, "cannot use network '%s': its type '%s' is not manual, dynamic or vip", name, kind)
		}
		resolved[name] = network
	}
	return resolved, nil
}

func checkAddress(network, ip string) error {
	if ip == "" {
		return fail(cpi.TypeCloudError, "cannot use network '%s': it has no IP; give it one of this machine's addresses as static_ips, or make it dynamic", network)
	}
	address, err := netip.ParseAddr(ip)
	if err != nil {
		return fail(cpi.TypeCloudError, "cannot use network '%s': '%s' is not an IP address", network, ip)
	}
	address = address.Unmap()
	// Linux has all addresses of 127.0.0.0/8.
	if address.Is4() && address.IsLoopback() && runtime.GOOS == "linux" {
		return nil
	}
	if mine, err := isMine(ip); err != nil || mine {
		return err
	}
	return fail(cpi.TypeCloudError, "cannot use network '%s': %s is not an address of this machine, on which the VM runs; use 127.0.0.1 or another of its addresses", network, ip)
}

// address returns the VM's address: on the network with the default gateway, or on the
// first network by name.
func (n networks) address() string {
	first := ""
	for _, name := range slices.Sorted(maps.Keys(n)) {
		ip, _ := n[name]["ip"].(string)
		if first == "" {
			first = ip
		}
		defaults, _ := n[name]["default"].([]any)
		if slices.Contains(defaults, any("gateway")) {
			return ip
		}
	}
	return first
}

// settings returns the settings for the agent of a new VM.
func (c *call) settings(machine vm, env map[string]any) (settings, error) {
	var s settings
	var fromEnv agent.Env
	if text, err := json.Marshal(env); err != nil || json.Unmarshal(text, &fromEnv) != nil {
		return s, fail(cpi.TypeCloudError, "cannot use env: env.bosh does not have the shape that agents expect")
	}
	if c.cfg.Agent.MBus == "" && len(fromEnv.Bosh.MBus.URLs) == 0 {
		return s, fail(cpi.TypeCloudError, "cannot make a VM whose agent nobody can reach: set agent.mbus in cloud_provider.properties")
	}
	mbus := c.cfg.Agent.MBus
	if machine.Own == nil {
		var err error
		if mbus, err = ownAddress(mbus, machine.Networks); err != nil {
			return s, err
		}
	}
	s.AgentID = machine.AgentID
	s.VM.Name = machine.CID
	s.MBus = mbus
	s.NTP = c.cfg.Agent.NTP
	if s.NTP == nil {
		s.NTP = []string{}
	}
	s.Blobstore = c.cfg.Agent.Blobstore
	s.Disks.Persistent = map[string]any{}
	s.Networks = map[string]map[string]any{}
	for name, network := range machine.Networks {
		given := maps.Clone(network)
		given["preconfigured"] = true // the machine already has the address
		s.Networks[name] = given
	}
	if machine.Machine == agent.MachineContainer {
		s.NTP = []string{} // the VM uses the clock of this machine
		out, err := wayOut(machine.Own)
		if err != nil {
			return s, err
		}
		addNameservers(s.Networks, withResolver(machine.Own, out))
	}
	s.Env = env
	if s.Env == nil {
		s.Env = map[string]any{}
	}
	return s, nil
}

// ownAddress replaces "all addresses" by the address of the VM. If the VM has several
// addresses, "all addresses" stays.
func ownAddress(mbus string, nets networks) (string, error) {
	target, err := url.Parse(mbus)
	if err != nil {
		return "", fail(cpi.TypeCloudError, "cannot use agent.mbus: it is not a URL") // the URL may contain a password
	}
	if host := target.Hostname(); host != "0.0.0.0" && host != "::" {
		return mbus, nil
	}
	address := nets.address()
	for _, network := range nets {
		if network["ip"] != address {
			return mbus, nil
		}
	}
	port := target.Port()
	if port == "" {
		port = "6868"
	}
	target.Host = net.JoinHostPort(address, port)
	return target.String(), nil
}

// usesRegistry reports whether the agent of a new VM gets its settings from a registry:
// it does unless CPI and stemcell both have API version 2.
func (c *call) usesRegistry() bool {
	vm := c.req.Context.VM
	return c.req.APIVersion < 2 || vm == nil || vm.Stemcell.APIVersion < 2
}

// changeSettings changes the persistent disks in the settings of a VM, in its
// file or in the registry.
func (c *call) changeSettings(ctx context.Context, machine vm, change func(persistent map[string]any)) error {
	start, err := c.bootOf(machine)
	if err != nil {
		return err
	}
	file := filepath.Join(c.root.path(vms(), machine.CID), settingsFile)
	var registry *registryClient
	all := map[string]any{}
	if start.Registry == "" {
		err = readJSON(file, &all)
	} else if registry, err = c.registry(); err == nil {
		err = registry.get(ctx, machine.CID, &all)
	}
	if err != nil {
		return fmt.Errorf("cannot read the settings of VM '%s': %w", machine.CID, err)
	}
	held, _ := all["disks"].(map[string]any)
	if held == nil {
		held = map[string]any{}
	}
	persistent, _ := held["persistent"].(map[string]any)
	if persistent == nil {
		persistent = map[string]any{}
	}
	change(persistent)
	held["persistent"], all["disks"] = persistent, held
	if registry != nil {
		return registry.put(ctx, machine.CID, all)
	}
	if err := writeJSON(file, all); err != nil {
		return fmt.Errorf("cannot write the settings of VM '%s': %w", machine.CID, err)
	}
	if agent.Isolated(machine.Machine) {
		return namespace.GiveFile(file)
	}
	return nil
}

// forget removes a VM's settings from the registry, if there is one.
func (c *call) forget(ctx context.Context, machine vm) error {
	start, err := c.bootOf(machine)
	if err != nil || start.Registry == "" {
		return nil // a VM without files can be deleted, too
	}
	if registry, err := c.registry(); err == nil {
		// The registry exists only during a run, and the VM was usually created
		// in another run.
		_ = registry.delete(ctx, machine.CID)
	}
	return nil
}

// registryClient is a client of the configured registry.
type registryClient struct{ base *url.URL }

func (c *call) registry() (*registryClient, error) {
	base, err := c.cfg.Registry.url()
	if err != nil {
		return nil, err
	}
	if base == nil {
		return nil, fail(cpi.TypeCloudError, "cannot hand the agent its settings: CPI and stemcell do not both have API version 2, so a registry is needed, and registry.host is not set")
	}
	return &registryClient{base: base}, nil
}

func (r *registryClient) put(ctx context.Context, cid string, settings any) error {
	text, err := json.Marshal(settings)
	if err == nil {
		_, err = r.do(ctx, http.MethodPut, cid, text)
	}
	if err != nil {
		return fmt.Errorf("cannot hand the settings to the registry: %w", err)
	}
	return nil
}

func (r *registryClient) get(ctx context.Context, cid string, into any) error {
	text, err := r.do(ctx, http.MethodGet, cid, nil)
	if err != nil {
		return err
	}
	var reply struct {
		Settings string `json:"settings"`
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return fmt.Errorf("the registry did not return JSON: %w", err)
	}
	if err := json.Unmarshal([]byte(reply.Settings), into); err != nil {
		return fmt.Errorf("the registry did not return settings: %w", err)
	}
	return nil
}

func (r *registryClient) delete(ctx context.Context, cid string) error {
	_, err := r.do(ctx, http.MethodDelete, cid, nil)
	return err
}

// do sends one request, never through a proxy, because the registry is on this machine.
func (r *registryClient) do(ctx context.Context, method, cid string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	target := r.base.JoinPath("instances", cid, "settings")
	user := target.User
	target.User = nil
	req, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if user != nil {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound && method == http.MethodGet:
		return nil, errors.New("the registry does not know this VM: it has only VMs that were created in the same run")
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("the registry answers %s", resp.Status)
	}
	return text, nil
}
