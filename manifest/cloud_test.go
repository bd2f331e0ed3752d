package manifest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"bootstrap/manifest/document"
)

// directorStyle is a manifest in the Director's style and its cloud config.
const directorStyle = `
-- manifest.yml --
name: lab
cloud_config: cloud.yml
releases:
- {name: cpi, url: "file:///cpi.tgz"}
stemcells:
- {alias: default, os: ubuntu-noble, version: "1.484", url: "file:///stemcell.tgz"}
- {alias: other, name: other-stemcell, version: latest, url: "file:///other.tgz"}
instance_groups:
- name: vm
  instances: 1
  azs: [z2]
  vm_type: small
  vm_extensions: [public, large-disk]
  stemcell: default
  persistent_disk_type: fast
  env: {bosh: {password: hash}}
  tags: {owner: group}
  update: {update_watch_time: 2000}
  networks: [{name: default, static_ips: [10.0.2.10]}]
update: {canaries: 1, max_in_flight: 1, canary_watch_time: 1000-2000, update_watch_time: 1000-2000, vm_strategy: delete-create}
features: {use_dns_addresses: true, use_tmpfs_config: true}
tags: {owner: team, cost: 5}
cloud_provider:
  template: {name: cpi, release: cpi}
  mbus: https://mbus:sesame@0.0.0.0:6868
-- cloud.yml --
azs:
- {name: z1, cloud_properties: {zone: a, from: az}}
- {name: z2, cloud_properties: {zone: b, from: az, kept: az}}
vm_types:
- {name: small, cloud_properties: {cpu: 1, from: type, nested: {a: 1}}}
- {name: large, cloud_properties: {cpu: 8}}
vm_extensions:
- {name: public, cloud_properties: {public: true, from: public, nested: {b: 2}}}
- {name: large-disk, cloud_properties: {disk: 50, from: large-disk}}
disk_types:
- {name: fast, disk_size: 1024, cloud_properties: {type: ssd}}
networks:
- name: default
  subnets:
  - {range: 10.0.1.0/24, gateway: 10.0.1.1, az: z1, static: [10.0.1.10], cloud_properties: {subnet: one}}
  - {range: 10.0.2.0/24, gateway: 10.0.2.1, azs: [z2, z1], dns: [8.8.8.8], static: [10.0.2.10-10.0.2.20], cloud_properties: {subnet: two}}
- name: auto
  subnets: [{range: 10.9.0.0/24, gateway: 10.9.0.1}]
- {name: cloud, type: dynamic, dns: [1.1.1.1], cloud_properties: {id: net}}
- {name: floating, type: vip, cloud_properties: {pool: p}}
compilation: {workers: 1, network: default, az: z1, vm_type: large}
`

// loadFiles loads manifest.yml of an archive of files after replacing pairs of
// texts in it.
func loadFiles(t *testing.T, files string, opts document.Options, pairs ...string) (*Manifest, error) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(files, pairs[i]) {
			t.Fatalf("no %q in the files", pairs[i])
		}
		files = strings.Replace(files, pairs[i], pairs[i+1], 1)
	}
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(files)).Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Load(t.Context(), filepath.Join(dir, "manifest.yml"), opts)
	if err != nil {
		err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))
	}
	return m, err
}

func mustLoadFiles(t *testing.T, pairs ...string) *Manifest {
	t.Helper()
	m, err := loadFiles(t, directorStyle, document.Options{}, pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDirectorStyle(t *testing.T) {
	t.Parallel()
	m := mustLoadFiles(t)
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %#v\nwant %#v", what, got, want)
		}
	}
	check("cloud properties", m.ResourcePool.CloudProperties, map[string]any{
		"zone": "b", "kept": "az", "cpu": 1, "public": true, "disk": 50, "from": "large-disk", "nested": map[string]any{"b": 2},
	})
	check("disk", m.Group.Disk, &DiskPool{Name: "fast", Size: 1024, CloudProperties: map[string]any{"type": "ssd"}})
	check("interfaces", m.Interfaces(), map[string]map[string]any{"default": {
		"type": "manual", "gateway": "10.0.2.1", "netmask": "255.255.255.0", "dns": []string{"8.8.8.8"},
		"cloud_properties": map[string]any{"subnet": "two"}, "ip": "10.0.2.10", "prefix": "32", "default": []string{"dns", "gateway"},
	}})
	check("stemcell", [4]string{m.ResourcePool.Stemcell.URL, m.ResourcePool.Stemcell.OS, m.ResourcePool.Stemcell.Name, m.ResourcePool.Stemcell.Version},
		[4]string{"file:///stemcell.tgz", "ubuntu-noble", "", "1.484"})
	check("env", m.ResourcePool.Env, map[string]any{"bosh": map[string]any{
		"password": "hash", "job_dir": map[string]any{"tmpfs": true}, "agent": map[string]any{"settings": map[string]any{"tmpfs": true}},
	}})
	check("tags", m.Tags, map[string]string{"owner": "group", "cost": "5"})
	check("update", m.Update, Update{WatchTime: WatchTime{2 * time.Second, 2 * time.Second}, VMStrategy: "delete-create"})
	check("dns", m.UseDNS, true)
	ip, dynamic := m.Address()
	check("address", ip, "10.0.2.10")
	check("dynamic", dynamic, false)
	check("mbus", m.CPI.MBusURL.Host, "10.0.2.10:6868")
	check("zone", m.Placement.Zone, "z2")
	check("open", len(m.Placement.Open()), 0)
	check("warnings", m.Warnings, []document.Problem(nil))
}

// If there are several zones, an instance gets the first one by name, or the one of its
// static address. Its VM has the cloud_properties of that zone.
func TestZones(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		azs, networks, zone, properties string
	}{
		{"azs: [z2, z1]", "[{name: default, static_ips: [10.0.1.10]}]", "z1", "a"},
		{"azs: [z2, z1]", "[{name: default, static_ips: [10.0.2.11]}]", "z1", "a"},
		{"azs: [z2, z1, z2]", "[{name: default}]", "z1", "a"},
		{"azs: [z2]", "[{name: default}]", "z2", "b"},
		{"azs: [z1, z2]", "[{name: default, static_ips: [10.0.1.10]}, {name: floating, static_ips: [1.2.3.4]}]", "z1", "a"},
		{"azs: ~", "[{name: auto}]", "", "<nil>"},
	} {
		pairs := []string{"azs: [z2]", c.azs, "[{name: default, static_ips: [10.0.2.10]}]", c.networks}
		if strings.Contains(c.networks, "floating") {
			pairs[3] = strings.Replace(c.networks, "static_ips: [10.0.1.10]", "default: [dns, gateway], static_ips: [10.0.1.10]", 1)
		}
		m := mustLoadFiles(t, pairs...)
		if got := fmt.Sprint(m.ResourcePool.CloudProperties["zone"]); m.Placement.Zone != c.zone || got != c.properties {
			t.Errorf("%s %s: zone %q, %s", c.azs, c.networks, m.Placement.Zone, got)
		}
	}
}

// An address that is not static is open until Place is called.
func TestPlace(t *testing.T) {
	t.Parallel()
	m := mustLoadFiles(t, "azs: [z2]", "azs: [z1, z2]", "static_ips: [10.0.2.10]", "default: [dns]",
		"default: [dns]}]", "default: [dns, gateway], nic_group: 3}, {name: cloud, nic_group: 4}, {name: floating, static_ips: [1.2.3.4], nic_group: '3'}]",
		"type: dynamic,", "type: dynamic, subnets: [{azs: [z1, z2],", "cloud_properties: {id: net}}", "cloud_properties: {id: net}}]}")
	open := m.Placement.Open()
	if len(open) != 1 || open[0].Network != "default" {
		t.Fatalf("open: %+v", open)
	}
	if ip, unknown := m.Address(); ip != "" || !unknown || m.CPI.MBusURL.Host != "0.0.0.0:6868" {
		t.Errorf("address %q, %t, %s", ip, unknown, m.CPI.MBusURL)
	}
	if got := m.Interfaces()["default"]; got["ip"] != nil || got["type"] != "manual" {
		t.Errorf("interface %v", got)
	}
	placed, err := m.Place("z2", map[string]netip.Prefix{
		"default": netip.MustParsePrefix("10.0.2.3/32"), "cloud": netip.MustParsePrefix("172.16.0.9/32"), "gone": netip.MustParsePrefix("10.0.9.9/32"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(m.Warnings, func(w document.Problem) bool {
		return w.Path == "instance_groups[0].networks[1].nic_group" && strings.Contains(w.Message, "not used")
	}) {
		t.Errorf("no warning of the nic_group of a dynamic network: %v", m.Warnings)
	}
	ip, unknown := placed.Address()
	if ip != "10.0.2.3" || unknown || placed.CPI.MBusURL.Host != "10.0.2.3:6868" || placed.CPI.MBus != "https://mbus:sesame@10.0.2.3:6868" ||
		placed.ResourcePool.CloudProperties["zone"] != "b" || len(placed.Placement.Open()) != 0 {
		t.Errorf("address %q, %t, %s, %v", ip, unknown, placed.CPI.MBusURL, placed.ResourcePool.CloudProperties)
	}
	want := map[string]map[string]any{
		"default":  {"type": "manual", "ip": "10.0.2.3", "netmask": "255.255.255.0", "gateway": "10.0.2.1", "dns": []string{"8.8.8.8"}, "cloud_properties": map[string]any{"subnet": "two"}, "default": []string{"dns", "gateway"}, "prefix": "32", "nic_group": "3"},
		"cloud":    {"type": "dynamic", "dns": []string{"1.1.1.1"}, "cloud_properties": map[string]any{"id": "net"}, "prefix": "32"},
		"floating": {"type": "vip", "ip": "1.2.3.4", "cloud_properties": map[string]any{"pool": "p"}, "prefix": "32", "nic_group": "3"},
	}
	if got := placed.Interfaces(); !reflect.DeepEqual(got, want) {
		t.Errorf("interfaces\n%v\nwant\n%v", got, want)
	}
	if m.CPI.MBusURL.Host != "0.0.0.0:6868" || len(m.Placement.Open()) != 1 || m.Placement.Zone != "z1" {
		t.Error("Place changed the manifest")
	}
	if placed.Digest != m.Digest {
		t.Error("Place changed the digest")
	}
	for zone, address := range map[string]string{"z3": "10.0.2.3/32", "": "10.0.2.3/32", "z1": "10.7.0.1/32"} {
		if _, err := m.Place(zone, map[string]netip.Prefix{"default": netip.MustParsePrefix(address)}); err == nil {
			t.Errorf("%q and %s were accepted", zone, address)
		}
	}
	if _, err := m.Place("z1", nil); err == nil {
		t.Error("no address was accepted")
	}
	old := mustLoad(t, minimal)
	if same, err := old.Place("", nil); err != nil || same != old {
		t.Errorf("%v, %v", same, err)
	}
}

// A change of the cloud config that the deployment does not use is no change of the
// deployment.
func TestCloudConfigChanges(t *testing.T) {
	t.Parallel()
	before := mustLoadFiles(t)
	for _, unused := range [][]string{{"cpu: 8", "cpu: 9"}, {"zone: a", "zone: c"}, {"{pool: p}", "{pool: q}"}, {"workers: 1", "workers: 2"}} {
		if m := mustLoadFiles(t, unused...); m.Digest != before.Digest || sketchOf(t, m) != sketchOf(t, before) {
			t.Errorf("%q changes the deployment", unused)
		}
	}
	for _, used := range [][]string{
		{"cpu: 1", "cpu: 2"}, {"zone: b", "zone: c"}, {"disk: 50", "disk: 51"}, {"type: ssd", "type: hdd"}, {"subnet: two", "subnet: three"}, {"public: true", "public: false"},
	} {
		m := mustLoadFiles(t, used...)
		list, err := document.Diff([]byte(sketchOf(t, before)), []byte(sketchOf(t, m)))
		if m.Digest == before.Digest || err != nil || len(list) != 1 {
			t.Errorf("%q: %v, %v", used, list, err)
		}
	}
}

// The files in docs/addresses.md are valid.
func TestAddressesPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/addresses.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"cloud.yml", "web.yml"} {
		_, text, found := strings.Cut(string(page), "```yaml\n# "+name+"\n")
		if text, _, _ = strings.Cut(text, "```"); !found {
			t.Fatalf("the page has no %s", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Load(t.Context(), filepath.Join(dir, "web.yml"), document.Options{
		CloudConfigs: []string{filepath.Join(dir, "cloud.yml")}, VarsStore: filepath.Join(dir, "creds.yml"), Generate: document.Write, Vars: []string{"name=one"},
	})
	if err != nil || len(m.Warnings) > 0 || len(m.Placement.Open()) != 1 {
		t.Fatalf("%v, %+v", err, m)
	}
}

// Secrets of a cloud config are secrets of the manifest.
func TestCloudConfigSecrets(t *testing.T) {
	t.Parallel()
	m, err := loadFiles(t, directorStyle, document.Options{Vars: []string{"pool_password=hidden-too"}},
		"{type: ssd}", "{type: ssd, password: hidden-here}", "{subnet: two}", "{subnet: two, password: ((pool_password))}")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hidden-here", "hidden-too"} {
		if !slices.Contains(m.Secrets, secret) || strings.Contains(sketchOf(t, m), secret) {
			t.Errorf("%s is not treated as a secret", secret)
		}
	}
	_, err = loadFiles(t, directorStyle, document.Options{Vars: []string{"az_password=hidden-too"}},
		"azs: [z2, z1], dns: [8.8.8.8]", "azs: [z2, z1], dns: [((az_password))]", "azs: [z2]\n", "azs: [((az_password))]\n")
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
}

// persistent_disks names disks by type; persistent_disk and persistent_disk_type exclude it.
func TestNamedDisks(t *testing.T) {
	t.Parallel()
	read := func(t *testing.T, group string) (*Manifest, error) {
		t.Helper()
		return loadFiles(t, directorStyle, document.Options{}, "  persistent_disk_type: fast\n", group)
	}
	m, err := read(t, "  persistent_disks: [{name: data, type: fast}, {name: log.1, type: fast}]\n")
	if err != nil {
		t.Fatal(err)
	}
	fast := DiskPool{Name: "fast", Size: 1024, CloudProperties: map[string]any{"type": "ssd"}}
	if want := []NamedDisk{{"data", fast}, {"log.1", fast}}; !reflect.DeepEqual(m.Group.Disks, want) || m.Group.Disk != nil {
		t.Errorf("disks %+v and %+v, want %+v", m.Group.Disks, m.Group.Disk, want)
	}
	for list, want := range map[string]string{
		"[{name: data, type: fast}]\n  persistent_disk: 5":         "persistent_disks: cannot be used together with persistent_disk (InstanceGroupInvalidPersistentDisk)",
		"[{name: data, type: fast}]\n  persistent_disk_type: fast": "persistent_disks: cannot be used together with persistent_disk_type (InstanceGroupInvalidPersistentDisk)",
		"[{name: a, type: fast}, {name: a, type: fast}]":           `persistent_disks[1].name: must be unique, but there is another disk "a" (InstanceGroupInvalidPersistentDisk)`,
		"[{name: a, type: slow}]":                                  "InstanceGroupUnknownDiskType",
		"[{type: fast}]":                                           "the name under which jobs find the disk",
		"[{name: a}]":                                              "the name of a disk type in disk_types",
		"[{name: ../a, type: fast}]":                               "persistent_disks[0].name: must be letters",
		"[{name: .., type: fast}]":                                 "persistent_disks[0].name: must be letters",
		"[5]":                                                      "persistent_disks[0]",
		"data":                                                     "persistent_disks",
	} {
		if _, err := read(t, "  persistent_disks: "+list+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", list, err, want)
		}
	}
}
