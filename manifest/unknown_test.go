package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"

	"bootstrap/manifest/document"
	"bootstrap/manifest/manifesttest"
)

// complete has a map of every kind that a manifest, a cloud config, a runtime config and the
// file of a cloud provider have. The manifest is in the style of a Director.
const complete = `
-- manifest.yml --
name: dep
releases:
- {name: a, version: "1", url: "file:///a.tgz", sha1: "da39a3ee5e6b4b0d3255bfef95601890afd80709"}
stemcells:
- {alias: default, os: ubuntu-noble, version: "1", url: "file:///stemcell.tgz"}
instance_groups:
- name: web
  instances: 2
  lifecycle: service
  azs: [z1]
  vm_type: small
  vm_extensions: [public]
  stemcell: default
  persistent_disks: [{name: data, type: fast}]
  networks: [{name: default, default: [dns, gateway]}]
  env: {bosh: {mbus: {cert: {ca: ((ca.certificate))}}}}
  healthcheck: [{tcp: ":80"}]
  tags: {a: b}
  update: {canaries: 1}
  migrated_from: [{name: old, az: z1}]
  jobs:
  - name: web
    release: a
    properties: {open: {}}
    consumes: {db: {from: main}}
    provides: {conn: {as: main, aliases: [{domain: d.corp}]}}
    custom_provider_definitions: [{name: extra, type: t, properties: [p]}]
- name: worker
  instances: 1
  azs: [z1]
  vm_resources: {cpu: 1, ram: 1024, ephemeral_disk_size: 1024}
  stemcell: default
  networks: [{name: default}]
  jobs: []
addons:
- name: bpm
  jobs: [{name: bpm, release: a}]
  include: {stemcell: [{os: ubuntu-noble}], jobs: [{name: web, release: a}]}
  exclude: {lifecycle: errand}
properties: {open: {}}
tags: {c: d}
update: {canaries: 1, max_in_flight: 1, update_watch_time: 0-1000}
features: {use_dns_addresses: true}
variables:
- {name: pw, type: password, options: {length: 20}}
- {name: user, type: user, options: {username: me}}
- {name: ssh, type: ssh, options: {key_type: ed25519}}
- {name: rsa, type: rsa, options: {key_length: 2048}}
- {name: ca, type: certificate, options: {is_ca: true, common_name: ca}}
- {name: tls, type: certificate, options: {ca: ca, common_name: c}, consumes: {alternative_name: {from: conn, properties: {wildcard: true}}}}
-- ops.yml --
- {type: replace, path: "/tags/by?", value: operation}
-- cloud.yml --
azs: [{name: z1, cloud_properties: {open: {}}}]
networks:
- name: default
  subnets: [{range: 10.0.0.0/24, gateway: 10.0.0.1, azs: [z1], cloud_properties: {}}]
vm_types: [{name: small, cloud_properties: {}}]
vm_extensions: [{name: public, cloud_properties: {}}]
disk_types: [{name: fast, disk_size: 1024, cloud_properties: {}}]
compilation: {workers: 1, network: default, az: z1, vm_type: small, env: {}}
-- runtime.yml --
releases:
- {name: syslog, version: "1", url: "file:///syslog.tgz"}
- {name: a, version: "1", url: "file:///a.tgz"}
addons:
- name: syslog
  jobs: [{name: syslog, release: syslog}]
  include: {deployments: [dep]}
tags: {e: f}
variables:
- {name: more, type: password, options: {length: 20}}
- {name: pw, type: password}
- {name: given, type: password, options: {length: 20}}
-- provider.yml --
cloud_provider:
  template: {name: cpi, release: cpi}
  mbus: https://u:p@0.0.0.0:6868
  properties: {}
  cert: {ca: ((ca.certificate))}
  ssh_tunnel: {host: 0.0.0.0, user: u, password: p}
  registry: {host: 127.0.0.1}
releases: [{name: cpi, url: "file:///cpi.tgz"}]
variables: [{name: third, type: password, options: {length: 20}}, {name: pw, type: password}]
env: {bosh: {password: "*"}}
`

// alone is a manifest in the style of create-env with a map of every kind that it has.
const alone = `
-- manifest.yml --
name: dep
releases: [{name: a, url: "file:///a.tgz"}]
networks:
- {name: private, type: manual, subnets: [{range: 10.0.0.0/24, gateway: 10.0.0.1, cloud_properties: {}}]}
resource_pools:
- {name: vms, network: private, cloud_properties: {}, stemcell: {url: "file:///stemcell.tgz"}, env: {bosh: {}}}
disk_pools: [{name: disks, disk_size: 1024, cloud_properties: {}}]
instance_groups:
- name: web
  instances: 1
  resource_pool: vms
  persistent_disk_pool: disks
  networks: [{name: private, static_ips: [10.0.0.10]}]
  healthcheck: [{tcp: ":80"}]
  jobs:
  - name: web
    release: a
    properties: {open: {}}
    consumes: {db: {from: main}}
    provides: {conn: {as: main, aliases: [{domain: d.corp}]}}
    custom_provider_definitions: [{name: extra, type: t, properties: [p]}]
properties: {open: {}}
tags: {c: d}
update: {update_watch_time: 0-1000}
features: {use_dns_addresses: true}
variables:
- {name: pw, type: password, options: {length: 20}}
- {name: ca, type: certificate, options: {is_ca: true, common_name: ca}}
- {name: tls, type: certificate, options: {ca: ca, common_name: c}, consumes: {alternative_name: {from: conn, properties: {wildcard: true}}}}
cloud_provider:
  template: {name: cpi, release: a}
  mbus: https://u:p@10.0.0.10:6868
  properties: {}
  cert: {ca: ((ca.certificate))}
  ssh_tunnel: {host: 10.0.0.10, user: u, password: p}
  registry: {host: 127.0.0.1}
`

// open matches the maps whose keys the manifest does not fix, or of which only a job's spec or
// a CPI knows the keys.
var open = regexp.MustCompile(`properties(\.open)?$|\.env(\.bosh|\.mbus|\.cert)*$|^env|tags$|\.jobs\[\]\.(consumes|provides)$|consumes\.alternative_name\.properties$`)

// linksOnly matches the maps in which package deployment/links finds unknown keys.
var linksOnly = regexp.MustCompile(`\.jobs\[\]\.(consumes|provides)\.`)

// Every map of the inputs reports a key that nothing reads.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"director": complete, "create-env": alone} {
		files := txtar.Parse([]byte(text))
		if got := found(t, files, -1, nil); got != "" {
			t.Fatalf("%s: without unknown keys: %s", name, got)
		}
		for i, f := range files.Files {
			for n, path := range paths(t, f.Data) {
				if open.MatchString(path) || linksOnly.MatchString(path) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", name, f.Name, path), func(t *testing.T) {
					t.Parallel()
					got := found(t, files, i, insert(t, f.Data, n))
					if !strings.Contains(got, "zz_unknown") || !strings.Contains(got, f.Name+":") {
						t.Errorf("%s of %s: a key zz_unknown is reported as %q", path, f.Name, got)
					}
				})
			}
		}
	}
}

// insert returns the document with one more key in the map with a number.
func insert(t *testing.T, data []byte, n int) []byte {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	walk(&doc, "", func(path string, m *yaml.Node) {
		if n == 0 {
			m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "zz_unknown"}, &yaml.Node{Kind: yaml.ScalarNode, Value: "x"})
		}
		n--
	})
	out, err := yaml.Marshal(&doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// walk calls do for each map of a document, with its path.
func walk(n *yaml.Node, path string, do func(path string, m *yaml.Node)) {
	switch n.Kind {
	case yaml.DocumentNode:
		walk(n.Content[0], path, do)
	case yaml.SequenceNode:
		for _, item := range n.Content {
			walk(item, path+"[]", do)
		}
	case yaml.MappingNode:
		do(path, n)
		for i := 0; i < len(n.Content); i += 2 {
			walk(n.Content[i+1], strings.TrimPrefix(path+"."+n.Content[i].Value, "."), do)
		}
	}
}

// paths returns the paths of all maps of a document.
func paths(t *testing.T, data []byte) []string {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var list []string
	walk(&doc, "", func(path string, _ *yaml.Node) { list = append(list, path) })
	return list
}

// found returns what is reported about files, the file with the number i replaced.
func found(t *testing.T, files *txtar.Archive, i int, data []byte) string {
	t.Helper()
	other := &txtar.Archive{Files: slices.Clone(files.Files)}
	if i >= 0 {
		other.Files[i].Data = data
	}
	dir := manifesttest.Unpack(t, other)
	opts := document.Options{Generate: document.Plan, VarsStore: filepath.Join(dir, "creds.yml")}
	for name, list := range map[string]*[]string{"ops.yml": &opts.Ops, "cloud.yml": &opts.CloudConfigs, "runtime.yml": &opts.RuntimeConfigs} {
		if path := filepath.Join(dir, name); exists(path) {
			*list = []string{path}
		}
	}
	if path := filepath.Join(dir, "provider.yml"); exists(path) {
		opts.CloudProvider = path
	}
	var warnings []document.Problem
	path := filepath.Join(dir, "manifest.yml")
	if opts.CloudConfigs == nil {
		m, err := Load(t.Context(), path, opts)
		if err != nil {
			return err.Error()
		}
		warnings = m.Warnings
	} else {
		opts.Vars = []string{"given=x"}
		d, err := LoadDeployment(t.Context(), path, opts)
		if err != nil {
			return err.Error()
		}
		warnings = d.Common.Warnings
	}
	var lines []string
	for _, w := range warnings {
		lines = append(lines, w.String())
	}
	return strings.Join(lines, "\n")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
