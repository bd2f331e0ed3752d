package manifest

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/manifest/document"
)

// several is a manifest in the Director's style with two groups.
const several = `
name: dep
releases:
- {name: cpi, url: "file:///cpi.tgz"}
- {name: a, url: "file:///a.tgz"}
- {name: b, url: "file:///b.tgz"}
stemcells: [{alias: default, os: ubuntu-noble, version: "1", url: "file:///stemcell.tgz"}]
instance_groups:
- name: db
  instances: 1
  azs: [z1]
  vm_type: small
  stemcell: default
  networks: [{name: default, static_ips: [10.0.0.10]}]
  jobs: [{name: db, release: b, properties: {port: 1}}]
- name: web
  instances: 2
  azs: [z2, z1]
  vm_type: small
  stemcell: default
  networks: [{name: default}]
  jobs: [{name: web, release: a, properties: {title: x}}]
update: {update_watch_time: 0-1000}
cloud_provider:
  template: {name: cpi, release: cpi}
  mbus: https://u:p@0.0.0.0:6868
  properties: {}
`

const cloud = `
azs: [{name: z1, cloud_properties: {zone: a}}, {name: z2, cloud_properties: {zone: b}}]
networks:
- name: default
  subnets: [{range: 10.0.0.0/24, gateway: 10.0.0.1, azs: [z1, z2], static: [10.0.0.10]}]
vm_types: [{name: small}]
`

// written writes the manifest with the replacements, and returns its path and the
// options.
func written(t *testing.T, pairs ...string) (string, document.Options) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"manifest.yml": strings.NewReplacer(pairs...).Replace(several), "cloud.yml": cloud} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "manifest.yml"), document.Options{CloudConfigs: []string{filepath.Join(dir, "cloud.yml")}}
}

func deploymentOf(t *testing.T, pairs ...string) *Deployment {
	t.Helper()
	path, opts := written(t, pairs...)
	d, err := LoadDeployment(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Load refuses a manifest with several instances. It reports other mistakes and a missing
// cloud config first.
func TestSeveral(t *testing.T) {
	t.Parallel()
	path, opts := written(t)
	_, err := Load(t.Context(), path, opts)
	var is *SeveralError
	if !errors.As(err, &is) || !strings.Contains(is.Hint(), "--instance") {
		t.Errorf("%v", err)
	}
	path, opts = written(t, "release: a", "release: c")
	if _, err = Load(t.Context(), path, opts); err == nil || errors.As(err, &is) || !strings.Contains(err.Error(), `instance_groups[1].jobs[0].release: must be the name of a release`) {
		t.Errorf("%v", err)
	}
	path, _ = written(t)
	if _, err = Load(t.Context(), path, document.Options{}); err == nil || !strings.Contains(err.Error(), "--cloud-config FILE") {
		t.Errorf("%v", err)
	}
}

// Two groups cannot have the same static address, unless one is an errand, which has it
// only while it runs.
func TestSameStaticAddress(t *testing.T) {
	t.Parallel()
	const own = "instances: 2\n  azs: [z2, z1]\n  vm_type: small\n  stemcell: default\n  networks: [{name: default}]"
	same := strings.NewReplacer("instances: 2", "instances: 1", "default}]", "default, static_ips: [10.0.0.10]}]").Replace(own)
	path, opts := written(t, own, same)
	_, err := LoadDeployment(t.Context(), path, opts)
	if err == nil || !strings.Contains(err.Error(), `instance_groups[1].networks[0].static_ips: 10.0.0.10 is an address of the instance group "db" already`) {
		t.Errorf("%v", err)
	}
	deploymentOf(t, own, "lifecycle: errand\n  "+same)
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	d := deploymentOf(t)
	m, err := d.Groups[1].Identify(Identity{ID: "id", Index: 1}, "z2", map[string]netip.Prefix{"default": netip.MustParsePrefix("10.0.0.3/32")})
	if err != nil {
		t.Fatal(err)
	}
	ip, _ := m.Address()
	if m.Instance() != "web/1" || ip != "10.0.0.3" || m.Zone() != "z2" || m.CPI.MBusURL.Host != "10.0.0.3:6868" || m.ResourcePool.CloudProperties["zone"] != "b" {
		t.Errorf("%s %s %s %s %v", m.Instance(), ip, m.Zone(), m.CPI.MBusURL.Host, m.ResourcePool.CloudProperties)
	}
	if name := d.Groups[1].DefaultNetwork(); name != "default" {
		t.Errorf("the default network is %q", name)
	}
	if _, err := d.Groups[0].Identify(Identity{ID: "id"}, "z2", nil); err == nil {
		t.Error("the instance is in a zone that its group does not have")
	}
}

// The digest of an instance changes only if something changes that affects its group.
func TestDigestOfGroup(t *testing.T) {
	t.Parallel()
	before := deploymentOf(t)
	for name, c := range map[string]struct {
		pairs   []string
		db, web bool // the digest of the group changes
	}{
		"nothing":               {nil, false, false},
		"lines":                 {[]string{"releases:", "# a comment\nreleases:"}, false, false},
		"a property":            {[]string{"port: 1", "port: 2"}, true, false},
		"a release of one":      {[]string{"file:///a.tgz", "file:///a2.tgz"}, false, true},
		"the release of CPIs":   {[]string{"file:///cpi.tgz", "file:///cpi2.tgz"}, true, true},
		"the name":              {[]string{"name: dep", "name: other"}, true, true},
		"the update":            {[]string{"0-1000", "0-2000"}, true, true},
		"the number":            {[]string{"instances: 2", "instances: 3"}, false, false},
		"the order of groups":   {[]string{"- name: db\n", "- name: zero\n  instances: 0\n  azs: [z1]\n  vm_type: small\n  stemcell: default\n  networks: [{name: default}]\n  jobs: []\n- name: db\n"}, false, false},
		"the agent's password":  {[]string{"u:p@", "u:q@"}, true, true},
		"zones of one":          {[]string{"azs: [z2, z1]", "azs: [z2]"}, false, true},
		"the stemcell's source": {[]string{"file:///stemcell.tgz", "file:///other.tgz"}, true, true},
	} {
		after := deploymentOf(t, c.pairs...)
		digest := func(d *Deployment, group string) string {
			for _, g := range d.Groups {
				if g.Name == group {
					return g.Manifest.Digest
				}
			}
			return ""
		}
		for group, changes := range map[string]bool{"db": c.db, "web": c.web} {
			if got := digest(before, group) != digest(after, group); got != changes {
				t.Errorf("%s: the digest of %s changes: %v", name, group, got)
			}
		}
	}
}

// A certificate gets the names of the links that it consumes; without them it is not
// generated.
func TestVariableConsumes(t *testing.T) {
	path, inputs := written(t, "update: {", "variables: [{name: ca, type: certificate, options: {is_ca: true, common_name: ca}}, {name: tls, type: certificate, options: {ca: ca}, consumes: {alternative_name: {from: db}, common_name: {from: db}}}]\nupdate: {")
	inputs.VarsStore, inputs.Generate = filepath.Join(t.TempDir(), "creds.yml"), document.Write
	if _, err := LoadDeployment(t.Context(), path, inputs); err == nil || !strings.Contains(err.Error(), "needs the addresses of the link db, which only bootstrap deploy knows") {
		t.Errorf("%v", err)
	}
	inputs.LinkNames = func(_ context.Context, wishes []document.LinkWish) ([]document.LinkNames, error) {
		if len(wishes) != 2 || wishes[0] != (document.LinkWish{Variable: "tls", From: "db", Type: "address"}) {
			t.Errorf("%+v", wishes)
		}
		return []document.LinkNames{{Names: []string{"db.example.com", "10.0.0.9"}}, {Names: []string{"db.example.com"}}}, nil
	}
	if _, err := LoadDeployment(t.Context(), path, inputs); err != nil {
		t.Fatal(err)
	}
	inputs.Generate, inputs.CheckLinks = document.Plan, true
	inputs.LinkNames = func(context.Context, []document.LinkWish) ([]document.LinkNames, error) {
		return []document.LinkNames{{Names: []string{"10.0.0.10"}}, {Names: []string{"db.example.com"}}}, nil
	}
	d, err := LoadDeployment(t.Context(), path, inputs)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range d.Common.Warnings {
		if strings.Contains(w.Message, `the stored certificate is for "10.0.0.9", "db.example.com", but the option alternative_names is "10.0.0.10"`) {
			return
		}
	}
	t.Errorf("%v", d.Common.Warnings)
}

// update.on_failure of a group replaces that of the deployment. Unknown values are refused.
func TestContinueAfterFailure(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"continue": ContinueAfterFailure, "stop": "", "null": ""} {
		d := deploymentOf(t, "update_watch_time: 0-1000", "on_failure: "+text)
		if got := d.Groups[0].Rules.OnFailure; got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	path, opts := written(t, "update_watch_time: 0-1000", "on_failure: go")
	if _, err := LoadDeployment(t.Context(), path, opts); err == nil || !strings.Contains(err.Error(), `update.on_failure: must be stop or continue, or be left out, but is "go"`) {
		t.Errorf("%v", err)
	}
}

// A min_healthy that is neither a number nor a percentage is refused where it is written.
func TestMinHealthy(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"0", "3", "50%", "100%", "null", `""`} {
		deploymentOf(t, "update_watch_time: 0-1000", "min_healthy: "+right)
	}
	for _, wrong := range []string{"200%", "-1", "some", "2.5", "5 %"} {
		path, opts := written(t, "update_watch_time: 0-1000", "min_healthy: "+wrong)
		_, err := LoadDeployment(t.Context(), path, opts)
		if err == nil || !strings.Contains(err.Error(), "update.min_healthy: must be a number of instances or a percentage up to 100%, such as 2 or 50%, but is") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// A group may have no instances, and not fewer.
func TestNumberOfInstances(t *testing.T) {
	t.Parallel()
	if d := deploymentOf(t, "instances: 2", "instances: 0"); d.Groups[1].Instances != 0 {
		t.Error(d.Groups[1].Instances)
	}
	for text, want := range map[string]string{"instances: -1": "instances: must be a whole number from 0 to 100000, but is -1", "instances: null": "must be provided: the number of instances"} {
		path, opts := written(t, "instances: 2", text)
		_, err := LoadDeployment(t.Context(), path, opts)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "manifest.yml:") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The name of a group is a part of the names of files and of instances.
func TestGroupNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../web", "a/b", `a\b`, "a,b"} {
		path, opts := written(t, "- name: web", "- name: "+name)
		_, err := LoadDeployment(t.Context(), path, opts)
		if err == nil || !strings.Contains(err.Error(), "instance_groups[1].name: must not contain a slash, a backslash or a comma") || !strings.Contains(err.Error(), "manifest.yml:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Features that are not used are named.
func TestUnusedFeatures(t *testing.T) {
	path, inputs := written(t, "update: {", "features: {use_short_dns_addresses: true, randomize_az_placement: true, use_dns_addresses: true}\nupdate: {")
	d, err := LoadDeployment(t.Context(), path, inputs)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range d.Common.Warnings {
		if strings.HasPrefix(w.Path, "features") {
			got = append(got, w.Path+" "+w.Message)
		}
	}
	want := []string{
		"features.randomize_az_placement is not used: a new instance gets the zone with the fewest, the first by name",
	}
	if !slices.Equal(got, want) || !d.Common.UseDNS || d.Common.DNS != (DNS{Addresses: true, Short: true}) {
		t.Errorf("%q", got)
	}
}

func TestNeedsDNS(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to string
		needs    bool
		wrong    string
	}{
		"plain":            {"", "", false, ""},
		"addresses":        {"update: {", "features: {use_dns_addresses: true}\nupdate: {", true, ""},
		"names of links":   {"update: {", "features: {use_link_dns_names: true}\nupdate: {", true, ""},
		"an alias":         {"properties: {port: 1}", "provides: {conn: {aliases: [{domain: db.corp}]}}", true, ""},
		"a link by name":   {"properties: {port: 1}", "consumes: {conn: {from: conn, ip_addresses: false}}", true, ""},
		"a link by IP":     {"properties: {port: 1}", "consumes: {conn: {from: conn, ip_addresses: true}}", false, ""},
		"a DNS server":     {"{name: web, release: a", "{name: bosh-dns, release: a", true, ""},
		"names and not":    {"update: {", "features: {use_link_dns_names: true, use_dns_addresses: false}\nupdate: {", false, "features.use_dns_addresses: must be true or be left out"},
		"names, not short": {"update: {", "features: {use_link_dns_names: true, use_short_dns_addresses: false}\nupdate: {", false, "features.use_short_dns_addresses: must be true or be left out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, inputs := written(t, c.from, c.to)
			d, err := LoadDeployment(t.Context(), path, inputs)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d.NeedsDNS() != c.needs || d.Groups[1].Manifest.UseDNS != c.needs {
				t.Errorf("got %v, %v", d.NeedsDNS(), d.Groups[1].Manifest.UseDNS)
			}
		})
	}
}

// Two groups with the same DNS name are refused, as by the Director.
func TestGroupsWithOneDNSName(t *testing.T) {
	t.Parallel()
	path, opts := written(t, "- name: db\n", "- name: my_web\n", "- name: web\n", "- name: My-Web\n")
	_, err := LoadDeployment(t.Context(), path, opts)
	if err == nil || !strings.Contains(err.Error(), `instance_groups[1].name: must differ from the instance group "my_web" by more than case`) {
		t.Error(err)
	}
}
