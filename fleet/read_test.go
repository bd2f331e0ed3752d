package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"bootstrap/manifest/document"
	"bootstrap/manifest/manifesttest"
)

// unpacked writes the files of an archive, and returns their folder without
// links.
func unpacked(t testing.TB, archive string) string {
	t.Helper()
	return manifesttest.Unpack(t, txtar.Parse([]byte(archive)))
}

// read reads fleet.yml of an archive, which must be valid.
func read(t *testing.T, archive string, opts document.Options) (f *Fleet, dir string) {
	t.Helper()
	dir = unpacked(t, archive)
	f, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), opts, Outside{})
	if err != nil {
		t.Fatal(err)
	}
	return f, dir
}

// shown returns a value as JSON with paths below the folder.
func shown(t *testing.T, dir string, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), dir+string(filepath.Separator), "")
}

func TestFormsOfMembers(t *testing.T) {
	t.Parallel()
	f, dir := read(t, `
-- fleet.yml --
members:
- manifest: web/manifest.yml
- manifest: a.yml
  name: first
  ops_files: [o1.yml]
  vars_files: v1.yml
  cloud_config: [c1.yml, c2.yml]
  vars_store: creds/{name}.yml
  state: states/{name}.json
  vars: {index: 1, list: [a, 0755, yes], text: "<&>"}
  labels: {zone: z1, big: "yes"}
  blocked: {by: anna, why: freeze until Monday}
- glob: jump*/*/manifest.yml
  vars_store: creds/{name}.yml
- manifest: pg.yml
  ops_files: o1.yml
  vars: {size: 1, name: x}
  labels: {tier: data, zone: z1}
  table:
  - {name: pg-1}
  - {name: pg-2, vars: {size: 2}, labels: {zone: z2}, ops_files: [o2.yml], state: pg-2.json}
  - {name: pg-3, blocked: {why: broken}}
defaults:
  ops_files: [o0.yml]
  vars_files: v0.yml
  cloud_config: c0.yml
  vars: {domain: example.com, size: 0}
  labels: {team: shop}
-- creds/first.yml --
-- web/manifest.yml --
-- a.yml --
-- pg.yml --
-- jumps/b/manifest.yml --
-- jumps/a/manifest.yml --
-- jumps/.git/manifest.yml --
-- jumps/c/other.yml --
-- o0.yml --
-- o1.yml --
-- o2.yml --
-- v0.yml --
-- v1.yml --
-- c0.yml --
-- c1.yml --
-- c2.yml --
`, document.Options{})
	if f.Path != filepath.Join(dir, "fleet.yml") || f.Name != "fleet" || len(f.Warnings) > 0 {
		t.Errorf("got %q, %q, %v", f.Path, f.Name, f.Warnings)
	}
	type shownMember struct {
		Name, Manifest, State        string
		Ops, CloudConfigs, VarsFiles []string
		VarsStore                    string
		Vars                         json.RawMessage
		Labels                       map[string]string
		Blocked                      *Blocked
		Line                         int
	}
	var got []string
	for _, m := range f.Members {
		got = append(got, shown(t, dir, shownMember{m.Name, m.Manifest, m.State, m.Ops, m.CloudConfigs, m.VarsFiles, m.VarsStore, m.Vars, m.Labels, m.Blocked, m.Pos.Line}))
	}
	want := []string{
		`{"Name":"web","Manifest":"web/manifest.yml","State":"","Ops":["o0.yml"],"CloudConfigs":["c0.yml"],"VarsFiles":["v0.yml"],"VarsStore":"","Vars":{"domain":"example.com","size":0},"Labels":{"team":"shop"},"Blocked":null,"Line":2}`,
		`{"Name":"first","Manifest":"a.yml","State":"states/first.json","Ops":["o0.yml","o1.yml"],"CloudConfigs":["c1.yml","c2.yml"],"VarsFiles":["v0.yml","v1.yml"],"VarsStore":"creds/first.yml","Vars":{"domain":"example.com","index":1,"list":["a",493,true],"size":0,"text":"\u003c\u0026\u003e"},"Labels":{"big":"yes","team":"shop","zone":"z1"},"Blocked":{"By":"anna","Why":"freeze until Monday"},"Line":3}`,
		`{"Name":"a","Manifest":"jumps/a/manifest.yml","State":"","Ops":["o0.yml"],"CloudConfigs":["c0.yml"],"VarsFiles":["v0.yml"],"VarsStore":"creds/a.yml","Vars":{"domain":"example.com","size":0},"Labels":{"team":"shop"},"Blocked":null,"Line":13}`,
		`{"Name":"b","Manifest":"jumps/b/manifest.yml","State":"","Ops":["o0.yml"],"CloudConfigs":["c0.yml"],"VarsFiles":["v0.yml"],"VarsStore":"creds/b.yml","Vars":{"domain":"example.com","size":0},"Labels":{"team":"shop"},"Blocked":null,"Line":13}`,
		`{"Name":"pg-1","Manifest":"pg.yml","State":"pg-1-state.json","Ops":["o0.yml","o1.yml"],"CloudConfigs":["c0.yml"],"VarsFiles":["v0.yml"],"VarsStore":"","Vars":{"domain":"example.com","name":"x","size":1},"Labels":{"team":"shop","tier":"data","zone":"z1"},"Blocked":null,"Line":20}`,
		`{"Name":"pg-2","Manifest":"pg.yml","State":"pg-2.json","Ops":["o0.yml","o1.yml","o2.yml"],"CloudConfigs":["c0.yml"],"VarsFiles":["v0.yml"],"VarsStore":"","Vars":{"domain":"example.com","name":"x","size":2},"Labels":{"team":"shop","tier":"data","zone":"z2"},"Blocked":null,"Line":21}`,
		`{"Name":"pg-3","Manifest":"pg.yml","State":"pg-3-state.json","Ops":["o0.yml","o1.yml"],"CloudConfigs":["c0.yml"],"VarsFiles":["v0.yml"],"VarsStore":"","Vars":{"domain":"example.com","name":"x","size":1},"Labels":{"team":"shop","tier":"data","zone":"z1"},"Blocked":{"By":"","Why":"broken"},"Line":22}`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !reflect.DeepEqual(f.Update, defaults()) {
		t.Errorf("update: %+v", f.Update)
	}
}

// Members of a pattern get the names of their files or, if these are not unique, of
// their folders.
func TestNamesOfGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ glob, files, want string }{
		{"*.yml", "b.yml a.yml fleet.yml", "a b"}, // the fleet file is not a member
		{"x/*/m.yml", "x/one/m.yml x/two/m.yml", "one two"},
		{"x/*/*.yml", "x/one/a.yml x/two/b.yml", "a b"},
		{"x/*/manifest.yml", "x/one/manifest.yml", "one"},
		{"./x/../x/*.yml", "x/a.yml", "a"},
		{`x/[a-b]\*.yml`, "x/a*.yml x/c.yml", ""},
		{".x/*.yml", ".x/a.yml .x/.b.yml", "a"},
	} {
		archive := ""
		for _, name := range strings.Fields("fleet.yml " + c.files) {
			content := ""
			if name == "fleet.yml" {
				content = "members:\n- glob: '" + c.glob + "'\n"
			}
			archive += "-- " + name + " --\n" + content
		}
		f, err := Read(t.Context(), filepath.Join(unpacked(t, archive), "fleet.yml"), document.Options{}, Outside{})
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), `would have the name "a*"`) {
				t.Errorf("%s: %v", c.glob, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.glob, err)
			continue
		}
		var names []string
		for _, m := range f.Members {
			names = append(names, m.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.glob, got, c.want)
		}
	}
	// Patterns of absolute paths, and below folders with characters of patterns.
	dir := unpacked(t, "-- [a]*/fleet.yml --\nmembers: [{glob: '*.yaml'}, {glob: ../other/*.yml}]\n-- [a]*/x.yaml --\n-- other/y.yml --\n-- abs.yml --\nmembers: [{glob: ((dir))/other/*.yml}]\n")
	f, err := Read(t.Context(), filepath.Join(dir, "[a]*", "fleet.yml"), document.Options{}, Outside{})
	if err != nil || len(f.Members) != 2 || f.Members[1].Manifest != filepath.Join(dir, "other", "y.yml") {
		t.Errorf("got %+v, %v", f, err)
	}
	f, err = Read(t.Context(), filepath.Join(dir, "abs.yml"), document.Options{Vars: []string{"dir=" + dir}}, Outside{})
	if err != nil || len(f.Members) != 1 || f.Members[0].Manifest != filepath.Join(dir, "other", "y.yml") {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": `{"Strategy":"update","Canaries":"1","Of":"","MaxInFlight":"1","Waves":[],"Bakes":["0s","0s"],"MaxFailures":0,"RetryBusy":{"Rounds":3,"Wait":30000000000},"Order":"file","Timeout":"0s","Watches":["",""]}`,
		`strategy: recreate
canaries: {count: 10%, label: tier=canary}
max_in_flight: 50%
waves: [1, "10%", 50%]
bake: {canaries: 5m, waves: 60}
max_failures: 2
retry_busy: {rounds: 0}
order: random
timeout: 2h
canary_watch_time: 30000 - 600000
update_watch_time: 90000`: `{"Strategy":"recreate","Canaries":"10%","Of":"tier=canary","MaxInFlight":"50%","Waves":["1","10%","50%"],"Bakes":["5m0s","1m0s"],"MaxFailures":2,"RetryBusy":{"Rounds":0,"Wait":30000000000},"Order":"random","Timeout":"2h0m0s","Watches":["30000-600000","90000-90000"]}`,
		`canaries: 0
max_in_flight: "5"
bake: 1m
retry_busy: {wait: 1m}
waves: ~
canary_watch_time: 1000-2000`: `{"Strategy":"update","Canaries":"0","Of":"","MaxInFlight":"5","Waves":[],"Bakes":["1m0s","1m0s"],"MaxFailures":0,"RetryBusy":{"Rounds":3,"Wait":60000000000},"Order":"file","Timeout":"0s","Watches":["1000-2000",""]}`,
	} {
		f, _ := read(t, "-- fleet.yml --\nname: shop\nmembers: [{manifest: a.yml, labels: {tier: canary}}]\nupdate:\n  "+strings.ReplaceAll(text, "\n", "\n  ")+"\n-- a.yml --\n", document.Options{})
		u := f.Update
		waves := []string{}
		for _, w := range u.Waves {
			waves = append(waves, w.String())
		}
		got := shown(t, "", struct {
			Strategy     Strategy
			Canaries, Of string
			MaxInFlight  string
			Waves        []string
			Bakes        [2]string
			MaxFailures  int
			RetryBusy    RetryBusy
			Order        Order
			Timeout      string
			Watches      [2]string
		}{u.Strategy, u.Canaries.Count.String(), u.Canaries.Of, u.MaxInFlight.String(), waves, [2]string{u.BakeCanaries.String(), u.BakeWaves.String()},
			u.MaxFailures, u.RetryBusy, u.Order, u.Timeout.String(), [2]string{u.CanaryWatch, u.UpdateWatch}})
		if got != want || f.Name != "shop" {
			t.Errorf("%s\n got: %s\nwant: %s", text, got, want)
		}
	}
}

// Variables of the fleet file come from the options, and are secrets.
func TestVariablesOfTheFile(t *testing.T) {
	t.Parallel()
	const archive = "-- fleet.yml --\nmembers:\n- {manifest: ((folder))/a.yml, name: one, vars: {password: ((pw)), other_token: plain-text}}\nupdate: {canaries: ((canaries))}\n-- x/a.yml --\n"
	f, _ := read(t, archive, document.Options{Vars: []string{"folder=x", "pw=sesame"}, VarsEnv: []string{"FLEET"}, Environ: []string{"FLEET_canaries=20%"},
		Ops: []string{"absent.yml"}, CloudConfigs: []string{"absent.yml"}, VarsStore: "absent.yml", Generate: document.Write})
	if got := string(f.Members[0].Vars); got != `{"other_token":"plain-text","password":"sesame"}` {
		t.Error(got)
	}
	if f.Update.Canaries.Count != percentage(20) {
		t.Error(f.Update.Canaries)
	}
	if got := strings.Join(f.Secrets, " "); got != "plain-text sesame" {
		t.Error(got)
	}
}

// Variables keep their types and texts through JSON, which is read as YAML.
func TestVarsAreYAML(t *testing.T) {
	t.Parallel()
	const vars = `{a: "yes", b: "0755", c: 1.5, d: 1e30, e: ~, f: "\x7f\x85\u2028\ufeff\n\t\U0001F600", "g: h": [1, {x: "<"}], i: 18446744073709551615, "": 1}`
	f, dir := read(t, "-- fleet.yml --\nmembers: [{manifest: a.yml, vars: "+vars+"}]\n-- a.yml --\n", document.Options{})
	if err := os.WriteFile(filepath.Join(dir, "vars.yml"), f.Members[0].Vars, 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := document.Evaluate(t.Context(), "-", document.Options{Stdin: strings.NewReader(vars)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := document.Evaluate(t.Context(), filepath.Join(dir, "vars.yml"), document.Options{})
	if err != nil {
		t.Fatalf("%v: %s", err, f.Members[0].Vars)
	}
	one, _ := want.Find("")
	other, _ := got.Find("")
	if !reflect.DeepEqual(one.Plain(), other.Plain()) {
		t.Errorf("got %v, want %v", other.Plain(), one.Plain())
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	dir := unpacked(t, "-- a.yml --\n-- large.yml --\n"+strings.Repeat("# filler\n", document.MaxFileSize/9+1))
	_, err := Read(t.Context(), filepath.Join(dir, "absent.yml"), document.Options{}, Outside{})
	var unreadable *document.FileError
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &unreadable) || !strings.HasPrefix(err.Error(), "cannot read the fleet file ") {
		t.Error(err)
	}
	for path, want := range map[string]string{
		dir: "it is a directory", "-": "write it to a file", filepath.Join(dir, "large.yml"): "larger than the limit of 2 MiB", filepath.Join(dir, "a.yml"): "the file is empty",
	} {
		if _, err := Read(t.Context(), path, document.Options{}, Outside{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "manifest") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// State files are the same through links, too.
func TestStatesThroughLinks(t *testing.T) {
	t.Parallel()
	dir := unpacked(t, "-- fleet.yml --\nmembers:\n- {manifest: a.yml, state: real/s.json}\n- {manifest: b.yml, state: linked/s.json}\n- {manifest: c.yml, state: file.json}\n-- a.yml --\n-- b.yml --\n-- c.yml --\n-- real/x --\n")
	for link, to := range map[string]string{"linked": "real", "file.json": "real/s.json"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	_, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{}, Outside{})
	var problems *document.Problems
	if !errors.As(err, &problems) || len(*problems) != 2 {
		t.Fatal(err)
	}
	for i, p := range *problems {
		want := fmt.Sprintf("the member %s has the same state file as a, at ", []string{"b", "c"}[i])
		if !strings.HasPrefix(p.Message, want) || !strings.Contains(p.Message, filepath.Join("real", "s.json")) {
			t.Error(p)
		}
	}
}

// Hard links of one state file are one state.
func TestStatesThroughHardLinks(t *testing.T) {
	t.Parallel()
	dir := unpacked(t, "-- fleet.yml --\nmembers:\n- {manifest: a.yml, state: a.json}\n- {manifest: b.yml, state: b.json}\n- {manifest: c.yml, state: c.json}\n-- a.yml --\n-- b.yml --\n-- c.yml --\n-- a.json --\n{}\n-- c.json --\n{}\n")
	if err := os.Link(filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")); err != nil {
		t.Skip(err)
	}
	_, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{}, Outside{})
	var problems *document.Problems
	if !errors.As(err, &problems) || len(*problems) != 1 || !strings.HasPrefix((*problems)[0].Message, "the member b has the same state file as a, at ") {
		t.Fatal(err)
	}
}

// What happens after a failure is one of two words.
func TestOnFailure(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]OnFailure{"{}": "", "{on_failure: previous}": PutBack, "{on_failure: keep}": KeepFailed} {
		dir := unpacked(t, "-- fleet.yml --\nmembers: [{manifest: a.yml}]\nupdate: "+text+"\n-- a.yml --\n")
		f, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{}, Outside{})
		if err != nil || f.Update.OnFailure != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// large returns a fleet file with a table of n rows.
func large(n int) string {
	var b strings.Builder
	b.WriteString("-- pg.yml --\n-- cloud.yml --\n-- creds/pg-0.yml --\n-- fleet.yml --\nmembers:\n- manifest: pg.yml\n  vars: {domain: example.com}\n  table:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: pg-%d, vars: {index: %d, password: sesame-%d}, labels: {zone: z%d}}\n", i, i, i, i%3)
	}
	b.WriteString("defaults: {vars_store: 'creds/{name}.yml', cloud_config: cloud.yml, labels: {tier: data}}\nupdate: {canaries: {count: 1%, label: zone=z2}}\n")
	return b.String()
}

func BenchmarkRead(b *testing.B) {
	path := filepath.Join(unpacked(b, large(10_000)), "fleet.yml")
	var took time.Duration
	for b.Loop() {
		start := time.Now()
		f, err := Read(b.Context(), path, document.Options{}, Outside{})
		if err != nil || len(f.Members) != 10_000 {
			b.Fatal(err)
		}
		took = time.Since(start)
	}
	b.ReportMetric(float64(took.Nanoseconds())/10_000, "ns/member")
}

func TestTooManyMembers(t *testing.T) {
	t.Parallel()
	top := "members:\n- manifest: a.yml\n  table: &t [" + strings.Repeat("{name: x}, ", 1000) + "]\n"
	r := newReader(&Fleet{Path: "fleet.yml", Members: make([]Member, mostMembers-1)}, nil)
	d, err := document.Read(t.Context(), "-", document.Options{Kind: document.FleetKind, Stdin: strings.NewReader(strings.Replace(top, "{name: x}, {name: x}, {name: x}", "{name: a}, {name: b}, {name: c}", 1))}, r.read)
	if d != nil || err == nil || !strings.Contains(err.Error(), "this is one member too many: a fleet has at most 100000") || strings.Count(err.Error(), "\n") != 1 {
		t.Error(err)
	}
}

// Paths may be absolute, or begin with ~.
func TestPathsElsewhere(t *testing.T) {
	dir := unpacked(t, "-- home/a.yml --\n-- home/b.yml --\n-- abs.yml --\n-- fleet.yml --\nmembers:\n- {manifest: ~/a.yml, state: ((dir))/x/../a.json}\n- {manifest: '((dir))/{name}.yml', name: abs}\n- {glob: ~/b*.yml, vars_store: '~/{name}-vars.yml'}\n-- wrong.yml --\nmembers: [{manifest: ~nobody-has-this-name/a.yml}, {glob: ~nobody-has-this-name/*.yml}]\n")
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("USERPROFILE", filepath.Join(dir, "home"))
	f, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{Vars: []string{"dir=" + filepath.ToSlash(dir)}}, Outside{})
	if err != nil {
		t.Fatal(err)
	}
	got := shown(t, dir, []string{f.Members[0].Manifest, f.Members[0].State, f.Members[1].Manifest, f.Members[2].Manifest, f.Members[2].VarsStore})
	if want := `["home/a.yml","a.json","abs.yml","home/b.yml","home/b-vars.yml"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := Read(t.Context(), filepath.Join(dir, "wrong.yml"), document.Options{}, Outside{}); err == nil || strings.Count(err.Error(), "cannot find the home directory: ") != 2 {
		t.Error(err)
	}
}

// A link that leads to itself cannot be a state file.
func TestStateInALoop(t *testing.T) {
	t.Parallel()
	dir := unpacked(t, "-- fleet.yml --\nmembers: [{manifest: a.yml, state: loop.json}]\n-- a.yml --\n")
	if err := os.Symlink("loop.json", filepath.Join(dir, "loop.json")); err != nil {
		t.Skip(err)
	}
	if _, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{}, Outside{}); err == nil || !strings.Contains(err.Error(), "is a link that leads to itself") {
		t.Error(err)
	}
}

func TestNameOfFile(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/x/shop.yml": "shop", "my shop & co.yaml": "my-shop-co", ".yml": "fleet", "failed.yml": "fleet", "-v": "v", "é": "fleet",
		strings.Repeat("a", 200) + ".yml": strings.Repeat("a", longestName),
	} {
		if got := nameOf(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}
