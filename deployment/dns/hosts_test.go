package dns

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// three returns the records of three instances in two zones, and of one of another group.
func three() Records {
	d := RecordsOf(1, Instance{})
	row := func(id, number, group string, groups []string, zone any, address string, index int) {
		var zoneName any
		if zone != nil {
			zoneName = "z" + fmt.Sprint(zone)
		}
		d.Records = append(d.Records, [2]string{address, id + "." + group + ".default.dep.bosh"})
		d.RecordInfos = append(d.RecordInfos, []any{id, number, group, groups, zoneName, zone, "default", "7", "dep", address, "bosh", "agent-" + id, index})
	}
	row("u0", "10", "db", []string{"1", "3"}, "1", "10.0.0.1", 0)
	row("u1", "11", "db", []string{"1", "3"}, "2", "10.0.0.2", 1)
	row("u2", "12", "db", []string{"1", "3"}, "1", "10.0.0.3", 2)
	row("u3", "13", "web", []string{"2"}, nil, "10.0.0.4", 0)
	uuid, unhealthy, healthy := "uuid", "unhealthy", "healthy"
	d.Aliases = map[string][]Alias{
		"db.corp":    {{Root: "bosh", Group: "3", HealthFilter: &healthy}},
		"_.db.corp":  {{Root: "bosh", Group: "3", PlaceholderType: &uuid}},
		"ill.corp":   {{Root: "bosh", Group: "3", HealthFilter: &unhealthy}},
		"other.corp": {{Root: "elsewhere", Group: "3"}},
		"all.corp":   {{Root: "bosh", Group: "3"}, {Root: "bosh", Group: "2"}},
	}
	return d
}

// Names have the addresses that bosh-dns finds for them without health checks.
func TestForHosts(t *testing.T) {
	t.Parallel()
	before := len(three().Records)
	d := three()
	got := map[string][]string{}
	d.Aliases["two.corp\n10.0.0.9 lines.corp"] = d.Aliases["all.corp"]
	for _, pair := range d.forHosts().Records {
		if !Valid(pair[1]) {
			t.Errorf("%q would be in a hosts file", pair[1])
		}
		got[pair[1]] = append(got[pair[1]], pair[0])
	}
	if len(d.Records) != before {
		t.Error("forHosts changed the records")
	}
	const one, two, three, four = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"
	for name, want := range map[string][]string{
		"u1.db.default.dep.bosh":       {two},
		"q-s0.db.default.dep.bosh":     {one, two, three},
		"q-s3.db.default.dep.bosh":     {one, two, three},
		"q-s4y1.db.default.dep.bosh":   {one, two, three},
		"q-a1s0.db.default.dep.bosh":   {one, three},
		"q-a2s3.db.default.dep.bosh":   {two},
		"q-a1a2s0.db.default.dep.bosh": {one, two, three},
		"q-i2s0.db.default.dep.bosh":   {three},
		"q-n7s0.q-g1.bosh":             {one, two, three},
		"q-a1n7s0.q-g3.bosh":           {one, three},
		"q-m11n7s0.q-g3.bosh":          {two},
		"q-s0.web.default.dep.bosh":    {four},
		"q-a1s0.web.default.dep.bosh":  nil,
		"q-s1.db.default.dep.bosh":     nil,
		"q-m11n7s0.q-g2.bosh":          nil,
		"agent-u3.bosh-agent-id":       {four},
		"db.corp":                      {one, two, three},
		"u1.db.corp":                   {two},
		"_.db.corp":                    nil,
		"ill.corp":                     nil,
		"other.corp":                   nil,
		"all.corp":                     {one, two, three, four},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s has %v, want %v", name, got[name], want)
		}
	}
	if served := (Records{Records: d.Records, RecordKeys: d.RecordKeys, RecordInfos: d.RecordInfos, Served: []string{"u0"}}); len(served.For("u0").Records) != before || len(served.For("u1").Records) == before {
		t.Error("a VM has queries although it has a DNS server, or has none without one")
	}
	if again := d.forHosts().forHosts(); !slices.Equal(again.Records, d.forHosts().Records) {
		t.Error("forHosts added pairs again")
	}
}

// With many zones, there are names for each zone and for all.
func TestManyZones(t *testing.T) {
	t.Parallel()
	var zones []string
	for i := range 12 {
		zones = append(zones, fmt.Sprint(i))
	}
	if got := combinations(zones); len(got) != 13 || strings.Join(got[2], "") != "a2" || len(got[12]) != 12 {
		t.Errorf("got %v", got)
	}
	if got := combinations([]string{"1", "2", "3"}); len(got) != 7 {
		t.Errorf("got %v", got)
	}
}
