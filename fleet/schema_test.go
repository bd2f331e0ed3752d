package fleet

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"bootstrap/manifest/document"
	"bootstrap/manifest/keys"
	"bootstrap/manifest/manifesttest"
)

// compiled returns the schema, ready to check documents.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	return manifesttest.Schema(t, Schema, "")
}

// The schema and Read accept and refuse the same, except for rules that depend on other
// files or other parts of the fleet file.
func TestSchemaAgreesWithRead(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	dir := unpacked(t, "-- a.yml --\n-- b.yml --\n-- x/manifest.yml --\n")
	path := filepath.Join(dir, "fleet.yml")
	const good = "members: [{manifest: a.yml, labels: {tier: canary}}]\n"
	member := func(keys string) string { return "members: [{" + keys + "}]\n" }
	row := func(keys string) string { return "members: [{manifest: a.yml, table: [{" + keys + "}]}]\n" }
	update := func(keys string) string { return good + "update: {" + keys + "}\n" }
	for text, accepted := range map[string]bool{
		good:                             true,
		"name: shop\nx-note: 1\n" + good: true,
		"name: ''\n" + good:              false,
		"name: [a]\n" + good:             false,
		"- a":                            false,
		"{}":                             false,
		"members: []":                    false,
		"members: {}":                    false,
		"members: [a.yml]":               false,
		"membres: []\n" + good:           false,

		member("manifest: a.yml, name: a, ops_files: b.yml, vars_files: [b.yml], cloud_config: [b.yml], vars_store: s.yml, state: s.json"): true,
		member("manifest: a.yml, vars: {a: [1, {b: ~}]}, labels: {a: 1, b: yes}, blocked: {by: anna, why: broken}"):                        true,
		member("manifest: a.yml, vars: ~, labels: ~, blocked: ~, ops_files: ~, state: ~, .anchor: 1"):                                      true,
		member("manifest: a.yml, vars: [a]"):                 false,
		member("manifest: a.yml, labels: [a]"):               false,
		member("manifest: a.yml, labels: {a: [b]}"):          false,
		member("manifest: a.yml, blocked: true"):             false,
		member("manifest: a.yml, blocked: {by: anna}"):       false,
		member("manifest: a.yml, blocked: {why: ' '}"):       false,
		member("manifest: a.yml, ops_files: {a: b}"):         false,
		member("manifest: a.yml, ops_files: ['']"):           false,
		member("manifest: a.yml, vars_store: ' '"):           false,
		member("manifest: a.yml, name: ''"):                  false,
		member("manifest: ''"):                               false,
		member("name: a"):                                    false,
		member("manifest: a.yml, zone: z1"):                  false,
		member("glob: '*/manifest.yml', labels: {a: b}"):     true,
		member("glob: '*/manifest.yml', name: a"):            false,
		member("glob: '*/manifest.yml', manifest: a.yml"):    false,
		member("glob: '*/manifest.yml', table: [{name: a}]"): false,
		member("glob: []"):                                   false,
		row("name: r, vars: {a: b}, labels: {a: b}, state: s.json, blocked: {why: broken}, vars_files: b.yml, ops_files: [b.yml], vars_store: s, cloud_config: b.yml"): true,
		row("vars: {a: b}"):                                    false,
		row("name: r, manifest: b.yml"):                        false,
		row("name: r, vars: []"):                               false,
		member("manifest: a.yml, table: []"):                   false,
		member("manifest: a.yml, table: {}"):                   false,
		member("table: [{name: a}]"):                           false,
		member("manifest: a.yml, name: a, table: [{name: b}]"): false,

		good + "defaults: {ops_files: [b.yml], vars_files: b.yml, vars: {a: b}, vars_store: '{name}.yml', cloud_config: b.yml, labels: {a: b}, state: '{name}.json'}\n": true,
		good + "defaults: {blocked: {why: broken}}\n": false,
		good + "defaults: []\n":                       false,

		update("strategy: recreate, canaries: 0, max_in_flight: 5, waves: [1, 10%, 50%], bake: 5m, max_failures: 2, order: random, timeout: 2h"):             true,
		update("canaries: '2', max_in_flight: 100%, bake: 90, retry_busy: {rounds: 0, wait: 1m30s}, canary_watch_time: 1000-2000, update_watch_time: 30000"): true,
		update("canaries: {count: 10%, label: tier=canary}, bake: {canaries: 5m, waves: 0}"):                                                                 true,
		update("canaries: {}, bake: {}, retry_busy: {}"):                                                                                                     true,
		update("canaries: ~, max_in_flight: ~, waves: ~, bake: ~, max_failures: ~, retry_busy: ~, order: ~, timeout: ~, canary_watch_time: ~, strategy: ~"):  true,
		update("strategy: upgrade"):         false,
		update("canaries: -1"):              false,
		update("canaries: 101%"):            false,
		update("canaries: ten"):             false,
		update("canaries: 1.5"):             false,
		update("canaries: [1]"):             false,
		update("canaries: {number: 1}"):     false,
		update("canaries: {count: -1}"):     false,
		update("canaries: {label: ''}"):     false,
		update("max_in_flight: 0"):          false,
		update("max_in_flight: 0%"):         false,
		update("max_in_flight: 00%"):        false,
		update("max_in_flight: {count: 1}"): false,
		update("waves: []"):                 false,
		update("waves: 1"):                  false,
		update("waves: [0]"):                false,
		update("waves: [1, ~]"):             false,
		update("bake: -1"):                  false,
		update("bake: 5 minutes"):           false,
		update("bake: {canary: 5m}"):        false,
		update("max_failures: -1"):          false,
		update("max_failures: 10%"):         false,
		update("retry_busy: 3"):             false,
		update("retry_busy: {rounds: -1}"):  false,
		update("retry_busy: {wait: soon}"):  false,
		update("order: zone"):               false,
		update("timeout: 2 h"):              false,
		update("canary_watch_time: 3-2-1"):  false,
		update("update_watch_time: -5"):     false,
		update("serial: true"):              false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(t.Context(), path, document.Options{}, Outside{}); (err == nil) != accepted {
			t.Errorf("Read of %s: %v", text, err)
		}
		if err := schema.Validate(manifesttest.Instance(t, text)); (err == nil) != accepted {
			t.Errorf("schema of %s: %v", text, err)
		}
	}
	// A variable is allowed in place of any value.
	for _, text := range []string{
		"members: ((members))\ndefaults: ((defaults))\nupdate: ((update))\n",
		member("((key)): ((value)), manifest: ((m)), vars: ((v)), labels: ((l)), blocked: ((b)), table: ((t))"),
		update("strategy: ((s)), canaries: ((c)), max_in_flight: ((n))%, waves: [((w))], bake: ((b)), max_failures: ((f)), retry_busy: ((r)), order: ((o)), timeout: ((t))s, canary_watch_time: ((a))-((b))"),
	} {
		if err := schema.Validate(manifesttest.Instance(t, text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The schema and the table have the same keys, and Read reads each of them.
func TestSchemaHasAllKeys(t *testing.T) {
	t.Parallel()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	type definition struct {
		Properties map[string]struct{ Description string }
	}
	var schema struct {
		definition
		Defs map[string]definition `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	schema.Defs[""] = schema.definition
	read := keysRead(t)
	for _, s := range sections {
		got := slices.Sorted(maps.Keys(schema.Defs[keys.DefinitionName(s.Name)].Properties))
		if want := slices.Sorted(slices.Values(s.Names())); !slices.Equal(got, want) {
			t.Errorf("%q: schema has %v, table %v", s.Name, got, want)
		}
		for _, f := range s.Read {
			if f.About == "" || !read[f.Key] {
				t.Errorf("%s.%s has no description, or nobody reads it", s.Name, f.Key)
			}
		}
	}
	for key := range read {
		if !slices.ContainsFunc(sections, func(s keys.Keys) bool { return slices.Contains(s.Names(), key) }) {
			t.Errorf("the key %s is read, but is in no section", key)
		}
	}
}

// keysRead returns the keys that the source reads.
func keysRead(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`\.Get\("([a-z_]+)"\)`).FindAllStringSubmatch(string(text), -1) {
			read[match[1]] = true
		}
	}
	return read
}
