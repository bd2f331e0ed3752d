package manifest

import (
	"context"
	"maps"
	"strings"
	"testing"
)

// Which groups get the jobs of an addon, by the rules of the Director.
func TestAddons(t *testing.T) {
	const errand = "- name: web\n  instances: 2"
	for rules, want := range map[string]string{
		"":            "db web",
		"include: {}": "db web",
		"exclude: {}": "db web",
		"include: {instance_groups: [web, nothing]}":    "web",
		"exclude: {instance_groups: [web]}":             "db",
		"include: {jobs: [{name: db, release: b}]}":     "db",
		"include: {jobs: [{name: db, release: a}]}":     "",
		"include: {stemcell: [{os: ubuntu-noble}]}":     "db web",
		"include: {stemcell: [{os: ubuntu-jammy}]}":     "",
		"exclude: {stemcell: [{os: ubuntu-noble}]}":     "",
		"include: {azs: [z2]}":                          "web",
		"include: {networks: [default]}":                "db web",
		"include: {networks: [other]}":                  "",
		"include: {lifecycle: service}":                 "db",
		"exclude: {lifecycle: errand}":                  "db",
		"include: {teams: [a]}":                         "db web",
		"include: {azs: [z1], instance_groups: [db]}":   "db",
		"include: {azs: [z2], instance_groups: [db]}":   "",
		"exclude: {azs: [z1], instance_groups: [web]}":  "db",
		"include: {azs: [z2]}, exclude: {azs: [z1]}":    "",
		"include: {jobs: [{name: first, release: a}]}":  "db web",
		"exclude: {jobs: [{name: second, release: a}]}": "db web",
	} {
		text := "addons: [{name: one, jobs: [{name: first, release: a, consumes: {x: nil}}]}, {name: two, properties: {p: 1}, jobs: [{name: second, release: a}, {name: third, release: a, properties: {q: 2}}]"
		if rules != "" {
			text += ", " + rules
		}
		path, opts := written(t, errand, errand+"\n  lifecycle: errand", "cloud_provider:", text+"}]\ncloud_provider:")
		d, err := LoadDeployment(t.Context(), path, opts)
		if err != nil {
			t.Fatal(rules, err)
		}
		var got []string
		for _, g := range d.Groups {
			jobs := g.Manifest.Group.Jobs
			if jobs[1].Name != "first" || len(jobs[1].Consumes) != 1 || jobs[1].Properties == nil {
				t.Errorf("%s: %s: %+v", rules, g.Name, jobs)
			}
			if len(jobs) == 2 {
				continue
			}
			got = append(got, g.Name)
			if !maps.Equal(jobs[2].Properties, map[string]any{"p": 1}) || !maps.Equal(jobs[3].Properties, map[string]any{"q": 2}) {
				t.Errorf("%s: %s: %+v", rules, g.Name, jobs)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, not %s", rules, got, want)
		}
	}
	path, opts := written(t, "cloud_provider:", "addons: [{name: one, jobs: [{name: web, release: a}]}]\ncloud_provider:")
	_, err := LoadDeployment(t.Context(), path, opts)
	if err == nil || !strings.Contains(err.Error(), `addons[0].jobs[0].name: is already a job of the instance group "web"`) {
		t.Error(err)
	}
}

// The CPI chooses the cloud_properties of vm_resources; those of an extension win over
// them, and those of the zone do not.
func TestResources(t *testing.T) {
	path, opts := written(t, "  vm_type: small\n  stemcell: default\n  networks: [{name: default, s", "  vm_resources: {cpu: 1, ram: 1024, ephemeral_disk_size: 2048}\n  stemcell: default\n  networks: [{name: default, s")
	d, err := LoadDeployment(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	db, web := d.Groups[0].Manifest, d.Groups[1].Manifest
	db.Placement.Zone = "z1"
	db.settle()
	resources, zone, set := db.Resources()
	if !maps.Equal(resources, map[string]any{"cpu": 1, "ram": 1024, "ephemeral_disk_size": 2048}) || !maps.Equal(zone, map[string]any{"zone": "a"}) || len(set) > 0 {
		t.Errorf("%v, %v, %v", resources, zone, set)
	}
	if resources, _, _ := web.Resources(); resources != nil {
		t.Errorf("of a VM type: %v", resources)
	}
}

// A stemcell that the manifest names: its archive says which operating system addons select,
// or else its name. The fetched stemcell must fit.
func TestAddonsOfNamedStemcells(t *testing.T) {
	for _, c := range []struct {
		name, archive string
		placed        bool
		fetched       string
		refused       bool
	}{
		{"bosh-aws-xen-hvm-ubuntu-jammy-go_agent", "", true, "ubuntu-jammy", false},
		{"light-bosh-google-kvm-ubuntu-jammy", "", true, "ubuntu-jammy", false},
		{"bosh-openstack-kvm-ubuntu-noble-go_agent-raw", "", false, "ubuntu-noble", false},
		{"bosh-aws-xen-hvm-ubuntu-jammy-go_agent", "ubuntu-noble", false, "ubuntu-noble", false},
		{"own", "ubuntu-jammy", true, "ubuntu-jammy", false},
		{"own", "", false, "ubuntu-jammy", true},
		{"own", "", false, "ubuntu-noble", false},
		{"bosh-aws-xen-hvm-ubuntu-jammy-go_agent", "", true, "ubuntu-noble", true},
	} {
		path, opts := written(t, `os: ubuntu-noble, version: "1"`, "name: "+c.name, "cloud_provider:",
			"addons: [{name: one, jobs: [{name: first, release: a}], include: {stemcell: [{os: ubuntu-jammy}]}}]\ncloud_provider:")
		opts.StemcellOS = func(context.Context, string) string { return c.archive }
		d, err := LoadDeployment(t.Context(), path, opts)
		if err != nil {
			t.Fatal(c, err)
		}
		m := d.Groups[1].Manifest
		if placed := len(m.Group.Jobs) == 2; placed != c.placed {
			t.Errorf("%+v: placed: %v", c, placed)
		}
		if err := m.CheckOS(c.fetched); (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
