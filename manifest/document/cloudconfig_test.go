package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// inFolder writes files into a folder and changes to it, so that messages have relative
// paths.
func inFolder(t *testing.T, files string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, f := range txtar.Parse([]byte(files)).Files {
		if err := os.MkdirAll(filepath.Dir(f.Name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.Name, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const twoClouds = `
-- m.yml --
name: lab
size: ((size))
-- net.yml --
x-note: {}
networks:
- {name: default, subnets: [{range: ((cidr))}]}
vm_types: ((vm_types))
-- types.yml --
vm_types:
- {name: large, cloud_properties: {cpu: 4}}
compilation: {workers: 2, network: default}
-- ops.yml --
- {type: replace, path: '/networks/name=default/subnets/0/gateway?', value: ((gateway))}
- {type: replace, path: /name, value: other}
- {type: replace, path: /vm_types/name=large/cloud_properties/cpu, value: 8}
-- vars.yml --
cidr: 10.0.0.0/24
gateway: 10.0.0.1
size: 5
vm_types: [{name: small}, {name: medium}]
`

// readCloud reads a document, and marks items of the cloud config as used.
func readCloud(t *testing.T, path string, opts Options, used ...string) (*Document, error) {
	t.Helper()
	return Read(t.Context(), path, opts, func(top Value) {
		for key, list := range top.All() {
			if key == "networks" || key == "vm_types" {
				for _, item := range list.Items() {
					for _, name := range used {
						if item.Get("name").Scalar() == name {
							item.Use()
						}
					}
				}
			}
		}
	})
}

func TestCloudConfig(t *testing.T) {
	inFolder(t, twoClouds)
	opts := Options{CloudConfigs: []string{"net.yml", "types.yml"}, VarsFiles: []string{"vars.yml"}}
	opts.Ops = []string{"ops.yml"}
	var seen []string
	d, err := Read(t.Context(), "m.yml", opts, func(top Value) {
		if got := strings.Join(top.CloudConfigs(), " "); got != "net.yml types.yml" {
			t.Errorf("cloud configs %q", got)
		}
		for _, item := range top.Get("vm_types").Items() {
			seen = append(seen, item.Get("name").Scalar()+" "+item.Position().String())
		}
		seen = append(seen, top.Get("networks").Items()[0].Get("subnets").Items()[0].Get("gateway").Scalar(), top.Get("azs").Position().String())
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "small vars.yml:4:12 medium vars.yml:4:27 large types.yml:2:3 10.0.0.1 net.yml:1:1"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(d.Missing) > 0 || len(d.Unused) > 0 {
		t.Errorf("missing %v, unused %v", d.Missing, d.Unused)
	}
	whole, err := Evaluate(t.Context(), "m.yml", opts)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := whole.Find("/vm_types/name=large/cloud_properties/cpu"); err != nil || found.Scalar() != "8" {
		t.Errorf("%v, %v", found.Scalar(), err)
	}
}

// A change of the cloud config changes the digest of the deployments that use the changed
// item, and of no others.
func TestCloudConfigDigest(t *testing.T) {
	digest := func(change ...string) (sum, sketch string) {
		t.Helper()
		inFolder(t, strings.NewReplacer(change...).Replace(twoClouds))
		d, err := readCloud(t, "m.yml", Options{CloudConfigs: []string{"net.yml", "types.yml"}, VarsFiles: []string{"vars.yml"}}, "default", "small")
		if err != nil {
			t.Fatal(err)
		}
		sum, err = d.Digest()
		if err != nil {
			t.Fatal(err)
		}
		text, err := d.Sketch()
		if err != nil {
			t.Fatal(err)
		}
		return sum, string(text)
	}
	before, sketch := digest()
	for _, unused := range [][]string{{"cpu: 4", "cpu: 6"}, {"workers: 2", "workers: 3"}, {"{name: medium}", "{name: medium, cloud_properties: {a: b}}"}, {"x-note: {}", "x-note: {a: b}"}} {
		after, changed := digest(unused...)
		if after != before || changed != sketch {
			t.Errorf("%q changes a deployment that does not use it:\n%s\n%s", unused, sketch, changed)
		}
	}
	if after, _ := digest("{name: small}", "{name: small, cloud_properties: {a: b}}"); after == before {
		t.Error("a changed vm type is no change")
	}
	if after, changed := digest("cidr: 10.0.0.0/24", "cidr: 10.0.1.0/24"); after == before || changed != sketch {
		t.Errorf("a changed value of a variable: %t\n%s\n%s", after == before, sketch, changed)
	}
	if after, changed := digest("subnets: [{range: ((cidr))}]", "subnets: [{range: 10.0.1.0/24}]"); after == before || changed == sketch {
		t.Error("a changed network is no change")
	}
	if !strings.Contains(sketch, "name: default") || strings.Contains(sketch, "large") || strings.Contains(sketch, "compilation") {
		t.Errorf("sketch:\n%s", sketch)
	}
}

// The manifest may name its cloud config; the one of the options replaces it.
func TestCloudConfigKey(t *testing.T) {
	inFolder(t, `
-- deploy/m.yml --
name: lab
cloud_config: ../cloud.yml
-- deploy/list.yml --
name: lab
cloud_config: [../cloud.yml, other.yml]
-- plain.yml --
name: lab
-- cloud.yml --
networks: [{name: default}]
-- deploy/other.yml --
vm_types: [{name: small}]
-- ops.yml --
- {type: replace, path: '/cloud_config?', value: cloud.yml}
- {type: replace, path: '/networks/name=default/type?', value: dynamic}
`)
	for _, c := range []struct {
		path string
		opts Options
		want string
	}{
		{"deploy/m.yml", Options{}, "cloud.yml"},
		{"deploy/list.yml", Options{}, "cloud.yml deploy/other.yml"},
		{"deploy/m.yml", Options{CloudConfigs: []string{"deploy/other.yml"}}, "deploy/other.yml"},
		{"plain.yml", Options{Ops: []string{"ops.yml"}}, "cloud.yml"},
		{"plain.yml", Options{}, ""},
	} {
		d, err := Read(t.Context(), c.path, c.opts, func(top Value) {
			if got := strings.Join(top.CloudConfigs(), " "); got != c.want {
				t.Errorf("%s: %q, want %q", c.path, got, c.want)
			}
			if top.Get("cloud_config").HasKey() {
				t.Errorf("%s: the key is still there", c.path)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(c.opts.Ops) > 0 && d.top().Get("networks").Items()[0].Get("type").Scalar() != "dynamic" {
			t.Error("the operation was not applied to the cloud config")
		}
	}
	// interpolate treats the document as any YAML, not as a manifest.
	d, err := Evaluate(t.Context(), "deploy/m.yml", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := d.Find("/cloud_config"); err != nil || found.Scalar() != "../cloud.yml" {
		t.Errorf("%v, %v", found.Scalar(), err)
	}
}

func TestCloudConfigMistakes(t *testing.T) {
	inFolder(t, `
-- m.yml --
name: lab
-- old.yml --
name: lab
networks: []
resource_pools: []
disk_pools: []
-- half.yml --
name: lab
networks: []
azs: ~
disk_pools: []
-- variable.yml --
name: lab
cloud_config: ((file))
-- wrong.yml --
name: lab
cloud_config: [{a: b}]
-- lost.yml --
cloud_config: nowhere.yml
-- cloud.yml --
networks: [{name: default}]
compilation: {workers: 1}
vm_type: []
-- second.yml --
compilation: {workers: 1}
vm_types: {a: b}
-- empty.yml --
-- list.yml --
- a
-- broken.yml --
networks: [
-- ops.yml --
- {type: replace, path: /networks/name=private/type, value: manual}
`)
	for _, c := range []struct{ path, clouds, ops, want string }{
		{"old.yml", "cloud.yml", "", "old.yml:3:1: resource_pools: the manifest is in create-env's style, with networks and resource_pools of its own, and so cannot be used with the cloud config cloud.yml: leave the cloud config out, or give the instance group a vm_type and a stemcell in place of a resource_pool (V1DeprecatedResourcePools)"},
		{"half.yml", "cloud.yml", "", `half.yml:2:1: networks: must be in the cloud config cloud.yml, not in the manifest (V1DeprecatedNetworks)
half.yml:3:1: azs: must be in the cloud config cloud.yml, not in the manifest (DeploymentInvalidProperty)
half.yml:4:1: disk_pools: must be replaced by disk_types in the cloud config cloud.yml (V1DeprecatedDiskPools)`},
		{"variable.yml", "", "", "variable.yml:2:15: cloud_config: must not contain variables, because the cloud config is read before they are filled in; name the file with --cloud-config instead"},
		{"wrong.yml", "", "", "wrong.yml:2:16: cloud_config[0]: must be text, not a map"},
		{"lost.yml", "", "", "cannot read the cloud config nowhere.yml: no such file or directory"},
		{"m.yml", "cloud.yml second.yml", "", `cloud.yml:3:1: warning: vm_type: unknown key of a cloud config, which is ignored; did you mean "vm_types"?
second.yml:1:1: compilation: must be in one cloud config only, but is in cloud.yml:2:1 as well (CloudConfigMergeError)
second.yml:2:11: vm_types: must be a list (lines that begin with "- "), not a map`},
		{"m.yml", "empty.yml", "", "empty.yml:1:1: the cloud config is empty"},
		{"m.yml", "m.yml", "", `m.yml:1:1: is not a cloud config: it has none of the keys "azs", "networks", "vm_types", "vm_extensions", "disk_types", "compilation"`},
		{"m.yml", "list.yml", "", `list.yml:1:1: a cloud config must be a map with the keys "azs", "networks", "vm_types", "vm_extensions", "disk_types", "compilation", not a list`},
		{"m.yml", "cloud.yml", "ops.yml", `ops.yml:1:25: operation [0]: cannot replace /networks/name=private/type: /networks has no item whose name is "private"; it has "default"`},
	} {
		opts := Options{CloudConfigs: strings.Fields(c.clouds), Ops: strings.Fields(c.ops)}
		_, err := readCloud(t, c.path, opts)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s:\ngot  %v\nwant %s", c.path, c.clouds, err, c.want)
		}
	}
	if _, err := readCloud(t, "m.yml", Options{CloudConfigs: []string{"broken.yml"}}); err == nil || !strings.Contains(err.Error(), "broken.yml:") {
		t.Errorf("%v", err)
	}
}

// A saved plan belongs to one cloud config, no matter which input names it.
func TestCloudConfigInputs(t *testing.T) {
	inFolder(t, `
-- a/m.yml --
cloud_config: cloud.yml
-- b/m.yml --
cloud_config: cloud.yml
-- a/cloud.yml --
azs: []
-- b/cloud.yml --
azs: [] #
-- plain.yml --
name: lab
-- ops.yml --
- {type: replace, path: '/cloud_config?', value: a/cloud.yml}
-- other-ops.yml --
- {type: replace, path: '/cloud_config?', value: b/cloud.yml}
`)
	digest := func(path string, opts Options) string {
		t.Helper()
		sum, err := InputsDigest(t.Context(), path, opts, "salt")
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	if digest("a/m.yml", Options{}) == digest("b/m.yml", Options{}) {
		t.Error("another cloud config has the same digest")
	}
	if digest("a/m.yml", Options{CloudConfigs: []string{"b/cloud.yml"}}) != digest("b/m.yml", Options{}) {
		t.Error("the same cloud config has another digest")
	}
	one := digest("plain.yml", Options{Ops: []string{"ops.yml"}})
	if err := os.WriteFile("a/cloud.yml", []byte("azs: [{name: z1}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if digest("plain.yml", Options{Ops: []string{"ops.yml"}}) == one {
		t.Error("a cloud config that an operation names has no part in the digest")
	}
}
