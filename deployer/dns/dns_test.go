package dns

import (
	"encoding/json"
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
