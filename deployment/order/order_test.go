package order

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// directorCases are the orders in which the classes of BOSH's Director (96f913526a)
// change random deployments. Ids of instances sort as their indexes do.
//
//go:embed testdata/director.json
var directorCases []byte

func TestDirector(t *testing.T) {
	var cases []struct {
		First  bool
		Groups []struct {
			Name, Canaries string
			MaxInFlight    string `json:"max_in_flight"`
			Serial         bool
			ParallelZones  bool `json:"parallel_zones"`
			Instances      []struct {
				ID, Zone                    string
				Index                       int
				Bootstrap, Ignored, Changed bool
			}
			Going []string
		}
		Stages [][]struct {
			Group  string
			Delete struct {
				Width int
				IDs   []string
			}
			Lots []struct {
				Width          int
				Canaries, Rest []string
			}
		}
	}
	if err := json.Unmarshal(directorCases, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		var groups []Group
		for _, g := range c.Groups {
			group := Group{Name: g.Name, Canaries: g.Canaries, MaxInFlight: g.MaxInFlight, Serial: g.Serial, ParallelZones: g.ParallelZones, Going: g.Going}
			for _, in := range g.Instances {
				group.Instances = append(group.Instances, Instance{ID: in.ID, Zone: in.Zone, Index: in.Index, Bootstrap: in.Bootstrap, Ignored: in.Ignored, Changes: in.Changed})
			}
			groups = append(groups, group)
		}
		got, err := Stages(groups, c.First)
		if err != nil {
			t.Fatal(err)
		}
		var want []Stage
		for _, stage := range c.Stages {
			var turns Stage
			for _, turn := range stage {
				w := Turn{Group: turn.Group, Delete: Deletion{IDs: turn.Delete.IDs, Width: turn.Delete.Width}}
				for _, lot := range turn.Lots {
					w.Lots = append(w.Lots, Lot{Width: lot.Width, Canaries: lot.Canaries, Rest: lot.Rest})
				}
				turns = append(turns, w)
			}
			want = append(want, turns)
		}
		for _, stage := range got {
			for i := range stage {
				for j := range stage[i].Lots {
					stage[i].Lots[j].Zone = "" // The Director does not report it.
				}
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("case %d: have\n%+v\nwant\n%+v\nfor %+v", i, got, want, groups)
		}
	}
}

// Instances whose jobs do not start are no canaries and do not count, unless all are such.
func TestIdle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		idle []string
		want []Lot
	}{
		{nil, []Lot{{Zone: "z1", Width: 1, Canaries: []string{"0"}, Rest: []string{"2"}}, {Zone: "z2", Width: 1, Rest: []string{"1", "3"}}}},
		{[]string{"0"}, []Lot{{Zone: "z1", Width: 1, Canaries: []string{"2"}, Rest: []string{"0"}}, {Zone: "z2", Width: 1, Rest: []string{"1", "3"}}}},
		{[]string{"0", "2"}, []Lot{{Zone: "z1", Width: 2, Rest: []string{"0", "2"}}, {Zone: "z2", Width: 2, Canaries: []string{"1"}, Rest: []string{"3"}}}},
		{[]string{"0", "1", "2", "3"}, []Lot{{Zone: "z1", Width: 2, Rest: []string{"0", "2"}}, {Zone: "z2", Width: 2, Rest: []string{"1", "3"}}}},
	} {
		g := Group{Name: "web", Canaries: "1", MaxInFlight: "100%", MinHealthy: "3", Serial: true}
		if len(c.idle) > 1 {
			g.MinHealthy = ""
		}
		for i, id := range []string{"0", "1", "2", "3"} {
			g.Instances = append(g.Instances, Instance{ID: id, Index: i, Zone: []string{"z1", "z2"}[i%2], Bootstrap: i == 0, Changes: true, Idle: slices.Contains(c.idle, id)})
		}
		got, err := Stages([]Group{g}, false)
		if err != nil || !reflect.DeepEqual(got[0][0].Lots, c.want) {
			t.Errorf("idle %v: %+v, %v; want %+v", c.idle, got, err, c.want)
		}
	}
}

// Instances that do not run change first, zone after zone; then the others as always. They
// are canaries, too, and min_healthy does not limit them.
func TestDown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		about       string
		down, idle  []string
		canaries    string
		width, well string
		first       bool
		want        []Lot
	}{
		{about: "all run", canaries: "1", width: "1",
			want: []Lot{{Zone: "z1", Width: 1, Canaries: []string{"0"}, Rest: []string{"2"}}, {Zone: "z2", Width: 1, Rest: []string{"1", "3"}}}},
		{about: "one of the other zone", down: []string{"3"}, canaries: "1", width: "1",
			want: []Lot{{Zone: "z2", Width: 1, Canaries: []string{"3"}, Down: true}, {Zone: "z1", Width: 1, Rest: []string{"0", "2"}}, {Zone: "z2", Width: 1, Rest: []string{"1"}}}},
		{about: "one of each zone", down: []string{"1", "2"}, canaries: "2", width: "3", well: "3",
			want: []Lot{
				{Zone: "z1", Width: 3, Canaries: []string{"2"}, Down: true}, {Zone: "z2", Width: 3, Rest: []string{"1"}, Down: true},
				{Zone: "z1", Width: 1, Canaries: []string{"0"}}, {Zone: "z2", Width: 1, Rest: []string{"3"}},
			}},
		{about: "one is stopped", down: []string{"0", "2"}, idle: []string{"0"}, canaries: "1", width: "1",
			want: []Lot{{Zone: "z1", Width: 1, Canaries: []string{"2"}, Rest: []string{"0"}, Down: true}, {Zone: "z2", Width: 1, Rest: []string{"1", "3"}}}},
		{about: "only one that is stopped", down: []string{"2"}, idle: []string{"2"}, canaries: "1", width: "1",
			want: []Lot{{Zone: "z1", Width: 1, Rest: []string{"2"}, Down: true}, {Zone: "z1", Width: 1, Canaries: []string{"0"}}, {Zone: "z2", Width: 1, Rest: []string{"1", "3"}}}},
		{about: "none runs", down: []string{"0", "1", "2", "3"}, canaries: "50%", width: "2", well: "4",
			want: []Lot{{Zone: "z1", Width: 2, Canaries: []string{"0"}, Rest: []string{"2"}, Down: true}, {Zone: "z2", Width: 2, Rest: []string{"1", "3"}, Down: true}}},
		{about: "zones at the same time", down: []string{"3"}, canaries: "0", width: "4", first: true,
			want: []Lot{{Width: 4, Rest: []string{"3"}, Down: true}, {Width: 4, Rest: []string{"0", "2", "1"}}}},
	} {
		g := Group{Name: "web", Canaries: c.canaries, MaxInFlight: c.width, MinHealthy: c.well, Serial: true, ParallelZones: c.first}
		for i, id := range []string{"0", "1", "2", "3"} {
			g.Instances = append(g.Instances, Instance{
				ID: id, Index: i, Zone: []string{"z1", "z2"}[i%2], Bootstrap: i == 0, Changes: true,
				Down: slices.Contains(c.down, id), Idle: slices.Contains(c.idle, id),
			})
		}
		got, err := Stages([]Group{g}, c.first)
		if err != nil || !reflect.DeepEqual(got[0][0].Lots, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.about, got, err, c.want)
		}
	}
}

func TestHealthy(t *testing.T) {
	for _, c := range []struct {
		text        string
		size, width int
		wrong       bool
	}{
		{"new 5", 5, 3, false}, {"one new 51%", 5, 1, false}, {"one new 4", 5, 0, true},
		{"", 5, 3, false}, {"0", 5, 3, false}, {"2", 5, 3, false}, {"3", 5, 2, false}, {"4", 5, 1, false},
		{"5", 5, 0, true}, {"50%", 5, 2, false}, {"50%", 4, 2, false}, {"50%", 1, 1, false}, {"100%", 3, 1, false},
		{"half", 3, 0, true}, {"-1", 3, 0, true},
	} {
		least, isNew := strings.CutPrefix(c.text, "new ") // none is stopped
		least, oneNew := strings.CutPrefix(least, "one new ")
		g := Group{Name: "web", Canaries: "0", MaxInFlight: "3", MinHealthy: least, Serial: true}
		for i := range c.size {
			g.Instances = append(g.Instances, Instance{ID: string(rune('a' + i)), Index: i, Changes: true, New: isNew || oneNew && i == 4})
		}
		stages, err := Stages([]Group{g}, false)
		switch {
		case (err != nil) != c.wrong:
			t.Errorf("min_healthy %q of %d: %v", c.text, c.size, err)
		case err == nil && stages[0][0].Lots[0].Width != c.width:
			t.Errorf("min_healthy %q of %d: %d at the same time, not %d", c.text, c.size, stages[0][0].Lots[0].Width, c.width)
		}
	}
}
