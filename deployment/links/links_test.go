package links

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"bootstrap/artifact"
	"bootstrap/templates"
)

// job returns a job with links; context is the manifest's part.
func job(name string, provides, consumes []artifact.Link, context templates.Context) *templates.Job {
	return &templates.Job{Job: &artifact.Job{
		Name: name, Provides: provides, Consumes: consumes, Properties: []artifact.Property{{Name: "port"}},
	}, Context: context}
}

func instances(group string, n int) []Instance {
	var list []Instance
	for i := range n {
		list = append(list, Instance{ID: group + "-" + string(rune('a'+i)), Index: i, Zone: "z1", Bootstrap: i == 0, Addresses: map[string]string{
			"default": "10.0.0." + string(rune('1'+i)), "other": "10.1.0." + string(rune('1'+i)),
		}})
	}
	return list
}

// deployment returns a database group with two instances and a web group, which change
// has changed.
func deployment(change func(groups []Group)) []Group {
	sql := []artifact.Link{{Name: "conn", Type: "sql", Properties: []string{"port"}}}
	db := Group{Name: "db", Networks: []string{"default", "other"}, Default: "default", Instances: instances("db", 2),
		Jobs: []*templates.Job{job("postgres", sql, nil, templates.Context{JobProperties: map[string]any{"port": 5432, "password": "secret"}})}}
	web := Group{Name: "web", Networks: []string{"default"}, Default: "default", Instances: instances("web", 1),
		Jobs: []*templates.Job{job("app", nil, []artifact.Link{{Name: "db", Type: "sql"}}, templates.Context{Path: "instance_groups[1].jobs[0]"})}}
	groups := []Group{db, web}
	if change != nil {
		change(groups)
	}
	return groups
}

// others are other deployments, by name.
type others map[string][]Provider

// known returns them as Resolve takes them.
func (o others) known() Others { return Others{Shared: o.find, Typed: o.typed} }

func (o others) find(name string) ([]Provider, error) {
	if list, ok := o[name]; ok {
		return list, nil
	}
	return nil, fmt.Errorf("no deployment %q", name)
}

func (o others) typed(kind string) (all []Provider) {
	for _, list := range o {
		for _, p := range list {
			if p.Type == kind {
				all = append(all, p)
			}
		}
	}
	return all
}

func consumes(value any) map[string]any { return map[string]any{"db": value} }

func TestResolve(t *testing.T) {
	for name, c := range map[string]struct {
		change func(groups []Group)
		from   string // group and name of the provider; empty: none
		why    string // part of the error
		want   func(content map[string]any) bool
	}{
		"by type over groups": {nil, "db conn", "", func(c map[string]any) bool {
			list := c["instances"].([]any)
			return len(list) == 2 && list[1].(map[string]any)["address"] == "10.0.0.2" && reflect.DeepEqual(c["properties"], map[string]any{"port": 5432})
		}},
		"another network": {func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "conn", "network": "other"})
		}, "db conn", "",
			func(c map[string]any) bool {
				return c["instances"].([]any)[0].(map[string]any)["address"] == "10.1.0.1"
			}},
		"a network that the provider is not on": {func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "conn", "network": "x"})
		}, "", `network is "x"`, nil},
		"an alias": {func(g []Group) {
			g[0].Jobs[0].Context.Provides = map[string]any{"conn": map[string]any{"as": "main"}}
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "main"})
		}, "db conn", "", nil},
		"an alias hides the name": {func(g []Group) {
			g[0].Jobs[0].Context.Provides = map[string]any{"conn": map[string]any{"as": "main"}}
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "conn"})
		}, "", `provides it as "main" ("conn" in the job's spec); to choose it: consumes: {db: {from: main}}`, nil},
		"the old spelling": {func(g []Group) { g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "dep.conn"}) }, "db conn", "", nil},
		"an empty entry asks for the consumer's name": {func(g []Group) { g[1].Jobs[0].Context.Consumes = consumes(map[string]any{}) }, "", `no job provides a link "db"`, nil},
		"two of a type": {func(g []Group) { g[1].Jobs[0].Provides = g[0].Jobs[0].Provides }, "", "provides: {conn: {as: web-conn}}", nil},
		"two of a type, optional": {func(g []Group) {
			g[1].Jobs[0].Provides = g[0].Jobs[0].Provides
			g[1].Jobs[0].Consumes[0].Optional = true
		}, "", "several jobs provide it", nil},
		"an errand that does not run":  {func(g []Group) { g[0].Errand, g[0].Instances = true, nil }, "", "has addresses only while its errand runs", nil},
		"an errand that is kept alive": {func(g []Group) { g[0].Errand = true }, "db conn", "", nil},
		"none":                         {func(g []Group) { g[0].Jobs[0].Provides = nil }, "", `no job provides a link of the type "sql"`, nil},
		"none, optional":               {func(g []Group) { g[0].Jobs[0].Provides = nil; g[1].Jobs[0].Consumes[0].Optional = true }, "", "", nil},
		"explicit and optional": {func(g []Group) {
			g[1].Jobs[0].Consumes[0].Optional = true
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "x"})
		}, "", `no job provides a link "x"`, nil},
		"blocked": {func(g []Group) { g[1].Jobs[0].Context.Consumes = consumes("nil") }, "", "the job needs this link", nil},
		"blocked, optional": {func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes("nil")
			g[1].Jobs[0].Consumes[0].Optional = true
		}, "", "", nil},
		"null":                       {func(g []Group) { g[1].Jobs[0].Context.Consumes = consumes(nil) }, "", "nil in quotes", nil},
		"hidden by the provider":     {func(g []Group) { g[0].Jobs[0].Context.Provides = map[string]any{"conn": "nil"} }, "", "no job provides", nil},
		"a typing error in consumes": {func(g []Group) { g[1].Jobs[0].Context.Consumes = map[string]any{"bd": map[string]any{"from": "conn"}} }, "", `consumes has the name "bd", which the job does not know; did you mean`, nil},
		"a typing error in provides": {func(g []Group) { g[0].Jobs[0].Context.Provides = map[string]any{"con": map[string]any{"as": "x"}} }, "", `provides has the name "con"`, nil},
		"by hand": {func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"instances": []any{map[string]any{"address": "192.0.2.1"}}, "properties": map[string]any{"port": 1}})
		}, "", "", func(c map[string]any) bool { return len(c["instances"].([]any)) == 1 }},
		"by hand and from": {func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"instances": []any{}, "from": "x"})
		}, "", "both from and a description", nil},
		"properties without instances": {func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"properties": map[string]any{}})
		}, "", "properties without instances", nil},
		"ip_addresses": {func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "conn", "ip_addresses": "yes"})
		}, "", "must be true or false", nil},
		"another deployment": {func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "conn", "deployment": "x"})
		}, "", `deployment "x"`, nil},
		"its own deployment": {func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "conn", "deployment": "dep"})
		}, "db conn", "", nil},
		"a disk": {func(g []Group) {
			g[0].Disks = []string{"conn"}
			g[1].Jobs[0].Consumes[0].Type = "disk"
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "conn"})
		}, "db conn", "", func(c map[string]any) bool { return reflect.DeepEqual(c["properties"], map[string]any{"name": "conn"}) }},
		"its own group": {func(g []Group) {
			g[0].Jobs[0].Provides = nil
			g[1].Jobs[0].Provides = []artifact.Link{{Name: "self", Type: "sql"}}
		}, "web self", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve("dep", deployment(c.change), others{}.known(), nil)
			var wrong *Unresolved
			switch {
			case c.why != "":
				if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.why) {
					t.Fatalf("%v", err)
				}
				if strings.Contains(err.Error(), "secret") {
					t.Fatal("the error has a property in it")
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			for _, l := range got.Links {
				if l.Consumer.Group != "web" {
					continue
				}
				from := ""
				if l.Provider != nil {
					from = l.Provider.Group + " " + l.Provider.Name
				}
				if from != c.from || c.want != nil && !c.want(l.Content) {
					t.Errorf("from %q: %+v", from, l)
				}
			}
		})
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	groups := deployment(func(g []Group) {
		g[0].Jobs[0].Provides = nil
		g[0].Jobs[0].Consumes = []artifact.Link{{Name: "peer", Type: "x"}, {Name: "peer2", Type: "y"}}
	})
	var wrong *Unresolved
	if _, err := Resolve("dep", groups, others{}.known(), nil); !errors.As(err, &wrong) || len(wrong.Problems) != 3 {
		t.Errorf("%v", err)
	}
}

// What another deployment shares is a candidate if nothing in the deployment is.
func TestCandidatesElsewhere(t *testing.T) {
	groups := deployment(func(g []Group) { g[0].Jobs[0].Provides = nil })
	data := others{"data": {{End: End{Deployment: "data", Group: "db", Job: "postgres", Name: "conn", As: "main", Type: "sql"}}}}
	_, err := Resolve("dep", groups, data.known(), nil)
	const want = `the job "postgres" in the group "db" of the deployment "data" provides it as "main" ("conn" in the job's spec); to choose it: consumes: {db: {from: main, deployment: data}}`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

// A link has the name that the Director gives it, and the addresses of its instances.
func TestNames(t *testing.T) {
	groups := deployment(func(groups []Group) { groups[0].Name = "My_DB" })
	p, err := Find("Cf_1", groups, "sql", "conn", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Names(false), " "); got != "q-s0.my-db.default.cf-1.bosh 10.0.0.1 10.0.0.2" {
		t.Error(got)
	}
	if got := p.Names(true)[0]; got != "*.my-db.default.cf-1.bosh" {
		t.Error(got)
	}
	for want, ask := range map[string][2]string{
		`; there are conn`:             {"sql", "database"},
		`add it to a job`:              {"address", "web"},
		`; did you mean "conn"?`:       {"sql", "con"},
		"several jobs provide a link ": {"sql", "conn"},
	} {
		list := groups
		if strings.HasPrefix(want, "several") {
			list = append(list, groups[0])
		}
		if _, err := Find("d", list, ask[0], ask[1], nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", ask, err, want)
		}
	}
}
