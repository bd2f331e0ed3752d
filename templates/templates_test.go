package templates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/artifact"
)

// start returns an engine that ends with the test.
func start(t testing.TB, cfg Config) *Engine {
	t.Helper()
	e := Start(t.Context(), cfg)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// newJob creates a job with the given templates; "monit" is its monit file.
func newJob(t testing.TB, name string, files map[string]string, properties ...artifact.Property) Job {
	t.Helper()
	dir := t.TempDir()
	job := Job{Job: &artifact.Job{Release: "rel", Name: name, Dir: dir, Properties: properties}}
	if _, ok := files["monit"]; !ok {
		put(t, filepath.Join(dir, "monit"), "")
	}
	for source, text := range files {
		if source == "monit" {
			put(t, filepath.Join(dir, source), text)
			continue
		}
		put(t, filepath.Join(dir, "templates", source), text)
		job.Templates = append(job.Templates, artifact.Template{Source: source, Destination: strings.TrimSuffix(source, ".erb")})
	}
	slices.SortFunc(job.Templates, func(a, b artifact.Template) int { return strings.Compare(a.Source, b.Source) })
	return job
}

func put(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, name ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(name...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// sample contains properties of every kind.
func sample() (Context, []artifact.Property) {
	c := Context{
		Name: "group", Index: 3, ID: "id-1", AZ: "z1", Bootstrap: true, Deployment: "dep", Address: "10.1.2.3",
		Networks:         map[string]any{"private": map[string]any{"ip": "10.1.2.3", "dns_record_name": "d", "default": []any{"dns", "gateway"}}},
		PersistentDisk:   new(64),
		GlobalProperties: map[string]any{"a": map[string]any{"global": "g", "both": "g"}},
		ClusterProperties: map[string]any{
			"a":      map[string]any{"both": "c", "list": []any{1, 2.5, "x", map[string]any{"k": "v"}}, "off": false, "null": nil, "undeclared": 1},
			"number": 1.0, "big": uint64(18446744073709551615), "text": "ünï\n\"q\" #{x}", "yaml": map[any]any{1: "one", "two": map[any]any{true: nil}},
			"scalar": "abc", "hash": "sha",
			"own": map[string]any{"display": 1, "method": "GET", "presence": true, "then": 2, "format": "json", "class": "c"},
		},
		Links: map[string]any{"db": map[string]any{
			"address": "db.internal", "properties": map[string]any{"port": 5432, "tls": map[string]any{"on": true}},
			"instances": []any{
				map[string]any{"name": "db", "id": "i0", "index": 0, "az": "z1", "address": "10.0.0.7", "bootstrap": true},
				map[string]any{"properties": map[string]any{"disk": map[string]any{"size": 7}}},
			},
		}},
		ReleaseVersion: "1.2", PropertiesPath: "cloud_provider.properties",
	}
	var properties []artifact.Property
	for _, p := range []struct {
		name string
		def  any
	}{
		{"a.both", nil}, {"a.global", "default"}, {"a.list", nil}, {"a.null", "default"}, {"a.off", true}, {"a.unset", nil},
		{"big", nil}, {"defaulted", map[string]any{"x": []any{"y"}}}, {"hash", nil}, {"number", nil}, {"own", nil}, {"scalar", nil}, {"scalar.deeper", "d"},
		{"text", nil}, {"yaml", nil},
	} {
		properties = append(properties, artifact.Property{Name: p.name, Default: p.def})
	}
	return c, properties
}

func TestContext(t *testing.T) {
	t.Parallel()
	each(t, testContext)
}

func testContext(t *testing.T, cfg Config) {
	tests := []struct{ name, template, want string }{
		{"p", `<%= p("a.both") %> <%= p("a.global") %> <%= p("a.off") %> <%= p("a.null") %> <%= p("defaulted").to_a %>`, `c g false default [["x", ["y"]]]`},
		{"p of several", `<%= p(["a.unset", "a.both"]) %>`, "c"},
		{"p with default", `<%= p("a.unset", "d") %>|<%= p("a.unset", nil).inspect %>|<%= p(%w[nope a.unset], 7) %>`, "d|nil|7"},
		{"p below a scalar", `<%= p("scalar.b", "none") %> <%= p("scalar") %>`, "none abc"},
		{"p of undeclared", `<%= p("a.undeclared", "none") %>`, "none"},
		{"if_p", `<% if_p("a.both", "number") do |x, y| %><%= x %><%= y %><% end.else do %>no<% end %>`, "c1"},
		{"if_p else", `<% if_p("a.both", "a.unset") do |x, y| %>yes<% end.else do %>no<% end %>`, "no"},
		{"if_p else_if_p", `<% if_p("a.unset") do %>1<% end.else_if_p("scalar") do |s| %><%= s %><% end.else do %>3<% end %>`, "abc"},
		{"if_p done", `<% if_p("scalar") do %>1<% end.else_if_p("scalar") do |s| %>2<% end.else do %>3<% end %>`, "1"},
		{"if_p false", `<% if_p("a.off") do |x| %><%= x %><% end %>`, "false"},
		{"if_p else_if_link", `<% if_p("a.unset") do %>1<% end.else_if_link("db") do |l| %><%= l.p("port") %><% end %>`, "5432"},
		{"link", `<% l = link("db") %><%= l.p("port") %> <%= l.p("nope", 1) %> <%= l.address %> <%= l.properties["tls"]["on"] %> <%= l.instances.map { |i| [i.name, i.id, i.index, i.az, i.address, i.bootstrap, i.p("port", 1)].join(",") }.join(";") %>`,
			"5432 1 db.internal true db,i0,0,z1,10.0.0.7,true,1;,,,,,,1"},
		{"link instances", `<% i = link("db").instances[1] %><%= i.properties.map { |k, v| "#{k}=#{v.to_a}" }.join %> <%= i.properties.fetch("disk").keys.inspect %> <%= i.properties.key?("x") %> <%= i.p("disk.size") %> <% i.if_p("x") do %>x<% end.else_if_p("disk.size") do |s| %><%= s %><% end %> <%= link("db").instances[0].properties.inspect %>`,
			`disk=[["size", 7]] ["size"] false 7 7 nil`},
		{"lookup_property", `<%= lookup_property(raw_properties, "a.both") %> <%= lookup_property({"a" => {"b" => false}}, "a.b") %> <%= lookup_property({}, "a.b").inspect %> <%= lookup_property(nil, "a").inspect %> <%= link("db").lookup_property({"x" => 1}, "x") %>`,
			"c false nil nil 1"},
		{"other helpers", `<% h = {}; set_property(h, "b.x", 1); copy_property(h, {"q" => {"r" => 2}}, "q.r"); copy_property(h, {}, "a", 3) %><%= h.to_json %> <%= sort_property(h).to_json %>`,
			`{"b":{"x":1},"q":{"r":2},"a":3} {"a":3,"b":{"x":1},"q":{"r":2}}`},
		{"blank", `<%= ["", " \u00a0\n", "a", nil, [], {}, [nil], 0, false, true, :a, properties, "\xff"].map(&:blank?).inspect %> <%= "a".presence %> <%= "".presence.inspect %> <%= nil.present? %>`,
			"[true, true, false, true, true, true, false, false, true, false, false, false, false] a nil false"},
		{"versions", `<%= Gem::Version.new("1.10") > Gem::Version.new("1.9") %> <%= Gem::Requirement.new("~> 2.1").satisfied_by?(Gem::Version.new("2.3")) %>`, "true true"},
		{"properties that hide methods", `<%= [properties.hash, properties.own.display, properties.own.method, properties.own.presence, properties.own.then, properties.own.format, properties.own.class].inspect %>`,
			`["sha", 1, "GET", true, 2, "json", "c"]`},
		{"link if_p", `<% link("db").if_p("tls.on") do |on| %><%= on %><% end.else do %>no<% end %>`, "true"},
		{"if_link", `<% if_link("db") do |l| %><%= l.instances.length %><% end.else do %>no<% end %>`, "2"},
		{"if_link else", `<% if_link("x") do |l| %>1<% end.else_if_link("y") do |l| %>2<% end.else_if_p("scalar") do |s| %><%= s %><% end.else do %>no<% end %>`, "abc"},
		{"spec", `<%= [spec.name, spec.id, spec.index, spec.address, spec.ip, spec.az, spec.bootstrap, spec.deployment, spec.release.name, spec.release.version, spec.job.name].inspect %>`,
			`["group", "id-1", 3, "10.1.2.3", "10.1.2.3", "z1", true, "dep", "rel", "1.2", "job"]`},
		{"spec networks", `<%= spec.networks.private.ip %> <%= spec.networks.methods(false).grep(/[^=]$/).first %> <%= spec.networks.to_h.values.first.default.inspect %>`, `10.1.2.3 private ["dns", "gateway"]`},
		{"spec disk", `<%= spec.persistent_disk %>`, "64"},
		{"spec unknown", `<%= spec.nope.inspect %>`, "nil"},
		{"name and index", `<%= name %>/<%= index %>`, "job/3"},
		{"properties", `<%= properties.a.both %> <%= properties.nope.inspect %> <%= properties.a.undeclared.inspect %> <%= properties.a.list[3].k %> <%= properties.respond_to?(:a) %> <%= properties.a.respond_to?(:x) %>`,
			"c nil nil v true false"},
		{"properties set", `<% properties.a.both = {"n" => 1} %><%= properties.a.both.n %> <%= p("a.both") %>`, "1 c"},
		{"properties as a hash", `<%= properties.a[:both] %> <%= properties.a.dig(:list, 0) %> <%= properties.defaulted.to_json %>`, `c 1 {"x":["y"]}`},
		{"properties as an OpenStruct", `<%= properties.own.each_pair.map { |k, _| k }.join(" ") %> <%= properties.own.each_pair.size %> <%= properties.own.each_pair { |k, v| v }.equal?(properties.own) %> <%= properties.a.to_h { |k, v| [k.to_s, v.class] }.map { |k, v| "#{k}=#{v}" }.join(" ") %>`,
			`class display format method presence then 6 true both=String global=String list=Array null=String off=FalseClass unset=NilClass`},
		{"properties compared", `<%= [properties.own == properties.own.dup, properties.own.eql?(properties.a), properties.own == properties.own.to_h, [properties.own, properties.own.dup].uniq.size, properties.dig(:a, "x"), properties.dig("a", :both), properties["a"]["both"], properties.respond_to?(:each_pair), properties.nope&.bar, properties.a.delete_field(:both), properties.a.both, properties.delete_field("nope") { 1 }].inspect %>`,
			`[true, false, false, 1, nil, "c", "c", true, nil, "c", nil, 1]`},
		{"raw_properties", `<%= raw_properties["a"]["both"] %>`, "c"},
		{"numbers", `<%= p("number").inspect %> <%= p("big") %> <%= p("a.list")[1].inspect %>`, "1 18446744073709551615 2.5"},
		{"yaml keys", `<%= p("yaml").to_a.flatten.map { |v| v.is_a?(Hash) ? v.to_a : v }.inspect %>`, `["1", "one", "two", [["true", nil]]]`},
		{"JSON.dump", `<%= JSON.dump("a" => p("a.list"), "n" => nil) %> <%= JSON.dump(p("text")) %> <%= JSON.dump(1.50) %> <%= JSON.dump(nil) %>`,
			`{"a":[1,2.5,"x",{"k":"v"}],"n":null} "ünï\n\"q\" \#{x}" 1.5 null`},
		{"to_json", `<%= p("text").to_json %> <%= JSON.pretty_generate(p("a.list")[3]) %>`, "\"ünï\\n\\\"q\\\" #{x}\" {\n  \"k\": \"v\"\n}"},
		{"yaml", `<%= YAML.dump(p("a.list")[3]) %><%= p("a.list").to_yaml %>`, "---\nk: v\n---\n- 1\n- 2.5\n- x\n- k: v\n"},
		{"require", `<% require "base64"; require "digest"; require "shellwords" %><%= Base64.strict_encode64(p("scalar")) %> <%= Digest::SHA1.hexdigest("") %> <%= Shellwords.escape("a b") %>`,
			`YWJj da39a3ee5e6b4b0d3255bfef95601890afd80709 a\ b`},
		{"rescue", `<% begin; p("a.unset"); rescue UnknownProperty => e %><%= e.message %><% end %>`, "Can't find property 'a.unset'"},
		{"methods and constants", "<% LIMIT = 3\ndef twice(x) x * 2 end %><%= twice(LIMIT) %> <%= twice(p('scalar')) %>", "6 abcabc"},
	}
	c, properties := sample()
	files := map[string]string{}
	for i, test := range tests {
		files[fmt.Sprintf("%03d", i)] = test.template
	}
	job := newJob(t, "job", files, properties...)
	job.Context = c
	dir := t.TempDir()
	if err := start(t, cfg).Render(t.Context(), []Job{job}, dir); err != nil {
		t.Fatal(err)
	}
	for i, test := range tests {
		if got := read(t, dir, "job", fmt.Sprintf("%03d", i)); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestDefaultsOfContext(t *testing.T) {
	t.Parallel()
	each(t, testDefaultsOfContext)
}

func testDefaultsOfContext(t *testing.T, cfg Config) {
	text := `<%= [spec.name, spec.az, spec.bootstrap, spec.address, spec.ip, spec.networks.default.ip, spec.id, if_link("x") {}.else { 1 }].inspect %>`
	one, two := newJob(t, "one", map[string]string{"f": text}), newJob(t, "two", map[string]string{"f": text})
	dir := t.TempDir()
	if err := start(t, cfg).Render(t.Context(), []Job{one, two}, dir); err != nil {
		t.Fatal(err)
	}
	got := read(t, dir, "one", "f")
	if !strings.HasPrefix(got, `["one", "unknown", false, nil, nil, "", "`) || !strings.HasSuffix(got, `", 1]`) {
		t.Errorf("got %s", got)
	}
	if id := strings.Split(got, `"`)[7]; len(id) != 36 || !strings.Contains(read(t, dir, "two", "f"), id) {
		t.Errorf("the id %q is not that of both jobs", id)
	}
}

// TestOtherFacts renders the same jobs again after their properties have changed.
func TestOtherFacts(t *testing.T) {
	t.Parallel()
	each(t, testOtherFacts)
}

func testOtherFacts(t *testing.T, cfg Config) {
	e := start(t, cfg)
	jobs := []Job{newJob(t, "job", map[string]string{"f": "<%= spec.address %>", "monit": "<%= spec.address %>"})}
	for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
		jobs[0].Context.Address = address
		dir := t.TempDir()
		if err := e.Render(t.Context(), jobs, dir); err != nil {
			t.Fatal(err)
		}
		if got := read(t, dir, "job", "f") + read(t, dir, "job", "monit"); got != address+address {
			t.Errorf("got %q", got)
		}
	}
}

func TestLayersOfProperties(t *testing.T) {
	t.Parallel()
	each(t, testLayersOfProperties)
}

func testLayersOfProperties(t *testing.T, cfg Config) {
	property := artifact.Property{Name: "a.b", Default: "default"}
	tests := map[string]struct {
		global, cluster, job map[string]any
		want                 string
	}{
		"none":                     {nil, nil, nil, "default"},
		"global alone":             {map[string]any{"a": map[string]any{"b": "g"}}, nil, nil, "g"},
		"cluster wins":             {map[string]any{"a": map[string]any{"b": "g"}}, map[string]any{"a": map[string]any{"b": "c"}}, nil, "c"},
		"cluster without it":       {map[string]any{"a": map[string]any{"b": "g"}}, map[string]any{"a": map[string]any{"c": "c"}}, nil, "g"},
		"cluster null":             {map[string]any{"a": map[string]any{"b": "g"}}, map[string]any{"a": nil}, nil, "default"},
		"cluster replaces by text": {map[string]any{"a": map[string]any{"b": "g"}}, map[string]any{"a": "text"}, nil, "default"},
		"job hides":                {map[string]any{"a": map[string]any{"b": "g"}}, map[string]any{"a": map[string]any{"b": "c"}}, map[string]any{}, "default"},
		"job":                      {nil, map[string]any{"a": map[string]any{"b": "c"}}, map[string]any{"a": map[string]any{"b": "j"}}, "j"},
		"job null":                 {nil, nil, map[string]any{"a": map[string]any{"b": nil}}, "default"},
	}
	e := start(t, cfg)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, "job", map[string]string{"f": `<%= p("a.b") %>`}, property)
			job.Context = Context{GlobalProperties: test.global, ClusterProperties: test.cluster, JobProperties: test.job}
			dir := t.TempDir()
			if err := e.Render(t.Context(), []Job{job}, dir); err != nil {
				t.Fatal(err)
			}
			if got := read(t, dir, "job", "f"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestSyntax compares the output with that of ERB itself.
func TestSyntax(t *testing.T) {
	t.Parallel()
	each(t, testSyntax)
}

func testSyntax(t *testing.T, cfg Config) {
	texts := []string{
		"a\n<% if true -%>\nb\n<% end -%>\nc\n", "a\n  <%- if true -%>\n  b\n  <%- end -%>\nc", "<%# comment -%>\nx<%# y %>\n",
		"<%% no %> %%> <%= 1 %>\n", "<%=\n1\n%>\n\n", "\r\n<% x = 1 %>\r\n<%= x -%>\r\n", "% line\n<%= 1 %>",
		"<% 3.times do |i| %>\n<%= i %>,\n<% end %>", "<%= \"ü\" %> ß\n", "\ufeff<%= 1 %>", "<% _erbout << 'x' %>", "<%= nil %><%= [] %>", "<%=1-%>\n\n",
		"\x00<%= 1 %>\x01",
	}
	files := map[string]string{}
	for i, text := range texts {
		files[fmt.Sprint(i)] = text
	}
	dir := t.TempDir()
	if err := start(t, cfg).Render(t.Context(), []Job{newJob(t, "job", files)}, dir); err != nil {
		t.Fatal(err)
	}
	in, _ := json.Marshal(texts)
	cmd := exec.Command(native(t).Ruby, "-EUTF-8", "-rerb", "-rjson", "-e",
		`print JSON.generate(JSON.parse(STDIN.read).map { |text| ERB.new(text, trim_mode: "-").result })`)
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if got := read(t, dir, "job", fmt.Sprint(i)); got != want[i] {
			t.Errorf("%q became %q, want %q", text, got, want[i])
		}
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	each(t, testBytes)
}

func testBytes(t *testing.T, cfg Config) {
	job := newJob(t, "job", map[string]string{"latin": "\xe4<%= 1 + 1 %>\xff", "binary": "\x00\xff\xfe -%> %> %%>", "made": "<%= [255, 0].pack('C*') %>"})
	dir := t.TempDir()
	if err := start(t, cfg).Render(t.Context(), []Job{job}, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"latin": "\xe42\xff", "binary": "\x00\xff\xfe -%> %> %%>", "made": "\xff\x00"} {
		if got := read(t, dir, "job", name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	e := start(t, Config{Env: []string{}})
	job := newJob(t, "job", map[string]string{"bin/ctl": "a", "bin/deep/er": "b", "config/x.yml": "c", "binary": "d", "monit": "check"})
	dir := filepath.Join(t.TempDir(), "new", "rendered")
	put(t, filepath.Join(dir, "job", "stale"), "x")
	put(t, filepath.Join(dir, "other", "kept"), "x")
	if err := e.Render(t.Context(), []Job{job}, dir); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := filepath.WalkDir(filepath.Join(dir, "job"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		rel, _ := filepath.Rel(dir, path)
		got = append(got, info.Mode().String()+" "+filepath.ToSlash(rel))
		return err
	})
	want := []string{
		"drwx------ job", "drwx------ job/bin", "-rwx------ job/bin/ctl", "drwx------ job/bin/deep", "-rwx------ job/bin/deep/er",
		"-rw------- job/binary", "drwx------ job/config", "-rw------- job/config/x.yml", "-rw------- job/monit",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, got\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if read(t, dir, "other", "kept") != "x" {
		t.Error("another job was touched")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	e := start(t, Config{})
	good := newJob(t, "job", nil)
	source, destination := newJob(t, "job", nil), newJob(t, "job", nil)
	source.Templates = []artifact.Template{{Source: "../../x", Destination: "x"}}
	destination.Templates = []artifact.Template{{Source: "x", Destination: "../../../x"}}
	missing, monit := newJob(t, "job", nil), newJob(t, "job", nil)
	missing.Templates = []artifact.Template{{Source: "gone", Destination: "x"}}
	file := filepath.Join(monit.Dir, "monit")
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	named := newJob(t, "../job", nil)
	for name, test := range map[string]struct {
		jobs []Job
		want string
	}{
		"source leaves":      {[]Job{source}, "leaves the job's folder"},
		"destination leaves": {[]Job{destination}, "leaves the job's folder"},
		"template missing":   {[]Job{missing}, "cannot read template 'gone' of job 'job' of release 'rel'"},
		"monit a folder":     {[]Job{monit}, "cannot read template 'monit'"},
		"job name":           {[]Job{named}, "cannot be a file name"},
		"twice":              {[]Job{good, good}, "given twice"},
	} {
		dir := t.TempDir()
		if err := e.Render(t.Context(), test.jobs, dir); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: something was written", name)
		}
	}
	closed := Start(t.Context(), Config{})
	_ = closed.Close()
	if err := closed.Render(t.Context(), []Job{good}, t.TempDir()); err == nil {
		t.Error("a closed engine renders")
	}
}

func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	each(t, testTwoAtOnce)
}

func testTwoAtOnce(t *testing.T, cfg Config) {
	e := start(t, cfg)
	var group sync.WaitGroup
	for i := range 4 {
		job := newJob(t, "job", map[string]string{"f": fmt.Sprintf("<%% %d %%>%d <%%= name %%>", i, i)})
		dir := t.TempDir()
		group.Go(func() {
			if err := e.Render(t.Context(), []Job{job}, dir); err != nil {
				t.Error(err)
			} else if got := read(t, dir, "job", "f"); got != fmt.Sprintf("%d job", i) {
				t.Errorf("got %q", got)
			}
		})
	}
	group.Wait()
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	each(t, testCancelled)
}

func testCancelled(t *testing.T, cfg Config) {
	cause := errors.New("stopped by the test")
	e := start(t, cfg)
	job := newJob(t, "job", map[string]string{"f": "<% loop {} %>"})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Render(ctx, []Job{job}, t.TempDir()) }()
	// The cancellation may come while Ruby starts.
	stop := time.AfterFunc(500*time.Millisecond, func() { cancel(cause) })
	defer stop.Stop()
	if err := <-done; !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	if err := e.Render(ctx, []Job{job}, t.TempDir()); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "b", "x"), "bc")
	put(t, filepath.Join(dir, "a"), "a")
	got, err := Fingerprint(dir)
	if err != nil || got != "a9993e364706816aba3e25717850c26c9cd0d89d" { // the SHA-1 of "abc"
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := Fingerprint(filepath.Join(dir, "nope")); err == nil {
		t.Error("a missing folder has a fingerprint")
	}
}
