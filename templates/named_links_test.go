package templates

import (
	"strings"
	"testing"
)

// A filter of link.address makes the query name that a Director's DNS encoder makes.
func TestNamedLinks(t *testing.T) { each(t, testNamedLinks) }

func testNamedLinks(t *testing.T, cfg Config) {
	e := start(t, cfg)
	rendered := func(job Job) (string, error) {
		dir := t.TempDir()
		if err := e.Render(t.Context(), []Job{job}, dir); err != nil {
			return "", err
		}
		return read(t, dir, "web", "f"), nil
	}
	long := map[string]any{"azs": map[string]any{"z1": "1", "z2": "2"}, "network": "", "group": "db.default.dep.bosh"}
	short := map[string]any{"azs": long["azs"], "network": "n1", "instances": map[string]any{"a-b": "m7"}, "group": "q-g3.bosh"}
	for expression, want := range map[string][2]string{
		`address`:                                                   {"q-s0.db.default.dep.bosh", "q-n1s0.q-g3.bosh"},
		`address(azs: ["z2"])`:                                      {"q-a2s0.db.default.dep.bosh", "q-a2n1s0.q-g3.bosh"},
		`address(azs: ["z2", "z1", "z2"])`:                          {"q-a1a2s0.db.default.dep.bosh", "q-a1a2n1s0.q-g3.bosh"},
		`address(azs: nil, status: "all")`:                          {"q-s4.db.default.dep.bosh", "q-n1s4.q-g3.bosh"},
		`address(status: "healthy")`:                                {"q-s3.db.default.dep.bosh", "q-n1s3.q-g3.bosh"},
		`address(status: "unhealthy")`:                              {"q-s1.db.default.dep.bosh", "q-n1s1.q-g3.bosh"},
		`address({status: "unknown"})`:                              {"q-s0.db.default.dep.bosh", "q-n1s0.q-g3.bosh"},
		`address(group_name: "other")`:                              {"q-s0.db.default.dep.bosh", "q-n1s0.q-g3.bosh"},
		`address(uuid: "a-b")`:                                      {"a-b.db.default.dep.bosh", "q-m7n1s0.q-g3.bosh"},
		`address(initial_health_check: "synchronous", azs: ["z1"])`: {"q-a1s0y1.db.default.dep.bosh", "q-a1n1s0y1.q-g3.bosh"},
	} {
		for i, query := range []map[string]any{long, short} {
			text := `<%- if_link("db") do |l| -%>` + "\n  <%= l." + expression + ` %> <%= link("db").` + expression + " %>\n<%- end -%>"
			job := newJob(t, "web", map[string]string{"f": text})
			job.Context.Links = map[string]any{"db": map[string]any{"address": "q-s0.all", linkQuery: query}, "by hand": map[string]any{"address": "x"}}
			got, err := rendered(job)
			if want := "  " + want[i] + " " + want[i] + "\n"; err != nil || got != want {
				t.Errorf("%s: %q, %v, want %q", expression, got, err, want)
			}
		}
	}
	for expression, want := range map[string]string{
		`link("db").address(azs: ["z9"])`:       "line 2, in <%= link(\"db\").address(azs: [\"z9\"]) %>: link.address: unknown AZ 'z9'; known: z1, z2",
		`link("db").address(zones: ["z1"])`:     "link.address has no filter :zones: use azs, status or initial_health_check",
		`link("gone").address(azs: ["z1"])`:     "line 2, in <%= link(\"gone\").address(azs: [\"z1\"]) %>: there is no link 'gone'",
		`nothing`:                               "line 2, in <%= nothing %>",
		`link("db").address(uuid: "elsewhere")`: "the link has no instance 'elsewhere'",
	} {
		job := newJob(t, "web", map[string]string{"f": "first\n<%= " + expression + " %>"})
		job.Context.Links = map[string]any{"db": map[string]any{"address": "q-s0.all", linkQuery: short}}
		if got, err := rendered(job); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", expression, got, err)
		}
	}
}
