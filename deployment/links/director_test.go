package links

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bootstrap/artifact"
	"bootstrap/templates"
)

// directorCases are what the classes of BOSH's Director (96f913526a) decide for random
// deployments: what each consuming job gets, or what is wrong. A case is one deployment,
// or another one that shares links and then one that may consume them.
//
//go:embed testdata/director.json
var directorCases []byte

type directorCase struct {
	Deployment struct {
		Name   string
		Groups []struct {
			Name       string
			Networks   []string
			Default    string
			Disks      []string
			Instances  []Instance
			Properties map[string]any
			Jobs       []struct {
				Name string
				Spec struct {
					Provides, Consumes []artifact.Link
					Properties         map[string]struct{ Default any }
				}
				Manifest struct {
					Properties, Provides, Consumes map[string]any
					Custom                         []artifact.Link `json:"custom_provider_definitions"`
				}
			}
		}
	}
	Result struct {
		Errors []struct {
			Group, Job, Link, Text string
			Candidates             []string // GROUP/JOB/LINK
		}
		Links []struct {
			Group, Job, Link, From string // From is DEPLOYMENT/GROUP/JOB/LINK
			Address                any
			Properties             map[string]any
			Instances              []map[string]any
		}
	}
}

// groups returns the case as Resolve takes it, and false if it has custom provider
// definitions that manifest.Load refuses.
func (c *directorCase) groups() ([]Group, bool) {
	var groups []Group
	for _, g := range c.Deployment.Groups {
		group := Group{Name: g.Name, Networks: g.Networks, Default: g.Default, Disks: g.Disks, Instances: g.Instances}
		if group.Default == "" {
			group.Default = g.Networks[0]
		}
		for _, j := range g.Jobs {
			seen := map[string]bool{}
			for _, l := range j.Manifest.Custom {
				if l.Type == "" || seen[l.Name] {
					return nil, false
				}
				seen[l.Name] = true
			}
			spec := &artifact.Job{Name: j.Name, Provides: append(j.Spec.Provides, j.Manifest.Custom...), Consumes: j.Spec.Consumes}
			for _, name := range slices.Sorted(maps.Keys(j.Spec.Properties)) {
				spec.Properties = append(spec.Properties, artifact.Property{Name: name, Default: j.Spec.Properties[name].Default})
			}
			group.Jobs = append(group.Jobs, &templates.Job{Job: spec, Context: templates.Context{
				Name: g.Name, JobProperties: j.Manifest.Properties, ClusterProperties: g.Properties, GlobalProperties: map[string]any{},
				Consumes: j.Manifest.Consumes, Provides: j.Manifest.Provides,
			}})
		}
		groups = append(groups, group)
	}
	return groups, true
}

// asJSON returns a value with the types of JSON.
func asJSON(t *testing.T, value any) (plain any) {
	t.Helper()
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, &plain)
	}
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func TestDirector(t *testing.T) {
	var cases [][]directorCase
	if err := json.Unmarshal(directorCases, &cases); err != nil {
		t.Fatal(err)
	}
	for i, all := range cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			known := others{}
			for k := range all {
				c := &all[k]
				groups, valid := c.groups()
				if !valid && len(c.Result.Errors) > 0 {
					return
				}
				got, err := Resolve(c.Deployment.Name, groups, known.known(), nil)
				if err != nil || len(c.Result.Errors) > 0 {
					c.compareErrors(t, err)
					return
				}
				known[c.Deployment.Name] = got.Shared
				c.compareLinks(t, got.Links)
			}
		})
	}
}

// compareErrors expects that all that the Director refuses is refused.
func (c *directorCase) compareErrors(t *testing.T, err error) {
	t.Helper()
	var wrong *Unresolved
	if !errors.As(err, &wrong) || len(c.Result.Errors) == 0 {
		text, _ := json.Marshal(c)
		t.Fatalf("%v, want %+v\n%s", err, c.Result.Errors, text)
	}
	for _, e := range c.Result.Errors {
		i := slices.IndexFunc(wrong.Problems, func(p Problem) bool {
			return p.Consumer.Group == e.Group && p.Consumer.Job == e.Job && (e.Link == "" || e.Link == p.Consumer.Name)
		})
		if i < 0 {
			t.Fatalf("%v\nwant %+v", err, e)
		}
		var have []string
		for _, o := range wrong.Problems[i].Candidates {
			have = append(have, o.Group+"/"+o.Job+"/"+o.Name)
		}
		slices.Sort(have)
		if len(e.Candidates) > 1 && !slices.Equal(have, e.Candidates) {
			t.Fatalf("candidates %q, want %q", have, e.Candidates)
		}
	}
}

// compareLinks expects the links that the Director makes.
func (c *directorCase) compareLinks(t *testing.T, links []Link) {
	t.Helper()
	want := map[string]any{}
	for _, l := range c.Result.Links {
		if l.From == "" && l.Properties == nil { // templates find no property in both
			l.Properties = map[string]any{}
		}
		want[l.Group+"/"+l.Job+"/"+l.Link] = []any{l.From, l.Address, l.Properties, l.Instances}
	}
	have := map[string]any{}
	for _, l := range links {
		if l.Content == nil {
			continue
		}
		from := ""
		if p := l.Provider; p != nil {
			from = strings.Join([]string{p.Deployment, p.Group, p.Job, p.Name}, "/")
		}
		have[l.Consumer.Group+"/"+l.Consumer.Job+"/"+l.Consumer.Name] = []any{from, l.Content["address"], l.Content["properties"], l.Content["instances"]}
	}
	if h, w := asJSON(t, have), asJSON(t, want); !reflect.DeepEqual(h, w) {
		text, _ := json.Marshal(c)
		t.Fatalf("have %v\nwant %v\n%s", h, w, text)
	}
}
