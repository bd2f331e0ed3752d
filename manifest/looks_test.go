package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/manifest/document"
)

// Several instances are recognized before anything is deployed, wherever their number comes
// from.
func TestLooksSeveral(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	group := func(n string) string { return "name: page\ninstance_groups:\n- name: web\n  instances: " + n + "\n" }
	cloud := []string{write("cloud.yml", "azs: [{name: z1}]\n")}
	one, three, some := write("one.yml", group("1")), write("three.yml", group("3")), write("some.yml", group("((n))"))
	named := write("named.yml", group("((n))")+"cloud_config: cloud.yml\n")
	vars, others := write("vars.yml", "n: 3\n"), write("others.yml", "m: 3\n")
	const flow = "name: page\ninstance_groups:\n- {name: web, instances: 1}\n"
	ops := write("ops.yml", "- {type: replace, path: /instance_groups/0/instances, value: ((n))}\n")
	key := write("key.yml", "- {type: replace, path: \"/cloud_config?\", value: cloud.yml}\n")
	encrypted := write("encrypted.yml", "-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n-----END AGE ENCRYPTED FILE-----\n")
	for name, c := range map[string]struct {
		path string
		opts document.Options
		want bool
	}{
		"one":                         {one, document.Options{CloudConfigs: cloud}, false},
		"three":                       {three, document.Options{CloudConfigs: cloud}, true},
		"none":                        {write("none.yml", group("0")), document.Options{CloudConfigs: cloud}, true},
		"one in braces":               {write("flow.yml", flow), document.Options{CloudConfigs: cloud}, false},
		"two in braces":               {write("two.yml", strings.Replace(flow, "1}", "2}", 1)), document.Options{CloudConfigs: cloud}, true},
		"two groups":                  {write("groups.yml", flow+"- {name: db, instances: 1}\n"), document.Options{CloudConfigs: cloud}, true},
		"a file without the variable": {some, document.Options{CloudConfigs: cloud, VarsFiles: []string{others}}, false},
		"no cloud config":             {three, document.Options{}, false},
		"a variable":                  {some, document.Options{CloudConfigs: cloud, Vars: []string{"n=3"}}, true},
		"a variable that is one":      {some, document.Options{CloudConfigs: cloud, Vars: []string{"n=1"}}, false},
		"a file of variables":         {some, document.Options{CloudConfigs: cloud, VarsFiles: []string{vars}}, true},
		"standard input":              {some, document.Options{CloudConfigs: cloud, VarsFiles: []string{"-"}, Piped: []byte("n: 3\n")}, true},
		"the environment":             {some, document.Options{CloudConfigs: cloud, VarsEnv: []string{"X"}, Environ: []string{"X_n=3"}}, true},
		"the vars store":              {some, document.Options{CloudConfigs: cloud, VarsStore: vars}, true},
		"an encrypted vars store":     {some, document.Options{CloudConfigs: cloud, VarsStore: encrypted}, true},
		"a source":                    {some, document.Options{CloudConfigs: cloud, VarSources: []string{"vault://v"}}, true},
		"an operation":                {one, document.Options{CloudConfigs: cloud, Ops: []string{ops}, Vars: []string{"n=3"}}, true},
		"an operation that is one":    {three, document.Options{CloudConfigs: cloud, Ops: []string{ops}, Vars: []string{"n=1"}}, false},
		"a cloud config by key":       {named, document.Options{Vars: []string{"n=3"}}, true},
		"a cloud config by operation": {three, document.Options{Ops: []string{key}}, true},
		"no value":                    {some, document.Options{CloudConfigs: cloud}, false},
	} {
		if got := LooksSeveral(t.Context(), c.path, c.opts); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
