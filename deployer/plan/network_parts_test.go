package plan

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// The prefix of a single address is no reason to replace a VM, because VMs of earlier
// deploys did not get it, and neither is an empty list of name servers. The length of a block
// and an interface are.
func TestPartsOfNetworks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"cloud.yml": `vm_types: [{name: small}]
networks:
- {name: default, subnets: [{range: 10.0.0.0/24, gateway: 10.0.0.1}]}
- {name: blocks, subnets: [{range: 10.1.0.0/16, gateway: 10.1.0.1, prefix: 28, dns: []}]}
`,
		"manifest.yml": `name: lab
releases: [{name: cpi, url: "file://cpi"}]
stemcells: [{alias: default, os: ubuntu-noble, version: latest, url: "file://stemcell.tgz"}]
instance_groups:
- {name: vm, instances: 1, vm_type: small, stemcell: default, jobs: [], networks: [{name: default, nic_group: 1, default: [dns, gateway]}, {name: blocks, nic_group: 1}]}
cloud_provider: {template: {name: cpi, release: cpi}, mbus: "https://mbus:secret@0.0.0.0:6868"}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := manifest.Load(t.Context(), filepath.Join(dir, "manifest.yml"), document.Options{CloudConfigs: []string{filepath.Join(dir, "cloud.yml")}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = m.Place("", map[string]netip.Prefix{"default": netip.MustParsePrefix("10.0.0.9/32"), "blocks": netip.MustParsePrefix("10.1.0.16/28")}); err != nil {
		t.Fatal(err)
	}
	parts := VMParts(m)
	for name, want := range map[string]any{
		"network default: prefix": nil, "network default: ip": "10.0.0.9", "network default: nic_group": "1",
		"network blocks: prefix": "28", "network blocks: nic_group": "1", "network blocks: dns": nil,
	} {
		if got := parts[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := m.Interfaces()["default"]["prefix"]; got != "32" {
		t.Errorf("the VM gets the prefix %v", got)
	}
	if got, given := m.Interfaces()["blocks"]["dns"]; !given {
		t.Errorf("the VM gets the name servers %v", got)
	}
}
