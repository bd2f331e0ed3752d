package instance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/manifest"
)

// Nothing is asked about the VM of a cloud's CPI, and the kind of an embedded VM is asked
// for once.
func TestNewMachine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cpi      string
		machine  string // cloud_properties.machine
		stemcell *artifact.Stemcell
		url      string // URL of the stemcell, which was not fetched
		asked    []string
	}{
		"a cloud":                {cpi: "aws_cpi"},
		"an embedded stemcell":   {cpi: "local_cpi", url: "embedded:local-stemcell", asked: []string{`machine "", image false`, "limits", "disk limit"}},
		"a downloaded stemcell":  {cpi: "local_cpi", url: "https://example.com/stemcell.tgz", asked: []string{`machine "", image true`, "limits", "disk limit"}},
		"a folder was asked for": {cpi: "local_cpi", machine: "folder", stemcell: &artifact.Stemcell{Formats: []string{"local"}}, asked: []string{`machine "folder", image false`, "limits", "disk limit"}},
		"a real stemcell":        {cpi: "local_cpi", stemcell: &artifact.Stemcell{Formats: []string{"warden-tar"}}, asked: []string{`machine "", image true`, "limits", "disk limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			d := New(NewEnv(Config{
				Machine: func(_ context.Context, machine string, image bool) Machine {
					asked = append(asked, fmt.Sprintf("machine %q, image %v", machine, image))
					return Machine{Kind: agent.MachineFolder}
				},
				Limits:    func(string, map[string]any) Limits { asked = append(asked, "limits"); return Limits{} },
				DiskLimit: func(string) Limits { asked = append(asked, "disk limit"); return Limits{} },
			}), Options{})
			in := reads(d, &manifest.Manifest{CPI: manifest.Installation{Templates: []manifest.JobRef{{Name: c.cpi}}}})
			if c.machine != "" {
				in.Manifest.ResourcePool.CloudProperties = map[string]any{"machine": c.machine}
			}
			in.Manifest.ResourcePool.Stemcell.URL = c.url
			host := NewHost(in, d.Record, c.stemcell)
			host.NewMachine(t.Context())
			host.NotHeld(t.Context())
			host.DiskNotHeld(t.Context())
			if !slices.Equal(asked, c.asked) {
				t.Errorf("asked %q, want %q", asked, c.asked)
			}
		})
	}
}

// The password of an agent that runs as this user must be secret.
func TestCheckPassword(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cpi, kind, mbus string
		refused         string
	}{
		"long and random":  {mbus: "https://mbus:uCh7ieNg3ai@127.0.0.1:6868"},
		"of an example":    {mbus: "https://mbus:mbus-password@127.0.0.1:6868", refused: "one that others know"},
		"in capitals":      {mbus: "https://mbus:CHANGEME@127.0.0.1:6868", refused: "one that others know"},
		"the user":         {mbus: "https://agent-of-mine:agent-of-mine@127.0.0.1:6868", refused: "one that others know"},
		"short":            {mbus: "https://mbus:abcdefg@127.0.0.1:6868", refused: "less than 8 characters"},
		"none":             {mbus: "https://127.0.0.1:6868", refused: "one that others know"},
		"of a cloud":       {cpi: "aws_cpi", mbus: "https://mbus:admin@10.0.0.5:6868"},
		"in namespaces":    {kind: agent.MachineNamespace, mbus: "https://mbus:admin@10.0.0.5:6868"},
		"without an agent": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, cpi := c.kind, c.cpi
			if kind == "" {
				kind = agent.MachineFolder
			}
			if cpi == "" {
				cpi = "local_cpi"
			}
			d := New(NewEnv(Config{Machine: func(context.Context, string, bool) Machine { return Machine{Kind: kind} }}), Options{})
			in := reads(d, &manifest.Manifest{CPI: manifest.Installation{Templates: []manifest.JobRef{{Name: cpi}}}})
			if c.mbus != "" {
				u, err := url.Parse(c.mbus)
				if err != nil {
					t.Fatal(err)
				}
				in.Manifest.CPI.MBusURL = u
			}
			refused(t, NewHost(in, d.Record, nil).CheckPassword(t.Context()), c.refused)
		})
	}
}

// Lists the addresses of this machine at which a new VM will listen.
func TestNewPorts(t *testing.T) {
	t.Parallel()
	problem := errors.New("no network")
	properties := map[string]any{
		"agent":     map[string]any{"mbus": "https://mbus:p@0.0.0.0:6868"},
		"local_cpi": map[string]any{"ssh": map[string]any{"address": "127.0.0.1", "port": 2222}},
	}
	for name, c := range map[string]struct {
		properties map[string]any
		network    Network
		ports      []string
		refused    string
	}{
		"agent and SSH":        {properties: properties, ports: []string{"10.0.0.5:6868", "127.0.0.1:2222"}},
		"nothing":              {},
		"a free port":          {properties: map[string]any{"agent": map[string]any{"mbus": "https://127.0.0.1:0"}}},
		"the CPI's own wins":   {properties: map[string]any{"agent": map[string]any{"mbus": "https://127.0.0.1:1"}, "local_cpi": map[string]any{"agent": map[string]any{"mbus": "https://127.0.0.1:2"}}}, ports: []string{"127.0.0.1:2"}},
		"a network of its own": {properties: properties, network: Network{Own: true, Ports: []string{"127.0.0.1:8080:80", "127.0.0.1:53:53/udp"}}, ports: []string{"127.0.0.1:8080", "127.0.0.1:53 UDP"}},
		"no network":           {properties: properties, network: Network{Own: true, Problem: problem}, refused: "no network"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New(NewEnv(Config{
				Network: func(map[string]map[string]any, any, string) Network { return c.network },
			}), Options{})
			in := reads(d, &manifest.Manifest{
				CPI:      manifest.Installation{Templates: []manifest.JobRef{{Name: "local_cpi"}}, Properties: c.properties},
				Networks: []manifest.Network{{Name: "default", Type: "manual", Subnet: &manifest.Subnet{Range: block("10.0.0.0/24")}}},
				Group:    manifest.InstanceGroup{Networks: []manifest.GroupNetwork{{Name: "default", StaticIPs: []string{"10.0.0.5"}}}},
			})
			ports, err := NewHost(in, d.Record, nil).NewPorts(t.Context())
			refused(t, err, c.refused)
			var got []string
			for _, p := range ports {
				text := p.Address
				if p.UDP {
					text += " UDP"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, c.ports) {
				t.Errorf("ports %q, want %q", got, c.ports)
			}
		})
	}
}

// A port in use stops a deploy with a remedy; the port of the replaced VM does not.
func TestCheckPorts(t *testing.T) {
	t.Parallel()
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = used.Close() })
	for name, c := range map[string]struct {
		cpi, address string
		refused      string
	}{
		"free":       {cpi: "local_cpi", address: "127.0.0.1:0"},
		"used":       {cpi: "local_cpi", address: used.Addr().String(), refused: "the agent of the new VM cannot listen at " + used.Addr().String()},
		"of a cloud": {cpi: "aws_cpi", address: used.Addr().String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New(NewEnv(Config{}), Options{})
			in := reads(d, &manifest.Manifest{CPI: manifest.Installation{
				Templates:  []manifest.JobRef{{Name: c.cpi}},
				Properties: map[string]any{"agent": map[string]any{"mbus": "https://" + c.address}},
			}})
			err := NewHost(in, d.Record, nil).CheckPorts(t.Context(), "")
			refused(t, err, c.refused)
			if c.refused != "" && !strings.Contains(err.Error(), "change the port in cloud_provider.mbus") {
				t.Errorf("error %v, without what to do", err)
			}
		})
	}
}
