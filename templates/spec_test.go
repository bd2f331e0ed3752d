package templates

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/artifact"
)

// directorJob returns a job of an instance as a Director has it.
func directorJob(t testing.TB, files map[string]string, properties ...artifact.Property) Job {
	job := newJob(t, "web", files, properties...)
	job.Release, job.Fingerprint, job.SHA1 = "rel", "fp1", "sha256:1"
	job.Provides = []artifact.Link{{Name: "http", Type: "web"}, {Name: "own", Type: "peer"}}
	job.Consumes = []artifact.Link{{Name: "db", Type: "sql"}, {Name: "none", Type: "x"}, {Name: "hand", Type: "y"}}
	job.Context = Context{
		Name: "front", Index: 2, ID: "id-2", Bootstrap: false, Deployment: "dep", Address: "10.0.0.5", Host: "q-m1n1s0.q-g1.bosh",
		ReleaseVersion: "1.2", PersistentDisk: new(64),
		Networks: map[string]any{
			"a": map[string]any{"type": "manual", "ip": "10.0.0.5", "prefix": "32", "netmask": "255.255.255.0", "cloud_properties": map[string]any{"z": 1}, "default": []string{"dns", "gateway"}, "dns": []string{}, "gateway": "10.0.0.1", "dns_record_name": "2.front.a.dep.bosh"},
			"z": map[string]any{"type": "dynamic", "cloud_properties": map[string]any{}, "prefix": "32", "dns_record_name": "2.front.z.dep.bosh"},
			"v": map[string]any{"type": "vip", "cloud_properties": map[string]any{}, "ip": "10.9.9.9", "prefix": "32", "dns_record_name": "2.front.v.dep.bosh"},
		},
		Links: map[string]any{
			"db": map[string]any{
				"instance_group": "data", "address": "q-s0.data.a.dep.bosh", "properties": map[string]any{"port": 1},
				"instances": []any{map[string]any{"name": "data", "id": "i", "index": 0, "az": nil, "address": "10.0.0.6", "bootstrap": true}},
				LinkSpec:    map[string]any{"deployment_name": "dep", "domain": "bosh", "default_network": "a", "group_name": "db-sql", "use_short_dns_addresses": false, "use_link_dns_names": false},
			},
			"hand": map[string]any{"instances": []any{map[string]any{"address": "x"}}, "properties": map[string]any{}, LinkSpec: map[string]any{"deployment_name": "dep", "group_name": "hand-y"}},
		},
		Director: &Director{
			Jobs: []*artifact.Job{{Name: "agent", Fingerprint: "fp0"}, job.Job}, Networks: []string{"z", "v", "a"}, Network: "a",
			Provided: map[string][]ProvidedLink{"web": {{"own", "peer", "7"}, {"public <1>", "web", "12"}}},
		},
	}
	return job
}

// With a cloud config, templates see name and spec as a Director gives them, with the keys in
// its order.
func TestDirectorSpec(t *testing.T) { each(t, testDirectorSpec) }

func testDirectorSpec(t *testing.T, cfg Config) {
	const text = `<%= name %>/<%= index %> <%= spec.name %> <%= spec.job.name %> <%= spec.nope.inspect %> <%= spec.az.inspect %>
<% spec.each_pair do |key, value| -%>
<%= key %>: <%= value.to_json %>
<% end -%>
first: <%= spec.networks.methods(false).first %> <%= spec.networks.to_h.values.last.dns_record_name %> <%= spec.properties == properties %> <%= spec.properties.b.to_h.keys %>
raw: <%= raw_properties.to_json %> <%= p("b").keys %>
`
	const want = `front/2 front front nil nil
deployment: "dep"
job: {"name":"front","templates":[{"name":"agent","version":"fp0"},{"name":"web","version":"fp1","sha1":"sha256:1"}],"template":"agent","version":"fp0"}
index: 2
bootstrap: false
name: "front"
id: "id-2"
az: null
networks: {"z":{"type":"dynamic","cloud_properties":{},"prefix":"32","dns_record_name":"2.front.z.dep.bosh","ip":"127.0.0.1","netmask":"127.0.0.1","gateway":"127.0.0.1"},"v":{"type":"vip","ip":"10.9.9.9","cloud_properties":{},"prefix":"32","dns_record_name":"2.front.v.dep.bosh"},"a":{"type":"manual","ip":"10.0.0.5","prefix":"32","netmask":"255.255.255.0","cloud_properties":{"z":1},"default":["dns","gateway"],"dns":[],"gateway":"10.0.0.1","dns_record_name":"2.front.a.dep.bosh"}}
properties_need_filtering: true
dns_domain_name: "bosh"
address: "q-m1n1s0.q-g1.bosh"
persistent_disk: 64
properties: {"b":{"z":{"x":2,"y":1},"a":null,"m":false},"a":"d"}
links: {"db":{"deployment_name":"dep","domain":"bosh","default_network":"a","instance_group":"data","properties":{"port":1},"use_short_dns_addresses":false,"use_link_dns_names":false,"instances":[{"name":"data","id":"i","index":0,"bootstrap":true,"az":null,"address":"10.0.0.6"}],"group_name":"db-sql"},"hand":{"instances":[{"address":"x"}],"properties":{},"address":null,"deployment_name":"dep","group_name":"hand-y"}}
ip: "10.0.0.5"
release: {"name":"rel","version":"1.2"}
first: z 2.front.a.dep.bosh true [:z, :a, :m]
raw: {"b":{"z":{"x":2,"y":1},"a":null,"m":false},"a":"d"} ["z", "a", "m"]
`
	job := directorJob(t, map[string]string{"f": text}, artifact.Property{Name: "a", Default: "d", Place: 3},
		artifact.Property{Name: "b.a", Place: 1}, artifact.Property{Name: "b.m", Place: 2, Default: false}, artifact.Property{Name: "b.z", Place: 0})
	job.Context.JobProperties = map[string]any{"b": map[string]any{"z": map[string]any{"y": 1, "x": 2}}}
	dir := t.TempDir()
	if err := start(t, cfg).Render(t.Context(), []Job{job}, dir); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir, "web", "f"); got != want {
		for i, line := range strings.Split(got, "\n") {
			if lines := strings.Split(want, "\n"); i >= len(lines) || line != lines[i] {
				t.Errorf("line %d: got\n%s\nwant\n%s", i+1, line, strings.Join(lines[min(i, len(lines)):min(i+1, len(lines))], ""))
			}
		}
	}
	const links = `[
  {
    "name": "public <1>",
    "type": "web",
    "group": "12"
  },
  {
    "name": "own",
    "type": "peer",
    "group": "7"
  }
]
`
	if got := read(t, dir, "web", ".bosh", "links.json"); got != links {
		t.Errorf("links.json is %s", got)
	}
}

// Without other instances, links.json has the links of the job's spec, and is an empty list if
// there are none.
func TestLinksFile(t *testing.T) {
	t.Parallel()
	one := directorJob(t, map[string]string{})
	one.Context.Director.Provided = nil
	one.Context.Provides = map[string]any{"http": map[string]any{"as": "site"}, "own": "nil"}
	none, createEnv := newJob(t, "none", map[string]string{}), newJob(t, "createenv", map[string]string{})
	none.Context.Director = &Director{}
	dir := t.TempDir()
	if err := start(t, Config{}).Render(t.Context(), []Job{one, none, createEnv}, dir); err != nil {
		t.Fatal(err)
	}
	const want = "[\n  {\n    \"name\": \"site\",\n    \"type\": \"web\",\n    \"group\": \"\"\n  },\n  {\n    \"name\": \"own\",\n    \"type\": \"peer\",\n    \"group\": \"\"\n  }\n]\n"
	if got := read(t, dir, "web", ".bosh", "links.json"); got != want {
		t.Errorf("got %s", got)
	}
	if got := read(t, dir, "none", ".bosh", "links.json"); got != "[]\n" {
		t.Errorf("got %s", got)
	}
	if names := entries(t, dir, "createenv"); len(names) != 1 || names[0] != "monit" {
		t.Errorf("create-env has %v", names)
	}
}

// entries returns the names in a folder.
func entries(t testing.TB, name ...string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(name...))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
