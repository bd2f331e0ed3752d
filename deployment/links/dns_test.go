package links

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"bootstrap/deployment/dns"
)

// numbered has the numbers of the groups of deployment.
func numbered(style dns.Style, addresses bool) *DNS {
	names := (*dns.Names)(nil).With(dns.Known{Groups: []string{"db", "web"}, Networks: []string{"default", "other"}, Instances: []string{"db-a", "db-b", "web-a"}})
	return &DNS{Encoder: dns.Encoder{Deployment: "dep", Names: names, Style: style}, Addresses: addresses}
}

func TestNamesInLinks(t *testing.T) {
	t.Parallel()
	long, short, byLink := dns.Style{}, dns.Style{Short: true}, dns.Style{Short: true, Links: true}
	for name, c := range map[string]struct {
		names   *DNS
		change  func(groups []Group)
		address any
		second  string // address of the second instance
	}{
		"no names":     {nil, nil, nil, "10.0.0.2"},
		"long":         {numbered(long, true), nil, "q-s0.db.default.dep.bosh", "db-b.db.default.dep.bosh"},
		"short":        {numbered(short, true), nil, "q-n1s0.q-g1.bosh", "q-m2n1s0.q-g1.bosh"},
		"by link":      {numbered(byLink, true), nil, "q-n1s0.q-g3.bosh", "q-m2n1s0.q-g3.bosh"},
		"only queries": {numbered(long, false), nil, "q-s0.db.default.dep.bosh", "10.0.0.2"},
		"the job wants addresses": {numbered(long, true), func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "conn", "ip_addresses": true})
		}, "q-s0.db.default.dep.bosh", "10.0.0.2"},
		"the job wants names": {numbered(long, false), func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "conn", "ip_addresses": false})
		}, "q-s0.db.default.dep.bosh", "db-b.db.default.dep.bosh"},
		"another network": {numbered(short, true), func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "conn", "network": "other"})
		}, "q-n2s0.q-g1.bosh", "q-m2n2s0.q-g1.bosh"},
		"an address that is not known": {numbered(long, false), func(g []Group) { g[0].Instances[1].Addresses = nil },
			"q-s0.db.default.dep.bosh", "db-b.db.default.dep.bosh"},
		"from another deployment": {numbered(long, true), func(g []Group) {
			g[1].Jobs[0].Context.Consumes = consumes(map[string]any{"from": "conn", "deployment": "data"})
		}, nil, "10.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := Resolve("data", deployment(func(g []Group) {
				g[0].Jobs[0].Context.Provides = map[string]any{"conn": map[string]any{"shared": true}}
			}), others{}.known(), nil)
			if err != nil {
				t.Fatal(err)
			}
			all, err := Resolve("dep", deployment(c.change), others{"data": data.Shared}.known(), c.names)
			if err != nil {
				t.Fatal(err)
			}
			content := all.Links[0].Content
			if content["address"] != c.address {
				t.Errorf("address %v, want %v", content["address"], c.address)
			}
			if got := content["instances"].([]any)[1].(map[string]any)["address"]; got != c.second {
				t.Errorf("the second instance is %v, want %v", got, c.second)
			}
		})
	}
}

// The link has the name that the manifest gives it; its aliases have it, too.
func TestNumbersOfLinks(t *testing.T) {
	t.Parallel()
	names := numbered(dns.Style{}, true)
	all, err := Resolve("dep", deployment(func(g []Group) {
		g[0].Jobs[0].Context.Provides = map[string]any{"conn": map[string]any{"as": "main", "aliases": []any{
			map[string]any{"domain": "db.corp"}, map[string]any{"domain": "_.db.corp", "placeholder_type": "uuid", "health_filter": "all"},
		}}}
	}), others{}.known(), names)
	if err != nil {
		t.Fatal(err)
	}
	if got := all.Names; got.Links["main-sql"] != 3 || !reflect.DeepEqual(got.Provided, map[string][]string{"db": {"main-sql"}}) ||
		!reflect.DeepEqual(got.Aliases, []dns.LinkAlias{{Domain: "db.corp", Link: "main-sql"}, {Domain: "_.db.corp", Link: "main-sql", HealthFilter: "all", PlaceholderType: "uuid"}}) {
		t.Errorf("%+v", got)
	}
	if len(names.Names.Links) > 0 {
		t.Error("the former numbers were changed")
	}
}

func TestWrongAliases(t *testing.T) {
	t.Parallel()
	for want, given := range map[string]any{
		`its key "aliases" must be a list`:            "db.corp",
		"each alias must have a domain":               []any{map[string]any{"health_filter": "all"}},
		`the key "domain" of an alias`:                []any{map[string]any{"domain": 1}},
		`the domain "db\n10.0.0.1 x" of an alias may`: []any{map[string]any{"domain": "db\n10.0.0.1 x"}},
		`the key aliases.to is unknown`:               []any{map[string]any{"domain": "db.corp", "to": "x"}},
	} {
		_, err := Resolve("dep", deployment(func(g []Group) {
			g[0].Jobs[0].Context.Provides = map[string]any{"conn": map[string]any{"aliases": given}}
		}), others{}.known(), nil)
		var wrong *Unresolved
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", given, err, want)
		}
	}
}

// The names of certificates are those that templates get.
func TestNamesOfCertificates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		style          dns.Style
		name, wildcard string
	}{
		{dns.Style{}, "q-s0.db.default.dep.bosh", "*.db.default.dep.bosh"},
		{dns.Style{Short: true}, "q-n1s0.q-g1.bosh", "*.q-g1.bosh"},
		{dns.Style{Short: true, Links: true}, "q-n1s0.q-g3.bosh", "*.q-g3.bosh"},
	} {
		p, err := Find("dep", deployment(nil), "sql", "conn", numbered(c.style, true))
		if err != nil {
			t.Fatal(err)
		}
		if got, wild := p.Names(false), p.Names(true)[0]; got[0] != c.name || got[1] != "10.0.0.1" || wild != c.wildcard {
			t.Errorf("%+v: %q, %s", c.style, got, wild)
		}
	}
}
