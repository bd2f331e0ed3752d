package dns

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"bootstrap/agent/agenttest"
)

// The records are those that a Director would send for such an instance.
func TestRecordsOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   Instance
		want string
	}{
		{Instance{ID: "id-1", AgentID: "agent-1", Group: "Web_Server", Deployment: "my.dep", Addresses: map[string]string{"private_net": "10.0.0.3", "default": "192.0.2.7"}}, `{
			"records": [["192.0.2.7", "id-1.web-server.default.mydep.bosh"], ["10.0.0.3", "id-1.web-server.private-net.mydep.bosh"]],
			"version": 7,
			"record_keys": ["id", "num_id", "instance_group", "group_ids", "az", "az_id", "network", "network_id", "deployment", "ip", "domain", "agent_id", "instance_index"],
			"record_infos": [
				["id-1", "1", "web-server", ["1"], null, null, "default", "1", "mydep", "192.0.2.7", "bosh", "agent-1", 0],
				["id-1", "1", "web-server", ["1"], null, null, "private-net", "2", "mydep", "10.0.0.3", "bosh", "agent-1", 0]
			]}`},
		{Instance{ID: "id-1"}, `{"records": [], "version": 7, "record_infos": [],
			"record_keys": ["id", "num_id", "instance_group", "group_ids", "az", "az_id", "network", "network_id", "deployment", "ip", "domain", "agent_id", "instance_index"]}`},
	} {
		got, err := json.Marshal(RecordsOf(7, c.in))
		if err != nil {
			t.Fatal(err)
		}
		if !agenttest.SameJSON(got, []byte(c.want)) {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// The Director's own classes have made the file: DnsEncoder and DnsRecords of
// cloudfoundry/bosh, with these numbers.
func TestLikeDirector(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/director.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Names []struct {
			Short    bool
			Links    bool
			Instance string
			OfLink   string `json:"of_link"`
			Link     string
		}
		Records json.RawMessage
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	names := &Names{
		Groups: map[string]int{"web": 1, "Data_Base": 2}, Links: map[string]int{"conn-sql": 3, "web-http": 4}, Zones: map[string]int{"z1": 1, "z2": 2},
		Networks: map[string]int{"default": 1, "private_net": 2}, Instances: map[string]int{"id-a": 1, "id-b": 2, "id-c": 5},
		Provided: map[string][]string{"web": {"web-http"}, "Data_Base": {"conn-sql", "web-http"}},
		Aliases: []LinkAlias{
			{Domain: "_.db.corp", Link: "conn-sql", HealthFilter: "all", PlaceholderType: "uuid"},
			{Domain: "db.corp", Link: "conn-sql", InitialHealthCheck: "synchronous"},
		},
	}
	got, err := json.Marshal(names.Records(7, []Instance{
		{ID: "id-a", AgentID: "agent-a", Group: "web", Deployment: "my.dep", Zone: "z1", Index: 0, Addresses: map[string]string{"default": "10.0.0.2"}},
		{ID: "id-b", AgentID: "agent-b", Group: "web", Deployment: "my.dep", Zone: "z2", Index: 1, Addresses: map[string]string{"default": "10.0.0.3"}},
		{ID: "id-c", AgentID: "agent-c", Group: "Data_Base", Deployment: "my.dep", Addresses: map[string]string{"private_net": "10.9.0.9", "default": "10.0.0.9"}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if !agenttest.SameJSON(got, want.Records) {
		t.Errorf("got  %s\nwant %s", got, want.Records)
	}
	for _, c := range want.Names {
		e := Encoder{Deployment: "my.dep", Names: names, Style: Style{Short: c.Short, Links: c.Links}}
		for _, pair := range [][2]string{
			{e.Instance("id-c", "Data_Base", "private_net"), c.Instance},
			{e.OfLink("id-c", "Data_Base", "conn-sql", "private_net"), c.OfLink},
			{e.Link("Data_Base", "conn-sql", "private_net"), c.Link},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%+v: got %s, want %s", e.Style, pair[0], pair[1])
			}
		}
	}
}

// An empty list of aliases is written, as a Director does.
func TestNoAliases(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal((&Names{}).Records(1, nil).Aliases)
	if err != nil || string(got) != "{}" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestNumbersStay(t *testing.T) {
	t.Parallel()
	var n *Names
	for _, c := range []struct {
		name                       string
		known                      Known
		provided                   map[string][]string
		groups, links, zones, nets map[string]int
		instances                  map[string]int
	}{
		{
			"first", Known{Groups: []string{"web", "db"}, Zones: []string{"z1"}, Networks: []string{"net"}, Instances: []string{"a", "b", "c"}},
			map[string][]string{"db": {"sql-db", "admin-db", "sql-db"}, "web": {"http-web"}},
			map[string]int{"web": 1, "db": 2}, map[string]int{"http-web": 3, "admin-db": 4, "sql-db": 5}, map[string]int{"z1": 1}, map[string]int{"net": 1},
			map[string]int{"a": 1, "b": 2, "c": 3},
		}, {
			"fewer instances, another zone and group", Known{Groups: []string{"new", "db"}, Zones: []string{"z2"}, Networks: []string{"net"}, Instances: []string{"a"}},
			map[string][]string{"db": {"sql-db"}},
			map[string]int{"web": 1, "db": 2, "new": 6}, map[string]int{"http-web": 3, "admin-db": 4, "sql-db": 5}, map[string]int{"z1": 1, "z2": 2}, map[string]int{"net": 1},
			map[string]int{"a": 1},
		}, {
			"more again", Known{Groups: []string{"web", "db"}, Zones: []string{"z1", "z2"}, Networks: []string{"other"}, Instances: []string{"d", "a"}},
			map[string][]string{"db": {"admin-db", "copy-db"}},
			map[string]int{"web": 1, "db": 2, "new": 6}, map[string]int{"http-web": 3, "admin-db": 4, "sql-db": 5, "copy-db": 7}, map[string]int{"z1": 1, "z2": 2},
			map[string]int{"net": 1, "other": 2}, map[string]int{"a": 1, "d": 4},
		}, {
			"renamed", Known{Groups: []string{"web", "data"}, Instances: []string{"a", "d"}, Renamed: map[string]string{"data": "db"}},
			nil,
			map[string]int{"web": 1, "data": 2, "new": 6}, map[string]int{"http-web": 3, "admin-db": 4, "sql-db": 5, "copy-db": 7}, map[string]int{"z1": 1, "z2": 2},
			map[string]int{"net": 1, "other": 2}, map[string]int{"a": 1, "d": 4},
		}, {
			"the former name for another group", Known{Groups: []string{"db", "data"}, Instances: []string{"e"}, Renamed: map[string]string{"data": "db"}},
			nil,
			map[string]int{"web": 1, "data": 2, "db": 8, "new": 6}, map[string]int{"http-web": 3, "admin-db": 4, "sql-db": 5, "copy-db": 7}, map[string]int{"z1": 1, "z2": 2},
			map[string]int{"net": 1, "other": 2}, map[string]int{"e": 5},
		},
	} {
		before, _ := json.Marshal(n)
		next := n.With(c.known).WithLinks(c.known.Groups, c.provided, nil)
		if after, _ := json.Marshal(n); string(before) != string(after) {
			t.Errorf("%s: the former numbers were changed", c.name)
		}
		for _, pair := range [][2]map[string]int{{next.Groups, c.groups}, {next.Links, c.links}, {next.Zones, c.zones}, {next.Networks, c.nets}, {next.Instances, c.instances}} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%s: got %v, want %v", c.name, pair[0], pair[1])
			}
		}
		// The record keeps them in a file.
		data, err := json.Marshal(next)
		n = &Names{}
		if err == nil {
			err = json.Unmarshal(data, n)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// An older record gives no number a second time, and continues the versions.
func TestAfter(t *testing.T) {
	t.Parallel()
	var none *Names
	if got := none.After(nil, nil); got != nil {
		t.Errorf("%+v", got)
	}
	old := &Names{
		Groups: map[string]int{"db": 1, "web": 2}, Links: map[string]int{"db-sql": 3}, Zones: map[string]int{"z1": 1}, Networks: map[string]int{"default": 1},
		Instances: map[string]int{"a": 1}, LastGroup: 3, LastInstance: 1, Version: 4, Digest: "four",
	}
	now := &Names{
		Groups: map[string]int{"db": 1, "site": 2, "cache": 4}, Zones: map[string]int{"z1": 1, "z2": 2},
		Instances: map[string]int{"b": 2}, LastGroup: 4, LastInstance: 3, Version: 9, Digest: "nine",
	}
	want := &Names{
		Groups: map[string]int{"db": 1, "web": 2, "cache": 4}, Links: map[string]int{"db-sql": 3}, Zones: map[string]int{"z1": 1, "z2": 2},
		Networks: map[string]int{"default": 1}, Instances: map[string]int{"a": 1, "b": 2}, LastGroup: 4, LastInstance: 3, Version: 9,
	}
	if got := old.After(nil, now, old); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if old.LastGroup != 3 || len(old.Groups) != 2 {
		t.Errorf("the older names have changed: %+v", old)
	}
	if got := old.After(old); got.Version != 4 || got.Digest != "four" {
		t.Errorf("%+v", got)
	}
	if got := none.After(now); got.Version != 9 || got.Digest != "nine" || got.LastInstance != 3 {
		t.Errorf("%+v", got)
	}
}
