package links

import (
	"fmt"
	"testing"

	"bootstrap/artifact"
	"bootstrap/templates"
)

// large is a deployment of 100 instances in 20 groups, of which each has five jobs that
// provide a link with 20 properties and consume four.
func large() []Group {
	var groups []Group
	for g := range 20 {
		group := Group{Name: fmt.Sprintf("group%d", g), Networks: []string{"default"}, Default: "default", Instances: instances(fmt.Sprintf("g%d", g), 5)}
		for j := range 5 {
			properties := map[string]any{}
			var names []string
			var spec []artifact.Property
			for p := range 20 {
				name := fmt.Sprintf("p%d", p)
				properties[name] = map[string]any{"a": "value", "list": []any{1, 2, 3}}
				names, spec = append(names, name), append(spec, artifact.Property{Name: name})
			}
			name := fmt.Sprintf("link%d-%d", g, j)
			consumes, described := []artifact.Link{}, map[string]any{}
			for c := range 4 {
				from := (g + c + 1) % 20
				consumes = append(consumes, artifact.Link{Name: fmt.Sprintf("c%d", c), Type: fmt.Sprintf("type%d", j)})
				described[fmt.Sprintf("c%d", c)] = map[string]any{"from": fmt.Sprintf("link%d-%d", from, j)}
			}
			group.Jobs = append(group.Jobs, &templates.Job{
				Job:     &artifact.Job{Name: fmt.Sprintf("job%d", j), Properties: spec, Provides: []artifact.Link{{Name: name, Type: fmt.Sprintf("type%d", j), Properties: names}}, Consumes: consumes},
				Context: templates.Context{JobProperties: properties, Consumes: described},
			})
		}
		groups = append(groups, group)
	}
	return groups
}

func BenchmarkResolve(b *testing.B) {
	groups := large()
	for b.Loop() {
		got, err := Resolve("dep", groups, others{}.known(), nil)
		if err != nil || len(got.Links) != 400 {
			b.Fatal(err)
		}
	}
}
