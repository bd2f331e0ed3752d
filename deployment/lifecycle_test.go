package deployment

import (
	"fmt"
	"strings"
	"testing"

	"bootstrap/deployer"
	"bootstrap/deployment/record"
)

// Jobs stop in the reverse order of the groups, start in their order, and restart by the
// rules of the groups, with those first that do not run.
func TestLifecyclePlan(t *testing.T) {
	all := &record.Record{Groups: []record.Group{
		{Name: "web", Canaries: "1", MaxInFlight: "2", Serial: true}, {Name: "db", Canaries: "0", MaxInFlight: "1", Serial: true}, {Name: "worker", Canaries: "1", MaxInFlight: "1"}, {Name: "cache", Canaries: "1", MaxInFlight: "1"},
	}}
	for _, name := range []string{"cache/0", "db/0", "db/1", "gone/0", "web/0", "web/1", "web/2", "worker/0"} {
		in := &record.Instance{ID: name}
		group, index, _ := strings.Cut(name, "/")
		in.Group = group
		if _, err := fmt.Sscan(index, &in.Index); err != nil {
			t.Fatal(err)
		}
		all.Instances = append(all.Instances, in)
	}
	for _, c := range []struct {
		does     Lifecycle
		selected string
		down     string // does not run
		want     string
	}{
		{Stop, "", "web/1", "gone:gone/0*1 > worker:worker/0*1 cache:cache/0*1 > db:db/0,db/1*2 > web:web/0,web/1,web/2*3"},
		{Start, "", "web/1", "web:web/0,web/1,web/2*3 > db:db/0,db/1*2 > worker:worker/0*1 cache:cache/0*1 > gone:gone/0*1"},
		{Restart, "", "web/1", "web:(web/1)*2 web:web/0,web/2*2 > db:db/0,db/1*1 > worker:(worker/0)*1 cache:(cache/0)*1 > gone:(gone/0)*1"},
		{Restart, "", "", "web:(web/0)web/1,web/2*2 > db:db/0,db/1*1 > worker:(worker/0)*1 cache:(cache/0)*1 > gone:(gone/0)*1"},
		{Restart, "web/1,db/1", "", "web:(web/1)*2 > db:db/1*1"},
		{Stop, "web/1,web/2", "", "web:web/1,web/2*2"},
	} {
		list, _ := all.Select(c.selected)
		ran := map[string]bool{}
		for _, in := range all.Instances {
			ran[in.Name()] = in.Name() != c.down
		}
		p, err := lifecyclePlan(&Options{}, c.does, all, list, ran)
		if err != nil {
			t.Fatal(err)
		}
		var stages []string
		for _, stage := range p.Stages {
			var turns []string
			for _, turn := range stage {
				for _, lot := range turn.Lots {
					canaries := ""
					if len(lot.Canaries) > 0 {
						canaries = "(" + strings.Join(lot.Canaries, ",") + ")"
					}
					turns = append(turns, fmt.Sprintf("%s:%s%s*%d", turn.Group, canaries, strings.Join(lot.Rest, ","), lot.Width))
				}
			}
			if len(turns) > 0 {
				stages = append(stages, strings.Join(turns, " "))
			}
		}
		if got := strings.Join(stages, " > "); got != c.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", c.does, c.selected, got, c.want)
		}
		wide, err := lifecyclePlan(&Options{Base: deployer.Options{Canaries: "0", MaxInFlight: "3"}}, Restart, all, list, ran)
		if err != nil || len(wide.Stages) > 0 && len(wide.Stages[0][0].Lots) > 0 && (wide.Stages[0][0].Lots[0].Width != 3 || len(wide.Stages[0][0].Lots[0].Canaries) > 0) {
			t.Errorf("%+v, %v: not as the flags say", wide.Stages, err)
		}
		if p.partial() != (c.selected != "") {
			t.Errorf("%s %q is partial: %v", c.does, c.selected, p.partial())
		}
	}
}
