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

// waitFor waits until a file is there.
func waitFor(t *testing.T, name string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s does not appear", name)
		}
	}
}

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
	needRuby(t)
	const place = "template 'config/x.erb' of job 'job' of release 'rel'"
	tests := map[string]struct{ template, want string }{
		"property":           {"a\n<%= p('a.unset') %>", place + ", line 2: property 'a.unset' has no value: set it at cloud_provider.properties.a.unset"},
		"one of two":         {"<%= p(%w[a.unset b.c]) %>", place + ", line 1: property 'a.unset' or 'b.c' has no value: set it at cloud_provider.properties.a.unset"},
		"undeclared":         {"<%= p('b.c') %>", place + ", line 1: property 'b.c' has no value: the job's spec does not declare 'b.c', so the manifest cannot set it"},
		"below a declared":   {"<%= p('defaulted.q') %>", place + ", line 1: property 'defaulted.q' has no value: set it at cloud_provider.properties.defaulted.q"},
		"link":               {"<% link('nope') %>", place + ", line 1: there is no link 'nope'"},
		"raise":              {"\n\n<% raise 'two words' %>", place + ", line 3: two words"},
		"nil":                {"<%= properties.nope.name %>", place + ", line 1: undefined method 'name' for nil (NoMethodError)"},
		"method of a text":   {"<%= p('password').nope %>", place + ", line 1: undefined method 'nope' for an instance of String (NoMethodError)"},
		"unknown name":       {"<%= nope %>", place + ", line 1: undefined local variable or method 'nope' (NameError)"},
		"unknown method":     {"<%= nope() %>", place + ", line 1: undefined method 'nope' for the template (NoMethodError)"},
		"unknown constant":   {"<%= Nope %>", place + ", line 1: uninitialized constant 'Nope' (NameError)"},
		"in a block":         {"<% [1].each do |x| %>\n<%= x.nope %>\n<% end %>", place + ", line 2: undefined method 'nope' for an instance of Integer (NoMethodError)"},
		"in a library":       {"\n<%= JSON.parse('{').x %>", place + ", line 2: "},
		"value in a message": {"<% raise \"bad #{p('password')}.\" %>", place + ", line 1: bad <value of password>."},
		"inspected value":    {"<% raise \"bad #{[p('password')].inspect}.\" %>", place + ", line 1: bad [\"<value of password>\"]."},
		"value of Integer":   {"<%= Integer(p('password')) %>", place + ", line 1: invalid value for Integer(): \"<value of password>\" (ArgumentError)"},
		"value in a parser":  {"<%= JSON.parse('[1, ' + p('password')) %>", place + ", line 1: "},
		"exit":               {"<% exit 0 %>", place + ", line 1: exit (SystemExit)"},
		"abort":              {"<% abort 'over' %>", place + ", line 1: over (SystemExit)"},
		"throw":              {"<% throw :x %>", place + ", line 1: uncaught throw :x (UncaughtThrowError)"},
		"no end of stack":    {"<% def f; f; end; f %>", place + ", line 1: stack level too deep (SystemStackError)"},
		"exit!":              {"<% exit! 3 %>", place + ": the template ended Ruby (exit status 3)"},
		"kill":               {"<% Process.kill(:KILL, Process.pid); sleep %>", place + ": the template ended Ruby (signal: killed)"},
		"syntax":             {"a\n<% if %>\nb", place + ", line "},
		"syntax of end":      {"a\n<% if true %>\nb", place + ", line 3: syntax error"},
	}
	e := start(t, Config{})
	for name, test := range tests {
		got := fails(t, e, test.template).Error()
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, test.want)
		}
		if strings.Contains(got, "s3cret") || strings.Contains(got, "Pass") {
			t.Errorf("%s: the secret is in %s", name, got)
		}
	}
}

// TestAllFailures checks that one failing template hides no other, that the
// report has them all, and that nothing is written.
func TestAllFailures(t *testing.T) {
	t.Parallel()
	needRuby(t)
	one := newJob(t, "one", map[string]string{"a": "<%= 1 %>", "b": "<% exit! %>", "c": "<%= p('x.y') %>", "monit": "<% nope %>"}, artifact.Property{Name: "x.y"})
	two := newJob(t, "two", map[string]string{"d": "<%= p('x') %>", "e": "<%= 1 %>"})
	dir := t.TempDir()
	err := start(t, Config{}).Render(t.Context(), []Job{one, two}, dir)
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
	needRuby(t)
	e := start(t, Config{Timeout: time.Second})
	for _, text := range []string{"<% loop {} %>", "<% sleep %>", "<% system('sleep 600') %>", "<% Process.detach(spawn('sleep 600')).join %>"} {
		if got := fails(t, e, text); !strings.HasSuffix(got.Message, "it took longer than 1s and was stopped") {
			t.Errorf("%s: %v", text, got)
		}
	}
	// The next template gets a new Ruby.
	dir := t.TempDir()
	if err := e.Render(t.Context(), []Job{newJob(t, "job", map[string]string{"f": "<%= 1 %>"})}, dir); err != nil {
		t.Error(err)
	}
}

// TestIntruders has templates that disturb the conversation or one another.
func TestIntruders(t *testing.T) {
	t.Parallel()
	needRuby(t)
	job := newJob(t, "job", map[string]string{
		"01": "<% puts 'x'; $stdout.print 'y'; STDOUT.syswrite 'z'; system('echo w'); STDOUT.flush %>1",
		"02": "<% STDERR.puts 'x' * 100_000 %>2",
		"03": "<%= STDIN.read.inspect %> <%= gets.inspect %>",
		"04": "<% $stdout = File.open(File::NULL, 'w'); $stdin = nil; $/ = 'q'; $, = nil %>4",
		"05": "<% X = 1\ndef helper; 5; end\n@state = 1; properties.a.both = 'changed'; p('a.list') << 9; raw_properties.clear %><%= helper %>",
		"06": "<%= defined?(X).inspect %> <%= respond_to?(:helper, true) %> <%= @state.inspect %> <%= p('a.both') %> <%= p('a.list').length %>",
		"07": "<% class String; def shout; upcase; end; end %><%= 'a'.respond_to?(:shout) %>",
		"08": "<% at_exit { puts 'bye' } %>8",
		"09": "<% fork { exit! } ; Process.wait %>9",
		"10": "<% Dir.chdir('/') %><%= __FILE__.end_with?('templates/10') %> <%= __LINE__ %>",
	})
	c, properties := sample()
	job.Context, job.Properties = c, properties
	dir := t.TempDir()
	if err := start(t, Config{}).Render(t.Context(), []Job{job}, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"01": "1", "02": "2", "03": `"" nil`, "04": "4", "05": "5", "06": "nil false nil c 4", "07": "false", "08": "8", "09": "9", "10": "true 1",
	} {
		if got := read(t, dir, "job", name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
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

// TestUnfitRuby has programs that are not the Ruby that is needed.
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
				needRuby(t)
			}
			path := filepath.Join(t.TempDir(), "ruby")
			put(t, path+".sh", "#!/bin/sh\n"+test.script+"\n")
			// A file that this process wrote may be busy in the child of another test.
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

// TestKilledBetween kills Ruby while it has nothing to do, which is no
// template's fault.
func TestKilledBetween(t *testing.T) {
	t.Parallel()
	needRuby(t)
	e := start(t, Config{})
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
		// Only when it is dead are its ends of the pipes closed for certain.
		_, _ = e.ruby.cmd.Process.Wait()
	}
}

// TestEnvironment checks that variables that change Ruby are not handed on.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	needRuby(t)
	ruby, _ := exec.LookPath("ruby")
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
	needRuby(t)
	job := newJob(t, "job", map[string]string{"f": "<%= 1 %>"})
	job.Context.ClusterProperties = map[string]any{"x": func() {}}
	var failures *Failures
	if err := start(t, Config{}).Render(t.Context(), []Job{job}, t.TempDir()); !errors.As(err, &failures) || !strings.Contains(fmt.Sprint(err), "cannot be given to Ruby") {
		t.Errorf("got %v", err)
	}
}
