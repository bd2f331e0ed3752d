package monitored

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/artifact"
	"bootstrap/templates"
)

// rendered writes the monit files of jobs as if they had been rendered, and returns the
// jobs. The templates are the same texts unless they are in sources.
func rendered(t *testing.T, dir string, monit, sources map[string]string, more ...artifact.Template) []templates.Job {
	t.Helper()
	var list []templates.Job
	for name, text := range monit {
		job := &artifact.Job{Name: name, Release: "r", Dir: filepath.Join(dir, "releases", name), Templates: more}
		source, other := sources[name]
		if !other {
			source = text
		}
		for path, content := range map[string]string{
			filepath.Join(job.Dir, "monit"):               source,
			filepath.Join(dir, "rendered", name, "monit"): text,
		} {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, templates.Job{Job: job})
	}
	return list
}

func TestRead(t *testing.T) {
	t.Parallel()
	const head = "check process web\n  with pidfile /x\n  group VCAP\n"
	ctl := artifact.Template{Source: "ctl.erb", Destination: "bin/ctl"}
	for name, tc := range map[string]struct {
		monit, sources map[string]string
		on             Instance
		want           []string // mistakes and warnings, and the processes
	}{
		"nothing":    {monit: map[string]string{"web": ""}},
		"a process":  {monit: map[string]string{"web": head + "start program \"/var/vcap/jobs/web/bin/ctl start\"\n"}, want: []string{"process web"}},
		"no monit":   {monit: map[string]string{"web": "check file f with path /x\n"}},
		"of windows": {monit: map[string]string{"web": "{\"processes\": []}"}, on: Instance{OS: "windows2019"}},
		"unknown OS": {monit: map[string]string{"web": " {\"processes\": []}"}},
		"not for Linux": {monit: map[string]string{"web": "{}"}, on: Instance{OS: "ubuntu-noble"}, want: []string{
			`monit refuses the file 'monit' of job 'web' of release 'r', line 1: cannot read "{}": monit does not know "{"`,
		}},
		"a line of the template": {
			monit:   map[string]string{"web": "\nchek process web\n"},
			sources: map[string]string{"web": "<% if true %>\n<% end %>\n  chek process web\n"},
			want:    []string{`line 2 (line 3 of the template): cannot read "chek process web"`},
		},
		"a line that the template has twice": {
			monit:   map[string]string{"web": "chek process web\n"},
			sources: map[string]string{"web": "<% if true %>\nchek process web\n<% else %>\nchek process web\n<% end %>"},
			want:    []string{`line 1: cannot read "chek process web"`},
		},
		"depends on another job": {
			monit: map[string]string{"web": head + "depends on db\n", "db": "check process DB with pidfile /y\n group vcap\n"},
			want:  []string{"process DB", "process web"},
		},
		"depends on a job that is not known": {monit: map[string]string{"web": head + "depends on db\n"}, on: Instance{Partly: true}, want: []string{"process web"}},
		"depends on nothing":                 {monit: map[string]string{"web": head + "depends on db\n"}, want: []string{`line 1: cannot find "db"`, "process web"}},
		"bpm that the agent adds": {
			monit: map[string]string{"web": head + "start program \"/var/vcap/jobs/bpm/bin/bpm start web\"\n"}, on: Instance{Provides: []string{"bpm"}},
			want: []string{"process web"},
		},
		"bpm that is missing": {
			monit: map[string]string{"web": head + "start program \"/var/vcap/jobs/bpm/bin/bpm start web\"\n"},
			want:  []string{`line 4: the start program of process web cannot be started: "/var/vcap/jobs/bpm/bin/bpm" belongs to the job 'bpm', which the instance does not have`, "process web"},
		},
		"doubtful": {
			monit: map[string]string{"web": head + "start program=\"/bin/x\"\ninclude /var/vcap/y\n"},
			want: []string{
				`line 4: the start program of process web is "program=", which is no absolute path`, `line 5: "include /var/vcap/y": other files are not read`, "process web",
			},
		},
	} {
		dir := t.TempDir()
		found, err := Read(filepath.Join(dir, "rendered"), rendered(t, dir, tc.monit, tc.sources, ctl), tc.on)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, m := range append(found.Mistakes, found.Warnings...) {
			got = append(got, m.String())
		}
		for _, p := range found.Processes {
			got = append(got, "process "+p)
		}
		same := len(got) == len(tc.want)
		for i := range min(len(got), len(tc.want)) {
			same = same && strings.Contains(got[i], tc.want[i])
		}
		if !same {
			t.Errorf("%s:\n got %s\nwant %s", name, strings.Join(got, "\n     "), strings.Join(tc.want, "\n     "))
		}
	}
}
