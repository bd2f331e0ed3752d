package manifest

import (
	"slices"
	"strings"
	"testing"

	"bootstrap/manifest/document"
)

const workersDocument = `-- manifest.yml --
name: m
cloud_config: cloud.yml
releases: [{name: r, url: embedded:local-cpi}]
stemcells: [{alias: default, os: local, version: latest, url: embedded:local-stemcell}]
instance_groups:
- name: web
  instances: 1
  azs: [z1]
  vm_type: small
  stemcell: default
  env: {bosh: {mbus: {urls: [x]}, remove_dev_tools: true, password: secret}, other: 1}
  persistent_disk: 64
  networks: [{name: default, static_ips: [10.0.0.10]}]
  jobs: [{name: web, release: r}]
cloud_provider:
  template: {name: cpi, release: r}
  mbus: https://mbus:p@10.0.0.10:6868
  properties: {agent: {mbus: "https://mbus:p@10.0.0.10:6868"}}
-- cloud.yml --
azs: [{name: z1, cloud_properties: {zone: one}}, {name: z2, cloud_properties: {zone: two}}]
networks:
- name: default
  subnets: [{range: 10.0.0.0/24, gateway: 10.0.0.1, az: z1, static: [10.0.0.10]}, {range: 10.0.1.0/24, gateway: 10.0.1.1, az: z2}]
- {name: cloud, type: dynamic}
vm_types: [{name: small}, {name: large, cloud_properties: {cpu: 8}}]
vm_extensions: [{name: fast, cloud_properties: {disk: ssd}}]
compilation: SECTION
`

// The section compilation describes VMs without jobs and disks, with addresses of their own.
func TestCompilation(t *testing.T) {
	t.Parallel()
	load := func(t *testing.T, section string) (Compilation, error) {
		t.Helper()
		m, err := loadFiles(t, workersDocument, document.Options{}, "SECTION", section)
		if err != nil {
			return Compilation{}, err
		}
		return m.Compilation, nil
	}
	c, err := load(t, "{workers: 3, network: default, az: z2, vm_type: large, vm_extensions: [fast], reuse_compilation_vms: true, env: {bosh: {password: other}}}")
	if err != nil {
		t.Fatal(err)
	}
	w := c.Worker
	if !slices.Contains(w.Secrets, "other") {
		t.Errorf("the output of a compilation VM may have the password: %q", w.Secrets)
	}
	if !c.Asked || c.Workers != 3 || !c.Reuse || c.Fixed || w.Zone() != "z2" || len(w.Group.Jobs) > 0 || w.Group.Disk != nil {
		t.Errorf("%+v, %+v", c, w.Group)
	}
	if p := w.ResourcePool.CloudProperties; p["cpu"] != 8 || p["disk"] != "ssd" || p["zone"] != "two" {
		t.Errorf("cloud_properties %v", p)
	}
	bosh := w.ResourcePool.Env["bosh"].(map[string]any)
	if bosh["password"] != "other" || bosh["mbus"] == nil || bosh["remove_dev_tools"] != nil || w.ResourcePool.Env["other"] != nil {
		t.Errorf("env %v", w.ResourcePool.Env)
	}
	agent := w.CPI.Properties["agent"].(map[string]any)
	if got := w.Placement.mbus.String(); got != "https://mbus:p@0.0.0.0:6868#10.0.0.10" || agent["mbus"] != "https://mbus:p@0.0.0.0:6868" {
		t.Errorf("mbus %s, of the agent %v", got, agent["mbus"])
	}
	if c, err = load(t, "~"); err != nil || c.Asked || c.Workers != 1 || c.Worker.Zone() != "z1" || len(c.Worker.Placement.Group.Wishes[0].Static) > 0 {
		t.Errorf("without a section: %+v, %v", c, err)
	}
	if bosh := c.Worker.ResourcePool.Env["bosh"].(map[string]any); bosh["password"] != "secret" || bosh["remove_dev_tools"] != nil {
		t.Errorf("without a section: env %v", c.Worker.ResourcePool.Env)
	}
	if c, err = load(t, "{workers: 1, network: cloud}"); err != nil || c.Worker != nil || !strings.Contains(c.Refused, "is dynamic") {
		t.Errorf("a dynamic network: %+v, %v", c, err)
	}
	for section, want := range map[string]string{
		"{network: default}":                                                   "compilation.workers: must be provided",
		"{workers: 0, network: default}":                                       "must be a whole number from 1 to 1000, but is 0",
		"{workers: 1}":                                                         "compilation.network: must be provided",
		"{workers: 1, network: other}":                                         `there is no network "other"`,
		"{workers: 1, network: default, az: z9}":                               "compilation.az",
		"{workers: 1, network: default, vm_type: huge}":                        "CompilationConfigInvalidVmType",
		"{workers: 1, network: default, vm_type: large, cloud_properties: {}}": "cannot be used together",
		"{workers: 1, network: default, vm_extensions: [slow]}":                "slow",
	} {
		if _, err := load(t, section); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", section, err, want)
		}
	}
}
