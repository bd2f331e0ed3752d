package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/manifest/document"
)

// minimal is the smallest valid manifest.
const minimal = `name: min
releases:
- {name: cpi, url: "file:///cpi.tgz"}
networks:
- {name: default, type: dynamic}
resource_pools:
- {name: vms, network: default, stemcell: {url: "file:///stemcell.tgz"}}
instance_groups:
- {name: vm, instances: 1, resource_pool: vms, networks: [{name: default}]}
cloud_provider:
  template: {name: cpi, release: cpi}
  mbus: https://mbus:sesame@127.0.0.1:6868
`

// replaced returns minimal with pairs of old and new text exchanged.
func replaced(t *testing.T, pairs ...string) string {
	t.Helper()
	text := minimal
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("no %q in the manifest", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// write writes a manifest into a new folder.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mustLoad loads a manifest that must be valid.
func mustLoad(t *testing.T, text string) *Manifest {
	t.Helper()
	m, err := Load(t.Context(), write(t, text), document.Options{})
	if err != nil {
		t.Fatalf("refused:\n%v\n%s", err, text)
	}
	return m
}

func TestLoad(t *testing.T) {
	t.Parallel()
	m, err := Load(t.Context(), "testdata/good.yml", document.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %#v\nwant %#v", what, got, want)
		}
	}
	at := func(line, column int) document.Position {
		return document.Position{File: "testdata/good.yml", Line: line, Column: column}
	}
	check("path", m.Path, filepath.Join(dir, "good.yml"))
	check("name", m.Name, "bosh")
	check("releases", m.Releases, []Release{
		{"bosh", "https://example.com/bosh-283.1.6-ubuntu-noble-1.484.tgz", "f41d1fec0ab8e706942aa61c46429e5d70843e67", at(5, 3), ""},
		{"docker-cpi", "file://" + dir + "/docker-cpi.tgz",
			"sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae;fe5bf8aff7ffa8d901d88764886b56a6ce622df4", at(9, 3), ""},
	})
	check("pool", m.ResourcePool.Stemcell,
		StemcellRef{URL: "https://example.com/bosh-stemcell-1.484.tgz", SHA1: "b8b5332fd63a10e8adb39e1b31a269f7b43e395b", Pos: at(27, 5)})
	check("cloud properties", m.ResourcePool.CloudProperties, map[string]any{"ports": []any{"22/tcp", "6868/tcp"}})
	check("jobs", m.Group.Jobs, []JobRef{
		{Name: "director", Release: "bosh", Pos: at(51, 5), Path: "instance_groups[0].jobs[0]"},
		{Name: "docker_cpi", Release: "docker-cpi", Properties: map[string]any{}, Pos: at(53, 5), Path: "instance_groups[0].jobs[1]"},
	})
	check("disk", m.Group.Disk, &DiskPool{Name: "disks", Size: 65536, CloudProperties: map[string]any{}})
	check("group properties", m.Group.Properties, map[string]any{"director": map[string]any{
		"db": map[string]any{"user": "postgres", "password": "postgres-password"}, "workers": 4, "ratio": 1, "enabled": true, "umask": 23,
	}})
	check("properties", m.Properties, map[string]any{})
	check("tags", m.Tags, map[string]string{"owner": "team", "cost": "755"})
	check("update", m.Update, Update{WatchTime: WatchTime{time.Second, 30 * time.Second}})
	check("templates", m.CPI.Templates, []JobRef{
		{Name: "docker_cpi", Release: "docker-cpi", Pos: at(78, 5), Path: "cloud_provider.template"},
	})
	check("mbus", m.CPI.MBusURL.Host, "10.245.0.3:6868")
	check("tunnel", m.CPI.SSHTunnel, (*SSHTunnel)(nil))
	check("registry", m.CPI.Registry, (*Registry)(nil))
	check("secrets", m.Secrets, []string{"postgres-password", "mbus-password"})
	check("warnings", m.Warnings, []document.Problem(nil))
	check("interfaces", m.Interfaces(), map[string]map[string]any{"default": {
		"type": "manual", "gateway": "10.245.0.1", "netmask": "255.255.0.0", "dns": []string{"8.8.8.8"},
		"cloud_properties": map[string]any{"name": "net3"}, "ip": "10.245.0.3", "default": []string{"dns", "gateway"},
	}})
	ip, dynamic := m.Address()
	check("address", ip, "10.245.0.3")
	check("dynamic", dynamic, false)
}

func TestSpellings(t *testing.T) {
	t.Parallel()
	old := mustLoad(t, replaced(t, "instance_groups:", "jobs:", "resource_pool: vms,", "resource_pool: vms, templates: [{name: a, release: cpi}],",
		"template: {name: cpi, release: cpi}", "templates: [{name: x, release: cpi}, {name: z, release: cpi}]"))
	if len(old.Group.Jobs) != 1 || old.Group.Jobs[0].Path != "jobs[0].templates[0]" {
		t.Errorf("jobs: %+v", old.Group.Jobs)
	}
	if got := old.CPI.Templates; len(got) != 2 || got[1].Name != "z" || got[1].Path != "cloud_provider.templates[1]" {
		t.Errorf("templates: %+v", got)
	}
	both := mustLoad(t, replaced(t, "instance_groups:", "jobs: []\ninstance_groups:", "resource_pool: vms,", "resource_pool: vms, jobs: [], templates: ~,"))
	if both.Group.Name != "vm" || len(both.Group.Jobs) != 0 {
		t.Errorf("group: %+v", both.Group)
	}
	if both.Group.Properties != nil || both.Group.Disk != nil || both.Update.WatchTime != (WatchTime{0, 5 * time.Minute}) {
		t.Errorf("defaults: %+v %+v", both.Group, both.Update)
	}
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	const three = `
- {name: private, type: manual, subnets: [{range: "fd00::/64", gateway: "fd00::1", cloud_properties: {id: 1}}]}
- {name: public, type: vip, cloud_properties: {id: 2}, dns: [1.1.1.1]}
- {name: extra, type: dynamic, dns: [1.1.1.1, 8.8.8.8]}`
	m := mustLoad(t, replaced(t, "\n- {name: default, type: dynamic}", three, "network: default", "network: extra", "[{name: default}]",
		`[{name: public, static_ips: [203.0.113.9], nic_group: 1}, {name: private, static_ips: ["fd00::7"], default: [gateway, dns], nic_group: "1"}, {name: extra, static_ips: [10.9.9.9], nic_group: 2}]`))
	want := map[string]map[string]any{
		"private": {"type": "manual", "gateway": "fd00::1", "netmask": "ffff:ffff:ffff:ffff:0000:0000:0000:0000", "ip": "fd00::7",
			"cloud_properties": map[string]any{"id": 1}, "default": []string{"gateway", "dns"}, "nic_group": "1"},
		"public": {"type": "vip", "cloud_properties": map[string]any{"id": 2}, "ip": "203.0.113.9", "nic_group": "1"},
		"extra":  {"type": "dynamic", "cloud_properties": map[string]any{}, "dns": []string{"1.1.1.1", "8.8.8.8"}, "ip": "10.9.9.9"},
	}
	if got := m.Interfaces(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if !slices.ContainsFunc(m.Warnings, func(w document.Problem) bool {
		return w.Path == "instance_groups[0].networks[2].nic_group" && strings.Contains(w.Message, "not used")
	}) {
		t.Errorf("no warning of the nic_group of a dynamic network: %v", m.Warnings)
	}
	if ip, dynamic := m.Address(); ip != "fd00::7" || dynamic {
		t.Errorf("address %q, dynamic %t", ip, dynamic)
	}
	m.Interfaces()["private"]["cloud_properties"].(map[string]any)["id"] = "changed"
	if got := m.Interfaces(); !reflect.DeepEqual(got, want) {
		t.Error("a caller could change the manifest")
	}

	if ip, dynamic := mustLoad(t, minimal).Address(); ip != "" || !dynamic {
		t.Errorf("dynamic network: address %q, dynamic %t", ip, dynamic)
	}
	one := mustLoad(t, replaced(t, "[{name: default}]", "[{name: default, default: [dns]}]"))
	if got := one.Interfaces()["default"]["default"]; !reflect.DeepEqual(got, []string{"dns", "gateway"}) {
		t.Errorf("a single network is the default for all, but: %v", got)
	}
}

func TestPersistentDisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		group, pools string
		want         *DiskPool
	}{
		{"", "", nil},
		{"persistent_disk: 0,", "", nil},
		{"persistent_disk: 2_048,", "", &DiskPool{Size: 2048, CloudProperties: map[string]any{}}},
		{"persistent_disk: 1e3,", "", &DiskPool{Size: 1000, CloudProperties: map[string]any{}}},
		{"persistent_disk_pool: b,", "disk_pools: [{name: a, disk_size: 1}, {name: b, disk_size: 2, cloud_properties: {c: d}}, {name: b, disk_size: 3}]\n",
			&DiskPool{Name: "b", Size: 2, CloudProperties: map[string]any{"c": "d"}}},
		{"persistent_disk_pool: '', persistent_disk: 7,", "", &DiskPool{Size: 7, CloudProperties: map[string]any{}}},
	} {
		m := mustLoad(t, replaced(t, "resource_pool: vms,", "resource_pool: vms,"+tt.group, "name: min\n", "name: min\n"+tt.pools))
		if !reflect.DeepEqual(m.Group.Disk, tt.want) {
			t.Errorf("%s %s: got %+v, want %+v", tt.group, tt.pools, m.Group.Disk, tt.want)
		}
	}
}

func TestSources(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for _, tt := range []struct{ url, want string }{
		{"file:///abs/../cpi.tgz", "file:///abs/../cpi.tgz"},
		{"file://cpi.tgz", "file://DIR/cpi.tgz"},
		{"file://./a/../cpi", "file://DIR/cpi"},
		{"file://../cpi.tgz", "file://" + "PARENT/cpi.tgz"},
		{"file://~/cpi.tgz", "file://" + home + "/cpi.tgz"},
		{"embedded:local-cpi", "embedded:local-cpi"},
		{"http://example.com/x?v=1", "http://example.com/x?v=1"},
		{"https://user:sesame@example.com:8443/x", "https://user:sesame@example.com:8443/x"},
	} {
		text := replaced(t, `"file:///cpi.tgz"`, `"`+tt.url+`", sha1: 9f5db956e66005b67ed0b5b5b0949f9a7a1c60c9`, `"file:///stemcell.tgz"`, `"`+tt.url+`", sha1: "sha256:`+strings.Repeat("0", 64)+`"`)
		m := mustLoad(t, text)
		dir := filepath.Dir(m.Path)
		want := strings.NewReplacer("DIR", dir, "PARENT", filepath.Dir(dir)).Replace(tt.want)
		if m.Releases[0].URL != want || m.ResourcePool.Stemcell.URL != want {
			t.Errorf("%s: got %s and %s, want %s", tt.url, m.Releases[0].URL, m.ResourcePool.Stemcell.URL, want)
		}
	}
	for _, url := range []string{
		"cpi.tgz", "/cpi.tgz", "~/cpi.tgz", "httpx://a", "git+https://a/b", "http://", "https://:80/x", "http:/a", "FILE:///x", "file://", "file://~nobody-at-all/x",
		"embedded:", "embedded:../x", " file:///x", "c:\\x", "-",
	} {
		_, err := Load(t.Context(), write(t, replaced(t, `"file:///cpi.tgz"`, `'`+url+`', sha1: 9f5db956e66005b67ed0b5b5b0949f9a7a1c60c9`)), document.Options{})
		if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), ":3:20: releases[0].url: ") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

func TestWatchTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]WatchTime{
		"0-300000": {0, 5 * time.Minute}, "1000 - 1000": {time.Second, time.Second}, " 5-6 ": {5 * time.Millisecond, 6 * time.Millisecond},
	} {
		if got, err := ParseWatchTime(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-", "30000", "1-", "-1", "2-1", "a-b", "1-2-3", "1.5-2", "0-99999999999999", "0-99999999999999999999"} {
		if got, err := ParseWatchTime(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text                   string
		snapshot, protect, dns bool
		warnings               int
	}{
		{"", false, false, false, 0},
		{"protect: ~\nupdate:\nfeatures:\n", false, false, false, 0},
		{"protect: no\nupdate: {snapshot: off}\nfeatures: {use_dns_addresses: false}\n", false, false, false, 0},
		{"protect: true\nupdate: {snapshot: yes}\nfeatures: {use_dns_addresses: on, converge_variables: true}\n", true, true, true, 0},
		// create-env reads none of these keys, so a wrong value is not an error. A wrong
		// value of a key that protects something turns the protection on.
		{"protect: [a]\nupdate: {snapshot: maybe}\nfeatures: {use_dns_addresses: maybe}\n", true, true, false, 3},
		{"protect: 'no'\nfeatures: {use_dns_addresses: 'true'}\n", false, false, true, 2},
		{"features: [use_dns_addresses]\n", false, false, false, 1},
		{"features: {use_dns: true}\n", false, false, false, 1},
	} {
		m := mustLoad(t, c.text+minimal)
		if m.Update.Snapshot != c.snapshot || m.Protect != c.protect || m.UseDNS != c.dns || len(m.Warnings) != c.warnings {
			t.Errorf("%q: snapshot %v, protect %v, DNS %v, warnings %v", c.text, m.Update.Snapshot, m.Protect, m.UseDNS, m.Warnings)
		}
	}
}

func TestTagsNeedAMapInEnv(t *testing.T) {
	t.Parallel()
	for env, good := range map[string]bool{
		"{}": true, "~": true, "{bosh: {}}": true, "{bosh: {password: '*'}}": true, "{bosh: ~}": false, "{bosh: text}": false, "{bosh: []}": false,
	} {
		text := replaced(t, "network: default,", "network: default, env: "+env+",")
		mustLoad(t, text)
		_, err := Load(t.Context(), write(t, text+"tags: {a: b}\n"), document.Options{})
		if (err == nil) != good {
			t.Errorf("%s: got %v", env, err)
		} else if err != nil && !strings.Contains(err.Error(), "resource_pools[0].env.bosh: must be a map") {
			t.Errorf("%s: got %v", env, err)
		}
	}
}

func TestFilesThatAreNoManifest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Load(t.Context(), filepath.Join(dir, "absent.yml"), document.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: got %v", err)
	}
	if _, err := Load(t.Context(), dir, document.Options{}); err == nil || !strings.Contains(err.Error(), "it is a directory") {
		t.Errorf("directory: got %v", err)
	}
	for text, want := range map[string]string{
		"": "the file is empty", "# nothing\n": "the file is empty", "--- ~\n": "the manifest is empty",
		"text": `must be a map`, "- a\n": "must be a map",
	} {
		if _, err := Load(t.Context(), write(t, text), document.Options{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// long returns a manifest of about n lines.
func long(n int) string {
	var b strings.Builder
	b.WriteString(minimal)
	b.WriteString("properties:\n")
	for i := 0; i < n/10; i++ {
		fmt.Fprintf(&b, "  job_%d:\n    enabled: yes\n    port: %d\n    # a comment\n    host: host-%d.example.com\n    password: sesame-%d\n", i, i, i, i)
		b.WriteString("    list:\n    - {name: a, value: 1.5}\n    - name: b\n      value: \"text ((with parentheses\"\n")
	}
	return b.String()
}

func TestLongManifest(t *testing.T) {
	t.Parallel()
	m := mustLoad(t, long(10_000))
	if len(m.Properties) != 1000 || len(m.Secrets) != 1001 {
		t.Errorf("%d properties, %d secrets", len(m.Properties), len(m.Secrets))
	}
}

// If everything in a file is wrong, only the most useful problems are reported. The time
// for that does not grow with the number of problems.
func TestManyMissingVariables(t *testing.T) {
	t.Parallel()
	var b, vars strings.Builder
	b.WriteString("name: x\nproperties:\n list:\n")
	count := 100_000
	if testing.Short() {
		count = 20_000
	}
	for i := range count {
		fmt.Fprintf(&b, " - ((v%d))\n", i)
		fmt.Fprintf(&vars, "w%d: 1\n", i)
	}
	dir := t.TempDir()
	path, given := filepath.Join(dir, "m.yml"), filepath.Join(dir, "vars.yml")
	if err := errors.Join(os.WriteFile(path, []byte(b.String()), 0o600), os.WriteFile(given, []byte(vars.String()), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := Load(t.Context(), path, document.Options{VarsFiles: []string{given}})
	var problems *document.Problems
	if !errors.As(err, &problems) || len(*problems) < count {
		t.Fatalf("got %.1000v", err)
	}
	text := err.Error()
	if lines := strings.Count(text, "\n"); lines != document.MaxShown || len(text) > 64<<10 {
		t.Errorf("%d lines, %d bytes", lines, len(text))
	}
	if !strings.Contains(text, "did you mean ((w0))?") || !strings.HasSuffix(text, " more") {
		t.Errorf("got %.1000s … %s", text, text[len(text)-200:])
	}
}

// The time for a manifest of the largest size must not grow with the square of the number
// of keys in a map: that took minutes.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("name: x\ntags:\n")
	for i := range 60_000 {
		fmt.Fprintf(&b, " t%d: v%d\n", i, i)
	}
	for i := range 10_000 {
		fmt.Fprintf(&b, "u%d:\n", i)
	}
	path := filepath.Join(t.TempDir(), "m.yml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(t.Context(), path, document.Options{})
	var problems *document.Problems
	if !errors.As(err, &problems) || len(*problems) < 10_000 {
		t.Fatalf("got %.1000v", err)
	}
}

func BenchmarkLoad10000Lines(b *testing.B) {
	path := filepath.Join(b.TempDir(), "m.yml")
	if err := os.WriteFile(path, []byte(long(10_000)), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Load(b.Context(), path, document.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := Load(b.Context(), "testdata/good.yml", document.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
