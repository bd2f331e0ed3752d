package templates

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"bootstrap/artifact"
)

// fails renders one template and returns its failure.
func fails(t *testing.T, e *Engine, text string) *Failure {
	t.Helper()
	c, properties := sample()
	c.ClusterProperties["password"] = "s3cret-Pass\nword"
	job := newJob(t, "job", map[string]string{"config/x.erb": text}, append(properties, artifact.Property{Name: "password"})...)
	job.Context = c
	var failures *Failures
	if err := e.Render(t.Context(), []Job{job}, t.TempDir()); !errors.As(err, &failures) || len(*failures) != 1 {
		t.Fatalf("%s: got %v", text, err)
	}
	return (*failures)[0]
}

func TestFailures(t *testing.T) {
	t.Parallel()
	each(t, testFailures)
}

func testFailures(t *testing.T, cfg Config) {
	tests := map[string]struct{ template, want string }{
		"property":           {"a\n<%= p('a.unset') %>", ", line 2, in <%= p('a.unset') %>: property 'a.unset' has no value: set it at cloud_provider.properties.a.unset"},
		"one of two":         {"<%= p(%w[a.unset b.c]) %>", ", line 1, in <%= p(%w[a.unset b.c]) %>: property 'a.unset' or 'b.c' has no value: set it at cloud_provider.properties.a.unset"},
		"undeclared":         {"x <% if true %><%= p('b.c') %><% end %> ", ", line 1, in x <% if true %><%= p('b.c') %><% end %>: property 'b.c' has no value: the job's spec does not declare 'b.c', so the manifest cannot set it"},
		"below a declared":   {"<%= p('defaulted.q') %>", ": property 'defaulted.q' has no value: set it at cloud_provider.properties.defaulted.q"},
		"link":               {"<% link('nope') %>", ": there is no link 'nope': the job's spec does not consume it, so the manifest cannot give it"},
		"below a list":       {"<%= p('a.list.x', 'none') %>", ", in <%= p('a.list.x', 'none') %>: property 'a.list' is a list, so it has no 'x' (TypeError)"},
		"below a number":     {"<% if_p('number.x') {}.else {} %>", ": property 'number' is a number, so it has no 'x' (TypeError)"},
		"below a boolean":    {"<%= lookup_property({'a' => {'b' => false}}, 'a.b.c.d') %>", ": property 'a.b' is a boolean, so it has no 'c' (TypeError)"},
		"link property":      {"<%= link('db').p('tls.off') %>", ": link 'db' has no value for property 'tls.off': set it at consumes.db.properties.tls.off"},
		"instance property":  {"<%= link('db').instances[0].p(%w[port x]) %>", ": an instance of link 'db' has no value for property 'port' or 'x': an instance has only the properties that consumes.db.instances of the manifest give it"},
		"instance method":    {"<%= link('db').instances[0].port %>", ": undefined method 'port' for an instance of BootstrapTemplates::Link::Instance (NoMethodError)"},
		"link method":        {"<%= link('db').port %>", ": undefined method 'port' for an instance of BootstrapTemplates::Link (NoMethodError)"},
		"raise":              {"\n\n<% raise 'two words' %>", ", line 3, in <% raise 'two words' %>: two words"},
		"nil":                {"<%= properties.nope.name %>", ": undefined method 'name' for nil (NoMethodError)"},
		"method of a text":   {"<%= p('password').nope %>", ": undefined method 'nope' for an instance of String (NoMethodError)"},
		"unknown name":       {"<%= nope %>", ": undefined local variable or method 'nope' (NameError)"},
		"unknown method":     {"<%= nope() %>", ": undefined method 'nope' for the template (NoMethodError)"},
		"unknown constant":   {"<%= Nope %>", ": uninitialized constant 'Nope' (NameError)"},
		"in a block":         {"<% [1].each do |x| %>\n<%= x.nope %>\n<% end %>", ", line 2, in <%= x.nope %>: undefined method 'nope' for an instance of Integer (NoMethodError)"},
		"over lines":         {"<%=\n  [\n p('a.unset'),\n] %>", ", line 3, in p('a.unset'),: property"},
		"in a library":       {"\n<%= JSON.parse('{').x %>", ", line 2, in"},
		"value in a message": {"<% raise \"bad #{p('password')}.\" %>", ": bad <value of password>."},
		"inspected value":    {"<% raise \"bad #{[p('password')].inspect}.\" %>", ": bad [\"<value of password>\"]."},
		"value of Integer":   {"<%= Integer(p('password')) %>", ": invalid value for Integer(): \"<value of password>\" (ArgumentError)"},
		"value in a parser":  {"<%= JSON.parse('[1, ' + p('password')) %>", ", line 1, in"},
		"exit":               {"<% exit 0 %>", ": exit (SystemExit)"},
		"abort":              {"<% abort 'over' %>", ": over (SystemExit)"},
		"throw":              {"<% throw :x %>", ": uncaught throw :x (UncaughtThrowError)"},
		"no end of stack":    {"<% def f; f; end; f %>", ": stack level too deep (SystemStackError)"},
		"exit!":              {"<% exit! 3 %>", ": the template ended Ruby (exit status 3)"},
		"exit! well":         {"<% exit! true %>", ": the template ended Ruby (exit status 0)"},
		"syntax":             {"a\n<% if %>\nb", ", line "},
		"syntax of end":      {"a\n<% if true %>\nb", ", line 3, in b: syntax error"},
	}
	if cfg.embedded() {
		const programs = ": the embedded Ruby starts no programs"
		for name, template := range map[string]string{
			"system": "system('ls')", "backticks": "`ls`", "spawn": "spawn('ls')", "exec": "exec('ls')", "popen": "IO.popen('ls')",
			"Process.spawn": "Process.spawn('ls')", "Kernel.system": "Kernel.system('ls')", "open3": "require 'open3'; Open3.capture2('ls')",
			"fork": "fork {}", "Process.fork": "Process.fork", "kill": "Process.kill(:KILL, Process.pid)", "open": "open('|ls')", "daemon": "Process.daemon",
			"%x": "%x(ls)", "Kernel.exec": "Kernel.exec('ls')", "pipe": "IO.pipe",
		} {
			tests[name] = struct{ template, want string }{"<% " + template + " %>", programs}
		}
		tests["file"] = struct{ template, want string }{"<%= File.read('/etc/hosts') %>", ": No such file or directory @ rb_sysopen - /etc/hosts (Errno::ENOENT): the embedded Ruby cannot access this machine: use --ruby PATH"}
		tests["library"] = struct{ template, want string }{"<% require 'pg' %>", ": cannot load such file -- pg (LoadError): the embedded Ruby has no such library: use --ruby PATH"}
		tests["thread"] = struct{ template, want string }{"<% Thread.new { 1 }.value %>", ": the embedded Ruby has no threads: use --ruby PATH"}
		tests["network"] = struct{ template, want string }{"<% require 'socket'; TCPSocket.new('localhost', 80) %>", ": the embedded Ruby has no network: use --ruby PATH"}
		tests["host name"] = struct{ template, want string }{"<% require 'socket'; Socket.gethostname %>", ": the embedded Ruby has no network: use --ruby PATH"}
		tests["memory"] = struct{ template, want string }{"<% x = 'x' * (1 << 30) %>", ": failed to allocate memory (NoMemoryError)"}
	} else {
		tests["kill"] = struct{ template, want string }{"<% Process.kill(:KILL, Process.pid); sleep %>", ": the template ended Ruby (signal: killed)"}
	}
	e := start(t, cfg)
	for name, test := range tests {
		got := fails(t, e, test.template).Error()
		if !strings.HasPrefix(got, "template 'config/x.erb' of job 'job' of release 'rel'") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, test.want)
		}
		if strings.Contains(got, "s3cret") || strings.Contains(got, "Pass") {
			t.Errorf("%s: the secret is in %s", name, got)
		}
	}
}

// TestAllFailures checks that one failing template does not hide others, that
// the report contains all, and that nothing is written.
func TestAllFailures(t *testing.T) {
	t.Parallel()
	each(t, testAllFailures)
}

func testAllFailures(t *testing.T, cfg Config) {
	one := newJob(t, "one", map[string]string{"a": "<%= 1 %>", "b": "<% exit! %>", "c": "<%= p('x.y') %>", "monit": "<% nope %>"}, artifact.Property{Name: "x.y"})
	two := newJob(t, "two", map[string]string{"d": "<%= p('x') %>", "e": "<%= 1 %>"})
	dir := t.TempDir()
	err := start(t, cfg).Render(t.Context(), []Job{one, two}, dir)
	var failures *Failures
	if !errors.As(err, &failures) {
		t.Fatal(err)
	}
	var got []string
	for _, f := range *failures {
		got = append(got, f.Job+"/"+f.Template)
	}
	if want := "one/monit one/b one/c two/d"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if text := err.Error(); !strings.HasPrefix(text, "cannot render 4 templates:\n  template 'monit' of") || !strings.Contains(text, "set it at properties.x.y") {
		t.Error(text)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Error("something was written")
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	each(t, testTimeout)
}

func testTimeout(t *testing.T, cfg Config) {
	endless := []string{"<% loop {} %>"}
	if !testing.Short() || !cfg.embedded() { // see the function whole
		endless = append(endless, "<% sleep %>")
	}
	if !cfg.embedded() {
		endless = append(endless, "<% system('sleep 600') %>", "<% Process.detach(spawn('sleep 600')).join %>")
	}
	cfg.Timeout = time.Second
	e := start(t, cfg)
	e.Warm()
	for _, text := range endless {
		if got := fails(t, e, text); !strings.HasSuffix(got.Message, "it took longer than 1s and was stopped") {
			t.Errorf("%s: %v", text, got)
		}
	}
	// The next template is rendered by a new Ruby.
	dir := t.TempDir()
	if err := e.Render(t.Context(), []Job{newJob(t, "job", map[string]string{"f": "<%= 1 %>"})}, dir); err != nil {
		t.Error(err)
	}
}

// TestIntruders has templates that disturb the protocol or other templates.
func TestIntruders(t *testing.T) {
	t.Parallel()
	each(t, testIntruders)
}

func testIntruders(t *testing.T, cfg Config) {
	whole(t, cfg)
	type template struct{ text, want string }
	templates := map[string]template{
		"01": {"<% puts 'x'; $stdout.print 'y'; STDOUT.syswrite 'z'; STDOUT.flush %>1", "1"},
		"02": {"<% STDERR.puts 'x' * 100_000 %>2", "2"},
		"03": {"<%= STDIN.read.inspect %> <%= gets.inspect %>", `"" nil`},
		"04": {"<% $stdout = StringIO.new; $stdin = nil; $/ = 'q'; $, = nil %>4", "4"},
		"05": {"<% X = 1\ndef helper; 5; end\n@state = 1; properties.a.both = 'changed'; p('a.list') << 9; raw_properties.clear %><%= helper %>", "5"},
		"06": {"<%= defined?(X).inspect %> <%= respond_to?(:helper, true) %> <%= @state.inspect %> <%= p('a.both') %> <%= p('a.list').length %>", "nil false nil c 4"},
		"07": {"<% class String; def shout; upcase; end; end %><%= 'a'.respond_to?(:shout) %>", "false"},
		"08": {"<% at_exit { puts 'bye' } %>8", "8"},
		"11": {"<% $list = [1]; $; = 'x'; $, = 'y'; ENV['X'] = '1'; $stderr = StringIO.new; $VERBOSE = true %>11", "11"},
		"12": {"<%= [$list, $;, $,, ENV['X'], $stderr.equal?(STDERR), $VERBOSE].inspect %>", "[nil, nil, nil, nil, true, nil]"},
		"13": {"<% require 'English'; $list ||= 0 %><%= $list %> <%= $ERROR_INFO.inspect %>", "0 nil"},
		"14": {"<%= $list.inspect %> <%= $PROGRAM_NAME == $0 %>", "nil true"},
		"10": {"<%= __FILE__.end_with?('templates/10') %> <%= __LINE__ %>", "true 1"},
	}
	if !cfg.embedded() {
		templates["09"] = template{"<% fork { exit! } ; Process.wait; system('echo w'); Dir.chdir('/') %>9", "9"}
	}
	files := map[string]string{}
	for name, template := range templates {
		files[name] = template.text
	}
	job := newJob(t, "job", files)
	job.Context, job.Properties = sample()
	dir := t.TempDir()
	if err := start(t, cfg).Render(t.Context(), []Job{job}, dir); err != nil {
		t.Fatal(err)
	}
	for name, template := range templates {
		if got := read(t, dir, "job", name); got != template.want {
			t.Errorf("%s: got %q, want %q", name, got, template.want)
		}
	}
}

func TestNoRuby(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	plainJob := newJob(t, "job", map[string]string{"f": "no tag"})
	e := start(t, Config{Env: []string{"PATH=" + empty}})
	if err := e.Render(t.Context(), []Job{plainJob}, t.TempDir()); err != nil {
		t.Errorf("a template without tags needs Ruby: %v", err)
	}
	err := e.Render(t.Context(), []Job{newJob(t, "job", map[string]string{"f": "<%= 1 %>"})}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "template 'f' of job 'job' of release 'rel'") || !strings.Contains(err.Error(), "install one, 2.6") {
		t.Errorf("got %v", err)
	}
}

// TestUnfitRuby has programs that are no usable Ruby.
func TestUnfitRuby(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	shadow := t.TempDir()
	put(t, filepath.Join(shadow, "erb.rb"), "raise LoadError, 'cannot load such file -- erb'")
	tests := map[string]struct{ script, want string }{
		"old":        {`echo '{"ruby":"2.3.8","missing":""}'; cat`, "Ruby 2.3.8"},
		"no library": {`exec ruby -I ` + shadow + ` "$@"`, "lacks its library 'erb': install it"},
		"garbage":    {`echo hello`, "does not work as a Ruby"},
		"fails":      {`echo "no such version" >&2; exit 1`, `exit status 1): "no such version"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(test.script, "ruby ") {
				native(t)
			}
			path := filepath.Join(t.TempDir(), "ruby")
			put(t, path+".sh", "#!/bin/sh\n"+test.script+"\n")
			// A child of another test may still have the file open that this process
			// wrote.
			if err := exec.Command("/bin/sh", "-c", `cp "$1" "$2" && chmod 700 "$2"`, "sh", path+".sh", path).Run(); err != nil {
				t.Fatal(err)
			}
			e := start(t, Config{Ruby: path})
			err := e.Render(t.Context(), []Job{newJob(t, "job", map[string]string{"f": "<%= 1 %>"})}, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	e := start(t, Config{Ruby: filepath.Join(shadow, "nope")})
	err := e.Render(t.Context(), []Job{newJob(t, "job", map[string]string{"f": "<%= 1 %>"})}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "cannot start Ruby") {
		t.Errorf("got %v", err)
	}
}

// TestKilledBetween kills Ruby between two templates, which is not an error in a
// template.
func TestKilledBetween(t *testing.T) {
	t.Parallel()
	each(t, testKilledBetween)
}

func testKilledBetween(t *testing.T, cfg Config) {
	e := start(t, cfg)
	job := newJob(t, "job", map[string]string{"f": "<%= name %>"})
	for range 2 {
		dir := t.TempDir()
		if err := e.Render(t.Context(), []Job{job}, dir); err != nil {
			t.Fatal(err)
		}
		if got := read(t, dir, "job", "f"); got != "job" {
			t.Errorf("got %q", got)
		}
		if err := e.ruby.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		// Its pipes are certainly closed only after its end.
		_, _ = e.ruby.cmd.Process.Wait()
	}
}

// TestEnvironment checks that variables that change Ruby's behaviour are not passed on.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	ruby := native(t).Ruby
	e := start(t, Config{Env: []string{"PATH=" + filepath.Dir(ruby) + ":/bin", "RUBYOPT=-rnope", "SECRET=x", "HOME=/nowhere"}})
	dir := t.TempDir()
	if err := e.Render(t.Context(), []Job{newJob(t, "job", map[string]string{"f": "<%= ENV.keys.sort.join(' ') %> <%= ''.encoding %> <%= Encoding.default_external %>"})}, dir); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir, "job", "f"); got != "HOME LANG PATH UTF-8 UTF-8" {
		t.Errorf("got %q", got)
	}
}

func TestUnspeakableProperties(t *testing.T) {
	t.Parallel()
	each(t, testUnspeakableProperties)
}

func testUnspeakableProperties(t *testing.T, cfg Config) {
	job := newJob(t, "job", map[string]string{"f": "<%= 1 %>"})
	job.Context.ClusterProperties = map[string]any{"x": func() {}}
	var failures *Failures
	if err := start(t, cfg).Render(t.Context(), []Job{job}, t.TempDir()); !errors.As(err, &failures) || !strings.Contains(fmt.Sprint(err), "cannot be given to Ruby") {
		t.Errorf("got %v", err)
	}
}

// TestMisplacedProperties has values in the manifest where a job's spec needs maps: each
// error is reported once, with its place, even if no template uses the property.
func TestMisplacedProperties(t *testing.T) {
	t.Parallel()
	e := start(t, Config{})
	properties := []artifact.Property{{Name: "a.b", Default: 1}, {Name: "a.c"}, {Name: "d.e.f"}, {Name: "g.h"}, {Name: "text.x", Default: 2}, {Name: "null.x"}}
	job := newJob(t, "job", map[string]string{"f": "no tag"}, properties...)
	job.Context = Context{PropertiesPath: "jobs[0].properties", GlobalProperties: map[string]any{"a": map[any]any{"b": 1}, "text": "t", "null": nil}}
	if err := e.Render(t.Context(), []Job{job}, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	job.Context.ClusterProperties = map[string]any{"a": []any{1}, "d": map[string]any{"e": 5}, "g": true}
	err := e.Render(t.Context(), []Job{job}, t.TempDir())
	const want = `cannot render 3 templates:
  job 'job' of release 'rel': property 'a.b' cannot be read: jobs[0].properties.a is a list, where the job's spec needs a map
  job 'job' of release 'rel': property 'd.e.f' cannot be read: jobs[0].properties.d.e is a number, where the job's spec needs a map
  job 'job' of release 'rel': property 'g.h' cannot be read: jobs[0].properties.g is a boolean, where the job's spec needs a map`
	if fmt.Sprint(err) != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
