package deployment

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"bootstrap/deployer/plan"
	"bootstrap/deployment/order"
	"bootstrap/internal/failure"
	"bootstrap/manifest"
	"bootstrap/state/team"
)

// row returns the row of an instance.
func row(name string, action Action, down float64, changes ...plan.Line) Row {
	r := Row{Name: name, Action: action, Changes: changes, Downtime: down}
	if action == Change && down > 0 {
		r.Down = []string{"stop"}
	}
	return r
}

func TestSets(t *testing.T) {
	jobs := func(why string) plan.Line {
		return plan.Line{Action: plan.Update, What: plan.Jobs, Name: "web", Why: []string{why}}
	}
	vm := func(name string) plan.Line { return plan.Line{Action: plan.Replace, What: plan.VM, Name: name} }
	p := Plan{Rows: []Row{
		row("db/0", Keep, 0),
		row("web/0", Change, 1, vm("vm-1"), jobs("links")), row("web/1", Change, 2, vm("vm-2"), jobs("links")),
		row("web/2", Change, 1, vm("vm-3"), jobs("port")),
		row("worker/0", Keep, 0), row("worker/1", Keep, 0),
	}}
	var got []string
	for _, s := range p.Sets() {
		text := s.Group
		for _, r := range s.Rows {
			text += " " + r.Name
		}
		if s.Whole {
			text += " whole"
		}
		got = append(got, text)
	}
	want := []string{"db db/0", "web web/0 web/1", "web web/2", "worker worker/0 worker/1 whole"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	two, one := p.Sets()[1], p.Sets()[2]
	if two.Lines()[0].Name != "" || two.Lines()[1].Name != "web" || one.Lines()[0].Name != "vm-3" || p.Rows[1].Changes[0].Name != "vm-1" {
		t.Error("names of an instance are shown for several")
	}
}

func TestShare(t *testing.T) {
	stemcell := func(name string) plan.Line { return plan.Line{Action: plan.Create, What: plan.Stemcell, Name: name} }
	p := Plan{Rows: []Row{row("db/0", Create, 0, stemcell("s/1")), row("web/0", Create, 0, stemcell("s/2")), row("web/1", Create, 0, stemcell("s/2"))}}
	p.share(map[string]bool{"s/1": true})
	if len(p.Shared) != 1 || p.Shared[0].Name != "s/2" || !slices.Equal(p.Shared[0].Instances, []string{"web/0", "web/1"}) {
		t.Errorf("%+v", p.Shared)
	}
	for _, r := range p.Rows {
		if len(r.Changes) > 0 {
			t.Errorf("%s still creates a stemcell", r.Name)
		}
	}
}

func TestServe(t *testing.T) {
	change := func(name string) Row { return row(name, Change, 3) }
	lot := func(width int, canaries []string, rest ...string) order.Lot {
		return order.Lot{Width: width, Canaries: canaries, Rest: rest}
	}
	stopped := func(r Row) Row {
		r.stopped, r.NotRunning = true, "it was stopped"
		return r
	}
	broken := func(r Row) Row {
		r.NotRunning = "process web is failing"
		return r
	}
	for _, c := range []struct {
		about string
		rows  []Row
		turn  order.Turn
		want  Service
	}{
		{"one of one", []Row{change("web/0")}, order.Turn{Lots: []order.Lot{lot(1, []string{"web/0"})}},
			Service{Instances: 1, Changing: 1, Running: 1, MostDown: 1, Down: true, Downtime: 3}},
		{"one after another", []Row{change("web/0"), change("web/1")}, order.Turn{Lots: []order.Lot{lot(1, []string{"web/0"}, "web/1")}},
			Service{Instances: 2, Changing: 2, Running: 2, MostDown: 1}},
		{"all at once", []Row{change("web/0"), change("web/1")}, order.Turn{Lots: []order.Lot{lot(9, nil, "web/0", "web/1")}},
			Service{Instances: 2, Changing: 2, Running: 2, MostDown: 2, Down: true, Downtime: 3}},
		{"a new one does not serve before", []Row{change("web/0"), row("web/1", Create, 0)}, order.Turn{Lots: []order.Lot{lot(1, []string{"web/0"}, "web/1")}},
			Service{Instances: 2, Changing: 2, Running: 1, MostDown: 1, Down: true, Downtime: 3}},
		{"the other one is deleted before", []Row{change("web/0"), row("web/1", Delete, 0)},
			order.Turn{Delete: order.Deletion{IDs: []string{"web/1"}, Width: 1}, Lots: []order.Lot{lot(1, []string{"web/0"})}},
			Service{Instances: 1, Changing: 2, Running: 2, MostDown: 2, Down: true, Downtime: 3}},
		{"the other one is deleted afterwards", []Row{change("web/0"), row("web/1", Delete, 0)},
			order.Turn{Delete: order.Deletion{IDs: []string{"web/1"}, Width: 1, Last: true}, Lots: []order.Lot{lot(1, []string{"web/0"})}},
			Service{Instances: 1, Changing: 2, Running: 2, MostDown: 1}},
		{"the other one does not answer", []Row{change("web/0"), broken(row("web/1", Unreachable, 0))}, order.Turn{Lots: []order.Lot{lot(1, []string{"web/0"})}},
			Service{Instances: 2, Changing: 1, Running: 1, NotRunning: 1, MostDown: 2, Down: true, Downtime: 3}},
		{"one of three is repaired first", []Row{change("web/0"), broken(change("web/1")), change("web/2")},
			order.Turn{Lots: []order.Lot{lot(1, []string{"web/1"}), lot(1, nil, "web/0", "web/2")}},
			Service{Instances: 3, Changing: 3, Running: 2, NotRunning: 1, MostDown: 1}},
		{"one of three is created again first", []Row{change("web/0"), broken(row("web/1", Create, 0)), change("web/2")},
			order.Turn{Lots: []order.Lot{lot(1, []string{"web/1"}), lot(1, nil, "web/0", "web/2")}},
			Service{Instances: 3, Changing: 3, Running: 2, NotRunning: 1, MostDown: 1}},
		{"none runs", []Row{broken(change("web/0")), broken(change("web/1"))}, order.Turn{Lots: []order.Lot{lot(1, []string{"web/0"}, "web/1")}},
			Service{Instances: 2, Changing: 2, NotRunning: 2, MostDown: 2, Down: true}},
		{"the other one is stopped", []Row{change("web/0"), stopped(change("web/1"))}, order.Turn{Lots: []order.Lot{lot(2, nil, "web/0", "web/1")}},
			Service{Instances: 2, Changing: 2, Running: 1, NotRunning: 1, MostDown: 2, Down: true, Downtime: 3}},
		{"the other one is detached", []Row{change("web/0"), stopped(row("web/1", Keep, 0))}, order.Turn{Lots: []order.Lot{lot(1, []string{"web/0"})}},
			Service{Instances: 2, Changing: 1, Running: 1, NotRunning: 1, MostDown: 2, Down: true, Downtime: 3}},
		{"only the state changes", []Row{row("web/0", Change, 0)}, order.Turn{Lots: []order.Lot{lot(1, []string{"web/0"})}},
			Service{Instances: 1, Changing: 1, Running: 1}},
	} {
		c.turn.Group, c.want.Group = "web", "web"
		p := Plan{Rows: c.rows, Stages: []order.Stage{{c.turn}}}
		p.serve()
		if len(p.Groups) != 1 || p.Groups[0] != c.want {
			t.Errorf("%s: %+v", c.about, p.Groups)
		}
	}
}

// One mistake of the manifest is one error, with its own exit code; different reasons are
// listed once each, with their instances.
func TestUnplanned(t *testing.T) {
	t.Parallel()
	wrong, other := &manifest.SeveralError{Path: "x"}, errors.New("other")
	rows := func() *Plan { return &Plan{Rows: []Row{{Action: Keep}, {Action: Delete}, {Action: Keep}}} }
	same := []planned{{err: wrong}, {}, {err: &manifest.SeveralError{Path: "x"}}}
	if err := rows().sameForAll(same); !errors.Is(err, same[2].err) {
		t.Errorf("got %v", err)
	}
	for _, made := range [][]planned{{{err: wrong}, {}, {}}, {{}, {}, {err: wrong}}, {{err: wrong}, {}, {err: other}}, {{}, {}, {}}} {
		if err := rows().sameForAll(made); err != nil {
			t.Errorf("%+v: %v", made, err)
		}
	}
	err := &UnplannedError{Failed: []Unplanned{{Instance: "web/0", Reason: "no room"}, {Instance: "db/0", Reason: "no disk"}, {Instance: "web/1", Reason: "no room"}}}
	if want := "3 instances cannot be planned, so nothing was changed:\n- web/0, web/1: no room\n- db/0: no disk"; err.Error() != want {
		t.Errorf("got %s", err)
	}
	if code := err.ExitCode(); code != failure.Failed {
		t.Errorf("exit code %d", code)
	}
	forged := fmt.Errorf("web/1: %w", &team.ProofError{Document: "kept.json.age"})
	err.Failed = append(err.Failed, unplanned("web/2", "it is not trusted", forged))
	if code := err.ExitCode(); code != failure.NotBelieved {
		t.Errorf("a document that is not believed: exit code %d", code)
	}
}
