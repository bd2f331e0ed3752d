//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRemoved removes documents of a deployment, from its place or from this machine, and
// then runs a command. No command may create anything a second time, delete what is in
// use, or remove what this machine still has. A command that needs a missing document
// refuses, and names a command that brings it back. By default it runs a sample of all
// cells; REMOVED=all runs all, REMOVED=REGEXP those whose names match, such as
// https/3/all/plan.
func TestRemoved(t *testing.T) {
	table := map[string]map[string]string{}
	t.Run("sites", func(t *testing.T) {
		for _, kind := range placeNames {
			for _, n := range []int{1, 3} {
				name, result := fmt.Sprintf("%s/%d", kind, n), map[string]string{}
				table[name] = result
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					newRemovals(t, kind, n).run(result)
				})
			}
		}
	})
	printRemoved(t, table)
}

// removal is a set of documents to remove.
type removal struct {
	name string
	// chosen reports whether a document of the place is removed; nil: none is.
	chosen func(name string) bool
	// machine are patterns of files of this machine to remove, below ~/.bosh.
	machine []string
	// needed is true if nobody can know what is deployed, or how to reach it, without them.
	needed bool
	// lost is true if no copy is left: there is no way back but to record what exists.
	lost bool
	// values is true if only secrets are missing: commands that need none may work.
	values bool
	// aside is true if documents are missing that only the user can bring back.
	aside bool
}

func base(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, path.Base(name)) }
}

func isHistory(name string) bool {
	return strings.Contains(name, "history") || strings.Contains(name, ".backups/")
}

func isVars(name string) bool { return base("vars.yml.age", "creds.yml")(name) }

func isRecord(name string) bool { return path.Base(name) == "deployment.json" }

// isState reports whether a document is the state of an instance.
func isState(name string) bool {
	return !isHistory(name) && (base("state.json", "page-state.json")(name) || strings.HasPrefix(path.Base(name), "web-"))
}

func not(chosen func(string) bool) func(string) bool {
	return func(name string) bool { return !chosen(name) }
}

func either(a, b func(string) bool) func(string) bool {
	return func(name string) bool { return a(name) || b(name) }
}

// isStateOfFirst reports whether a document is the state of web/0, about which some commands
// are.
func (s *site) isStateOfFirst(name string) bool {
	copies, err := filepath.Glob(s.path("home/.bosh/team/*/deployment/deployment.json"))
	check(s.t, err)
	for _, file := range append(copies, s.path("page-state/deployment.json")) {
		data, err := os.ReadFile(file)
		var r struct {
			Instances []struct {
				Index int
				State string
			}
		}
		if err != nil || json.Unmarshal(data, &r) != nil {
			continue
		}
		for _, in := range r.Instances {
			if in.Index == 0 {
				return strings.HasSuffix(name, "/"+in.State)
			}
		}
	}
	s.t.Fatal("this machine has no record")
	return false
}

// removals returns the sets that a site can lose.
func (s *site) removals() (list []removal) {
	every := func(string) bool { return true }
	folder := s.kind == "folder"
	list = []removal{
		{name: "everything", chosen: every, needed: true, lost: folder},
		{name: "all but the history", chosen: not(isHistory), needed: true, aside: folder},
		{name: "all but the vars store", chosen: not(isVars), needed: true, lost: folder},
		{name: "the vars store", chosen: isVars, needed: true, values: true, aside: folder},
		{name: "all states", chosen: isState, needed: true},
		{name: "states and history", chosen: either(isState, isHistory), needed: true, lost: folder},
		{name: "the history", chosen: isHistory},
	}
	if s.instances > 1 {
		list = append(list,
			removal{name: "the record", chosen: isRecord, needed: true},
			removal{name: "record and history", chosen: either(isRecord, isHistory), needed: true, lost: folder},
			removal{name: "one state", chosen: s.isStateOfFirst, needed: true},
		)
	}
	if folder {
		return append(list, removal{name: "what this machine remembers", machine: []string{"*-*-*-*-*"}})
	}
	const copied, versions = "team", "team/*/*.backups"
	return append(list,
		removal{name: "the key", chosen: base("key.age")},
		removal{name: "what machines remember", chosen: base("kept.json.age")},
		removal{name: "the copy", machine: []string{copied}},
		removal{name: "versions of the copy", machine: []string{versions}},
		removal{name: "states, record and the copy", chosen: either(isState, isRecord), machine: []string{copied, "*-*-*-*-*"}, needed: true},
	)
}

// nextCommand is a command that a person may run next.
type nextCommand struct {
	args    string
	changes bool // it changes VMs or jobs if nothing is missing
	secrets bool // it needs the values of the vars store
	anyway  bool // it also works if states or records are missing
	repairs bool // it exists for what is missing
}

// nextCommands are the commands that follow a removal. VERSION is the newest version.
var nextCommands = []nextCommand{
	{args: "status page.yml"},
	{args: "plan page.yml", secrets: true},
	{args: "deploy page.yml --yes", secrets: true},
	{args: "delete page.yml --yes", changes: true},
	{args: "list", anyway: true},
	{args: "logs page.yml --dir tmp"},
	{args: "ssh page.yml INSTANCE -- true"},
	{args: "stop page.yml --yes", changes: true},
	{args: "start page.yml --yes"},
	{args: "restart page.yml --yes"},
	{args: "recreate page.yml --yes", changes: true, secrets: true},
	{args: "disks page.yml"},
	{args: "cck page.yml --report"},
	{args: "events page.yml", anyway: true},
	{args: "state show page.yml"},
	{args: "state backups page.yml", anyway: true},
	{args: "state push page.yml", repairs: true},
	{args: "state push page.yml --force", repairs: true},
	{args: "state restore page.yml VERSION --force", repairs: true},
	{args: "state pull page.yml", anyway: true},
	{args: "variables list page.yml", anyway: true, secrets: true},
	{args: "secrets decrypt STATE", anyway: true, secrets: true},
	{args: "secrets init STATE", anyway: true, secrets: true},
}

// removals runs the cells of a site.
type removals struct {
	*site
	version   string
	recovered map[string]bool // ways back that were tried, by removal and command
	changed   bool            // the last command has changed or deleted VMs
}

func newRemovals(t *testing.T, kind string, instances int) *removals {
	s := newSite(t, kind, instances)
	r := &removals{site: s, recovered: map[string]bool{}}
	m := regexp.MustCompile(`(?m)^ *([0-9]+) `).FindStringSubmatch(s.must("state", "backups", "page.yml"))
	if m == nil {
		t.Fatal("there are no versions")
	}
	r.version = m[1]
	return r
}

// run runs the chosen cells, and records in result how those of each removal ended.
func (r *removals) run(result map[string]string) {
	ask := os.Getenv("REMOVED")
	number := siteNumber(r.kind, r.instances)
	for i, set := range r.removals() {
		ran, failed := 0, 0
		for j, next := range r.commands() {
			name := cellName(set, next)
			switch ask {
			case "": // half of the removals, the other half for the next site, each with another command
				if (len(set.name)+number/2+number)%2 != 0 || j != (5*i+3*number)%len(r.commands()) {
					continue
				}
			case "all":
			default:
				if !regexp.MustCompile(ask).MatchString(fmt.Sprintf("%s/%d/%s", r.kind, r.instances, name)) {
					continue
				}
			}
			ran++
			if !r.root.Run(name, func(t *testing.T) { r.cell(t, set, next) }) {
				failed++
			}
		}
		if ran > 0 {
			result[set.name] = fmt.Sprintf("%d of %d", ran-failed, ran)
		}
	}
}

// cellName returns the name of a cell, such as all_states/state_push.
func cellName(set removal, next nextCommand) string {
	words := slices.DeleteFunc(strings.Fields(next.args), func(w string) bool {
		return w == "page.yml" || w == "--" || w == "--yes" || w == strings.ToUpper(w) // arguments that are clear
	})
	return strings.ReplaceAll(set.name, " ", "_") + "/" + strings.Join(words, "_")
}

// commands returns the commands that the site has.
func (r *removals) commands() []nextCommand {
	return slices.DeleteFunc(slices.Clone(nextCommands), func(s nextCommand) bool {
		return r.kind == "folder" && (strings.Contains(s.args, "STATE") || strings.Contains(s.args, "push") || strings.Contains(s.args, "pull"))
	})
}

// cell removes a set, runs a command, and checks what it has done.
func (r *removals) cell(t *testing.T, set removal, next nextCommand) {
	r.t = t
	if r.changed {
		r.again()
	}
	r.restore(t)
	r.remove(set)
	before, documents := r.parts(), r.place.names(t)
	args := r.arguments(next.args)
	out, code := r.site.run(args...)
	line := fmt.Sprintf("bootstrap %s, without %s", strings.Join(args, " "), set.name)
	after := r.parts()

	if !r.fits(set, next, out, code) {
		t.Errorf("%s: ended with %d:\n%s", line, code, out)
	}
	changed := code == 0 && next.changes && (!set.needed || set.values && !next.secrets)
	if !changed {
		r.expectSame(line, before, after, out)
		if left := r.place.names(t); !next.repairs && slices.ContainsFunc(documents, func(name string) bool { return !slices.Contains(left, name) }) {
			t.Errorf("%s: the place has only %v of %v:\n%s", line, left, documents, out)
		}
	}
	if code != 0 && set.needed && !set.lost && !strings.Contains(out, "bootstrap ") {
		t.Errorf("%s: names no next command:\n%s", line, out)
	}
	if set.needed && !set.lost && !set.aside && (code != 0 || next.repairs) {
		r.follow(t, set, line, out, code)
	}
	r.changed = changed || !slices.Equal(r.parts().cloud, r.good.cloud)
}

// fits reports whether the exit code of a command is right.
func (r *removals) fits(set removal, next nextCommand, out string, code int) bool {
	missing := set.needed && (!set.values || next.secrets) // the command needs what is missing
	if set.aside && next.anyway {                          // it is about files that belong to the user
		missing = false
	}
	switch {
	case code == 66, code == 77:
		return set.needed || next.anyway || next.repairs
	case code == 0:
		stores := next.args == "secrets init STATE" && (set.values || set.name == "everything")
		return !stores && (!missing || next.repairs || next.anyway && !(missing && set.values))
	case code == 1 && strings.HasPrefix(next.args, "status"), code == 2 && strings.HasPrefix(next.args, "cck"):
		return set.needed && r.next(out) != ""
	case code == 1 && set.lost, code == 1 && next.repairs, code == 1 && next.anyway:
		return true
	}
	return false
}

// remove removes a set of documents.
func (r *removals) remove(set removal) {
	r.t.Helper()
	for _, name := range r.place.names(r.t) {
		if set.chosen != nil && set.chosen(name) {
			r.place.remove(r.t, name)
		}
	}
	for _, pattern := range set.machine {
		list, err := filepath.Glob(r.path("home/.bosh/" + pattern))
		check(r.t, err)
		for _, name := range list {
			check(r.t, os.RemoveAll(name))
		}
	}
}

func (r *removals) arguments(line string) (args []string) {
	for _, word := range strings.Fields(line) {
		switch word {
		case "STATE":
			args = append(args, "--state", r.state)
		case "INSTANCE":
			if r.instances > 1 {
				args = append(args, "--instance", "web/0")
			}
		case "VERSION":
			args = append(args, r.version)
		default:
			args = append(args, word)
		}
	}
	return args
}

// expectSame checks that a command has created and deleted nothing in the cloud, and that
// this machine has every document that it had.
func (r *removals) expectSame(line string, before, after parts, out string) {
	r.t.Helper()
	if !slices.Equal(before.cloud, after.cloud) {
		r.t.Errorf("%s: there is %v, and before there was %v:\n%s", line, after.cloud, before.cloud, out)
	}
	for _, name := range slices.Sorted(maps.Keys(before.files)) {
		if _, has := after.files[name]; !has {
			r.t.Errorf("%s: removed %s:\n%s", line, strings.TrimPrefix(name, r.dir), out)
		}
	}
}

// commandNamed finds the commands that a message names.
var commandNamed = regexp.MustCompile("bootstrap (?:state|secrets|deploy|status|cck)(?: [^\"`\\s;(,]+)*")

// follow runs the commands that messages name until all is well, at most four. out is
// what the last command has printed, with its exit code.
func (r *removals) follow(t *testing.T, set removal, line, out string, code int) {
	t.Helper()
	var way []string
	for {
		if code == 0 {
			status, _ := r.site.run("status", "page.yml")
			plan, planned := r.site.run("plan", "page.yml")
			if planned == 0 && strings.Contains(status, "All is well") {
				break
			}
			if planned != 66 && planned != 77 {
				t.Errorf("%s: after %q, plan ended with %d:\n%s\n%s\n%s", line, way, planned, out, plan, status)
				return
			}
			out = plan
		}
		next := r.next(out)
		if next == "" || len(way) == 4 {
			t.Errorf("%s: after %q, nothing says how to go on:\n%s", line, way, out)
			return
		}
		if way = append(way, next); len(way) == 1 {
			if r.recovered[set.name+next] {
				return
			}
			r.recovered[set.name+next] = true
		}
		out, code = r.site.run(splitWords(next)...)
		if code != 0 && code != 66 && code != 77 {
			t.Errorf("%s: %q ended with %d:\n%s", line, way, code, out)
			return
		}
	}
	if !slices.Equal(r.parts().cloud, r.good.cloud) {
		t.Errorf("%s: %q has created or deleted something:\n%s", line, way, out)
	}
}

// next returns the command of a message that leads back, complete.
func (r *removals) next(out string) string {
	message := out
	if _, failed, found := strings.Cut(out, "Error: "); found {
		message = failed
	}
	for _, command := range commandNamed.FindAllString(message, -1) {
		command = strings.TrimPrefix(strings.TrimRight(command, " :.)"), "bootstrap ")
		if !regexp.MustCompile(`^(state (push|restore|trust)|secrets rekey)`).MatchString(command) {
			continue
		}
		command = strings.NewReplacer("MANIFEST", "page.yml", "SERIAL", r.version, "VERSION", r.version, " N", " "+r.version).Replace(command)
		if strings.HasPrefix(command, "state trust") {
			command += " --yes"
		}
		return command
	}
	return ""
}

// splitWords splits a command as a shell does, with quotes.
func splitWords(line string) (words []string) {
	for _, m := range regexp.MustCompile(`'[^']*'|[^ ']+`).FindAllString(line, -1) {
		words = append(words, strings.Trim(m, "'"))
	}
	return words
}

// printRemoved prints the table of removals and sites.
func printRemoved(t *testing.T, table map[string]map[string]string) {
	var sets []string
	for _, of := range table {
		for name := range of {
			if !slices.Contains(sets, name) {
				sets = append(sets, name)
			}
		}
	}
	slices.Sort(sets)
	var text strings.Builder
	fmt.Fprintf(&text, "%-36s", "removed")
	for _, site := range slices.Sorted(maps.Keys(table)) {
		fmt.Fprintf(&text, " %-11s", site)
	}
	for _, set := range sets {
		fmt.Fprintf(&text, "\n%-36s", set)
		for _, site := range slices.Sorted(maps.Keys(table)) {
			fmt.Fprintf(&text, " %-11s", table[site][set])
		}
	}
	t.Log("\n" + text.String())
}
