package manifest

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"bootstrap/manifest/gen"
	"bootstrap/manifest/keys"
	"bootstrap/manifest/manifesttest"
)

// compiled returns the compiled schema.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	return manifesttest.Schema(t, Schema, "")
}

// The schema has a part for cloud configs.
func TestSchemaOfCloudConfigs(t *testing.T) {
	t.Parallel()
	whole, cloud := compiled(t), manifesttest.Schema(t, Schema, "#/$defs/cloud")
	for _, f := range txtar.Parse([]byte(directorStyle)).Files {
		schema := whole
		if f.Name == "cloud.yml" {
			schema = cloud
		}
		if err := schema.Validate(manifesttest.Instance(t, string(f.Data))); err != nil {
			t.Errorf("%s is refused: %v", f.Name, err)
		}
	}
	for _, good := range []string{
		`networks: ((networks))`,
		`networks: [{name: n, type: vip, subnets: [{static: 1.1.1.1, azs: [z1]}]}]`,
		`networks: [{name: n, subnets: [{range: "2001:db8::/64", gateway: "2001:db8::1", reserved: ["2001:db8::2-2001:db8::9"], static: ((static)), prefix: 80}]}]`,
	} {
		if err := cloud.Validate(manifesttest.Instance(t, good)); err != nil {
			t.Errorf("%s is refused: %v", good, err)
		}
	}
	for _, bad := range []string{
		`vm_type: []`, `azs: [{cloud_properties: {}}]`, `disk_types: [{name: d, disk_size: 0}]`, `networks: [{name: n, type: bridge}]`,
		`networks: [{name: n, subnets: [{range: 10.0.0.0, gateway: 10.0.0.1}]}]`, `networks: [{name: n, subnets: [{reserve: [10.0.0.1]}]}]`,
	} {
		if err := cloud.Validate(manifesttest.Instance(t, bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	for _, bad := range []string{
		"vm_type: small", "stemcell: default", "{alias: default, os: ubuntu-noble, version: \"1.484\", url: \"file:///stemcell.tgz\"}",
	} {
		text := strings.Replace(directorStyle, bad, "x-left: out", 1)
		text = strings.Replace(text, "- x-left: out", "- {x-left: out}", 1)
		if err := whole.Validate(manifesttest.Instance(t, string(txtar.Parse([]byte(text)).Files[0].Data))); err == nil {
			t.Errorf("a manifest without %s is accepted", bad)
		}
	}
}

func TestSchemaAccepts(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	page, err := os.ReadFile("../testdata/manifests/page.yml")
	if err != nil {
		t.Fatal(err)
	}
	documents := map[string]string{
		"minimal":  minimal,
		"page.yml": os.Expand(string(page), func(name string) string { return map[string]string{"PAGE_PORT": "8080", "MBUS_PORT": "6868"}[name] }),
		"variables in place of values": `name: ((name))
releases: ((releases))
networks:
- {name: n, type: ((type)), subnets: [{range: ((cidr)), gateway: "10.0.((x)).1", dns: ((dns))}]}
resource_pools:
- {name: ((a)), network: ((b)), cloud_properties: ((c)), env: ((d)), stemcell: ((e))}
disk_pools: [{name: d, disk_size: ((size))}]
instance_groups:
- {name: v, instances: ((one)), resource_pool: p, networks: [{name: n, static_ips: [((ip))], default: [((what))]}]}
update: {update_watch_time: ((min))-((max)), vm_strategy: ((strategy)), snapshot: ((snapshot))}
protect: ((protect))
features: {use_dns_addresses: ((dns))}
tags: {((key)): ((value))}
cloud_provider:
  template: ((template))
  mbus: https://mbus:((password))@((ip)):6868
  cert: ((ssl))
  ssh_tunnel: {port: ((port)), connection_refused_timeout: ((time))}
  registry: {unauthenticated_get: ((flag))}
variables: [{name: a, type: ((kind))}]
`,
		"old spellings":           replaced(t, "instance_groups:", "jobs:", "networks: [{name: default}]", "networks: [{name: default}], templates: [{name: a, release: cpi}]"),
		"null and keys of others": minimal + "  ssh_tunnel:\n  registry: ~\ntags:\ndirector_uuid: x\nx-anything: {a: 1}\n.anchors: []\nupdate: {serial: true, update_watch_time: ~}\n",
		"every type of variable": minimal + `variables:
- {name: given}
- {name: p, type: password, options: {length: 30}}
- {name: u, type: user, options: {username: admin}}
- {name: k, type: ssh, options: {key_type: ed25519, ssh_comment: me}}
- {name: r, type: rsa, options: {key_length: 4096}}
- {name: c, type: certificate, options: {ca: ca, common_name: ((ip)), alternative_names: [((ip))], key_usage: [digital_signature], extended_key_usage: [server_auth], duration: ((days)), is_ca: no}}
- {name: ca, type: certificate, update_mode: converge, options: {is_ca: true, common_name: ca}}
`,
		"switches":              "protect: true\nfeatures: {use_dns_addresses: true, converge_variables: true}\nupdate: {snapshot: false}\n" + minimal,
		"spellings of YAML 1.2": minimal + "  registry: {unauthenticated_get: \"no\", port: \"6_901\"}\n  ssh_tunnel: {connection_refused_timeout: 90, auth_failure_timeout: 2m30.5s}\n",
	}
	files := []string{"testdata/good.yml", "../testdata/quickstart/manifest.yml"}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents[file] = string(text)
	}
	for name, text := range documents {
		if err := schema.Validate(manifesttest.Instance(t, text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	network := "{name: default, type: dynamic}"
	for _, c := range []struct{ old, new, place string }{
		{"name: min", "name: ''", "/name"},
		{"name: min", "name: [a]", "/name"},
		{"name: min", "nmae: min", ""},
		{"releases:\n", "releases: []\nx-releases:\n", "/releases"},
		{"networks:\n", "networks: {}\nx-networks:\n", "/networks"},
		{"{name: cpi, url: \"file:///cpi.tgz\"}", "{name: cpi, url: \"https://h/cpi.tgz\"}", "/releases/0"},
		{"{name: cpi, url: \"file:///cpi.tgz\"}", "{name: cpi, url: u, sha1: sha256:abc}", "/releases/0/sha1"},
		{"{name: cpi, url: \"file:///cpi.tgz\"}", "{name: cpi, uri: u}", "/releases/0"},
		{"stemcell: {url: \"file:///stemcell.tgz\"}", "stemcell: {url: \"https://h/s\"}", "/resource_pools/0/stemcell"},
		{network, "{name: default, type: static}", "/networks/0/type"},
		{network, "{name: default, type: manual}", "/networks/0"},
		{network, "{name: default, type: manual, subnets: []}", "/networks/0/subnets"},
		{network, "{name: default, type: manual, subnets: [{range: 10.0.0.0, gateway: 10.0.0.1}]}", "/networks/0/subnets/0/range"},
		{network, "{name: default, type: manual, subnets: [{range: 10.0.0.0/8, gateway: router}]}", "/networks/0/subnets/0/gateway"},
		{"instances: 1", "instances: -1", "/instance_groups/0/instances"},
		{"instances: 1", "instances: '1'", "/instance_groups/0/instances"},
		{"instances: 1", "instances: 1, lifecycle: cron", "/instance_groups/0/lifecycle"},
		{"instance_groups:", "jobs: [{name: a, instances: 1, resource_pool: p, networks: [{name: n}]}]\ninstance_groups:", ""},
		{"instance_groups:", "x-groups:", ""},
		{"networks: [{name: default}]", "networks: []", "/instance_groups/0/networks"},
		{"networks: [{name: default}]", "networks: [{name: default, static_ips: [ten]}]", "/instance_groups/0/networks/0/static_ips/0"},
		{"networks: [{name: default}]", "networks: [{name: default, default: [route]}]", "/instance_groups/0/networks/0/default/0"},
		{"networks: [{name: default}]", "networks: [{name: default}], jobs: [{name: a}]", "/instance_groups/0/jobs/0"},
		{"networks: [{name: default}]", "networks: [{name: default}], jobs: [{name: a, release: r}], templates: [{name: a, release: r}]", "/instance_groups/0"},
		{"networks: [{name: default}]", "networks: [{name: default}], persistent_disk: -1", "/instance_groups/0/persistent_disk"},
		{"cloud_provider:\n", "update: {update_watch_time: 3-2-1}\ncloud_provider:\n", "/update/update_watch_time"},
		{"cloud_provider:\n", "update: {vm_strategy: hot-swap}\ncloud_provider:\n", "/update/vm_strategy"},
		{"cloud_provider:\n", "update: {snapshot: daily}\ncloud_provider:\n", "/update/snapshot"},
		{"cloud_provider:\n", "protect: disk\ncloud_provider:\n", "/protect"},
		{"cloud_provider:\n", "features: {use_dns: true}\ncloud_provider:\n", "/features"},
		{"cloud_provider:\n", "disk_pools: [{name: d, disk_size: 0}]\ncloud_provider:\n", "/disk_pools/0/disk_size"},
		{"cloud_provider:\n", "tags: {a: [b]}\ncloud_provider:\n", "/tags/a"},
		{"cloud_provider:\n", "variables: [{name: v, type: pasword}]\ncloud_provider:\n", "/variables/0/type"},
		{"cloud_provider:\n", "variables: [{name: v, type: password, options: {lenght: 3}}]\ncloud_provider:\n", "/variables/0/options"},
		{"cloud_provider:\n", "variables: [{name: v, type: ssh, options: {key_type: dsa}}]\ncloud_provider:\n", "/variables/0/options/key_type"},
		{"cloud_provider:\n", "variables: [{name: v, type: certificate, options: {extended_key_usage: [server]}}]\ncloud_provider:\n", "/variables/0/options/extended_key_usage/0"},
		{"  mbus:", "  nbus:", "/cloud_provider"},
		{"  template: {name: cpi, release: cpi}\n", "", "/cloud_provider"},
		{"cloud_provider:\n", "cloud_provider:\n  registry: {port: 70000}\n", "/cloud_provider/registry/port"},
		{"cloud_provider:\n", "cloud_provider:\n  registry: {unauthenticated_get: maybe}\n", "/cloud_provider/registry/unauthenticated_get"},
		{"cloud_provider:\n", "cloud_provider:\n  ssh_tunnel: {auth_failure_timeout: 3 hours}\n", "/cloud_provider/ssh_tunnel/auth_failure_timeout"},
		{"cloud_provider:\n", "cloud_provider:\n  cert: {ca: {}}\n", "/cloud_provider/cert/ca"},
	} {
		err := schema.Validate(manifesttest.Instance(t, replaced(t, c.old, c.new)))
		var wrong *jsonschema.ValidationError
		if !errors.As(err, &wrong) {
			t.Errorf("%s: accepted", c.new)
			continue
		}
		if places := places(wrong); !slices.Contains(places, c.place) {
			t.Errorf("%s: refused at %q, want %q", c.new, places, c.place)
		}
	}
}

// places lists the places of the errors in a document.
func places(e *jsonschema.ValidationError) []string {
	if len(e.Causes) == 0 {
		place := ""
		for _, token := range e.InstanceLocation {
			place += "/" + token
		}
		return []string{place}
	}
	var list []string
	for _, cause := range e.Causes {
		list = append(list, places(cause)...)
	}
	return list
}

// The schema and the reader know the same keys.
func TestSchemaHasAllKeys(t *testing.T) {
	t.Parallel()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	type definition struct {
		Properties map[string]struct{ Description string }
	}
	var schema struct {
		definition
		Defs map[string]definition `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{"": slices.Sorted(maps.Keys(schema.Properties))}
	for name, d := range schema.Defs {
		if len(d.Properties) > 0 {
			got[name] = slices.Sorted(maps.Keys(d.Properties))
		}
		for key, property := range d.Properties {
			if property.Description == "" {
				t.Errorf("%s.%s has no description", name, key)
			}
		}
	}
	want := map[string][]string{}
	for _, s := range sections {
		want[keys.DefinitionName(s.Name)] = slices.Sorted(slices.Values(slices.Concat(s.Names(), s.Ignored)))
	}
	for _, kind := range gen.Types() {
		options, _ := gen.Options(kind)
		for _, o := range options {
			want["options."+kind] = append(want["options."+kind], o.Name)
		}
		slices.Sort(want["options."+kind])
	}
	for name := range maps.Keys(want) {
		if !slices.Equal(got[name], want[name]) {
			t.Errorf("%q: schema has %v, reader %v", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("schema has %d maps, reader %d", len(got), len(want))
	}
}

// The sections list all keys that the reader reads, and no others.
func TestTableHoldsWhatIsRead(t *testing.T) {
	t.Parallel()
	asked := map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "document/definitions.go", "document/cloudconfig.go", "document/converge.go", "../network/parse.go")
	calls := regexp.MustCompile(`(?:\.Get\("([a-z0-9_]+)"\)|spellings\([a-z]+, "([a-z_]+)", "([a-z_]+)"\)|fields(?:\[|, )"([a-z_]+)")`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range calls.FindAllStringSubmatch(string(text), -1) {
			for _, key := range match[1:] {
				if key != "" {
					asked[key] = true
				}
			}
		}
	}
	known := map[string]bool{}
	for _, s := range sections {
		for _, key := range s.Names() {
			known[key] = true
			if !asked[key] {
				t.Errorf("nobody reads %s.%s", s.Name, key)
			}
		}
	}
	for key := range asked {
		if !known[key] {
			t.Errorf("the key %s is read, but is in no section", key)
		}
	}
}
