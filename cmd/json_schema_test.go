package cmd

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"gotest.tools/v3/golden"

	"bootstrap/cmd/about"
	"bootstrap/cmd/cli"
	"bootstrap/cmd/manifests"
	"bootstrap/cmd/records"
	"bootstrap/cmd/scaffold"
	"bootstrap/cmd/secrets"
	"bootstrap/cmd/ui"
	"bootstrap/cmd/vm"
	"bootstrap/deployer/compilation"
	"bootstrap/deployer/observe"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
	"bootstrap/deployment"
	"bootstrap/deployment/links"
	"bootstrap/fleet/queue"
	fleetreport "bootstrap/fleet/report"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
)

// printed has a value of the type of each kind of object.
func printed() map[string]any {
	kinds := map[string]any{
		"result":      ui.Result{},
		"explanation": about.Explanation{},
		"text":        cli.TextLine{}, "document": cli.TextLine{}, "file": manifests.FileLine{}, "schema": manifests.SchemaLine{},
		"status": observe.Condition{}, "check": observe.Check{}, "disk": observe.SeenDisk{}, "snapshot": ui.Snapshot{}, "event": observe.SeenEvent{}, "cloud_problem": ui.CloudProblem{},
		"address": observe.HeldAddress{}, "deployment": observe.Listed{}, "subnet": observe.Subnet{}, "need": observe.Need{}, "finding": records.Finding{},
		"problem": cli.Problem{}, "unchecked": manifests.Unchecked{}, "locked": manifests.LockLine{},
		"version": about.Program{}, "state": ui.State{}, "backup": ui.Backup{}, "leftover": ui.Leftover{}, "done": records.DoneView{}, "difference": records.DifferenceView{}, "removed": records.RemovedView{},
		"variable": manifests.VariableLine{}, "rotation": manifests.RotatedLine{}, "secrets": secrets.Result{}, "cached": records.Cached{}, "initialized": scaffold.Result{},
		"timings": timeline.Timeline{}, "report": observe.Report{},
		"fleet_run": rollout.Record{}, "fleet_members": rollout.Now{}, "fleet_report": fleetreport.Report{}, "worker": queue.Event{},
		"instances": deployment.Plan{}, "instance": deployment.Event{}, "instance_states": observe.InstanceStates{}, "links": links.View{}, "errand": vm.Errand{}, "compiled": compilation.Result{},
	}
	for _, kind := range []report.Kind{report.Begin, report.End, report.Progress, report.Waiting, report.Info, report.Warning, report.Log, report.Planned, report.Step} {
		kinds[string(kind)] = report.Event{}
	}
	for _, kind := range []rollout.Kind{rollout.Planning, rollout.Begun, rollout.Phase, rollout.Notice, rollout.OfMember, rollout.Output, rollout.Over} {
		kinds[string(kind)] = rollout.Event{}
	}
	return kinds
}

// docs/json.schema.json describes the objects of all kinds, and docs/json.md lists the
// same kinds. Scripts of e2e compare the output of commands with it.
func TestJSONSchema(t *testing.T) {
	text := &jsonschema.Schema{Type: "string"}
	opts := &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[observe.Figure]():   {Type: "number"},
		reflect.TypeFor[schedule.Verdict](): text,
		reflect.TypeFor[json.RawMessage]():  {},
	}}
	kinds := printed()
	var list []any
	names := map[reflect.Type]string{} // types that several kinds share have one schema
	all := &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: "An object of bootstrap --json", Type: "object",
		Required: []string{"kind"}, Defs: map[string]*jsonschema.Schema{},
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		of := reflect.TypeOf(kinds[kind])
		if names[of] == "" {
			schema, err := jsonschema.ForType(of, opts)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			opened(schema)
			if schema.Properties["kind"] == nil {
				schema.Properties["kind"] = text
			}
			if of == reflect.TypeFor[ui.Result]() {
				// Only commands about a deployment have an outcome.
				schema.Required = []string{"kind", "status", "exit_code"}
			}
			names[of], all.Defs[kind] = kind, schema
		}
		list = append(list, kind)
		constant := any(kind)
		all.AllOf = append(all.AllOf, &jsonschema.Schema{
			If:   &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"kind": {Const: &constant}}},
			Then: &jsonschema.Schema{Ref: "#/$defs/" + names[of]},
		})
	}
	all.Properties = map[string]*jsonschema.Schema{"kind": {Type: "string", Examples: list}}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, string(data)+"\n", "../../docs/json.schema.json")
	page, err := os.ReadFile("../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z_]+`(?:, `[a-z_]+`)*) \\|.*\\|.*\\|$").FindAllStringSubmatch(string(page), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			if name = strings.Trim(name, "`"); kinds[name] != nil {
				told = append(told, name)
			}
		}
	}
	slices.Sort(told)
	if want := slices.Sorted(maps.Keys(kinds)); !slices.Equal(told, want) {
		t.Errorf("docs/json.md has the kinds %q, and the program %q", told, want)
	}
}

// opened allows members that later versions add.
func opened(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Properties != nil {
		s.AdditionalProperties = nil
	} else {
		opened(s.AdditionalProperties)
	}
	for _, p := range s.Properties {
		opened(p)
	}
	opened(s.Items)
}
