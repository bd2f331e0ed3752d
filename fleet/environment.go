package fleet

import (
	"strings"

	"bootstrap/manifest/document"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// Environment is a file bootstrap.yml, which has flags of the commands of a member.
type Environment struct {
	Path  string   // absolute; empty: there is no file
	State string   // absolute path or address of the state; empty: it names none
	Files []string // absolute paths of the files with operations, variables and configs that it names
}

// FindEnvironment returns the file with flags for a manifest: the one called named, or if
// that is empty the one that bootstrap deploy uses for this manifest.
type FindEnvironment func(manifest, named string) (Environment, error)

// environments finds the files with flags of members, each one once.
type environments struct {
	find  FindEnvironment // nil: members have no such files
	found map[[2]string]foundEnvironment
}

type foundEnvironment struct {
	Environment
	err      error
	reported bool
}

// readEnvironment reads the key bootstrap_yml. given is false without the key; an empty
// path stands for no file.
func (r *reader) readEnvironment(v document.Value) (l located, given bool) {
	text, ok := v.Text()
	if !ok {
		return located{}, false
	}
	if text == "" {
		return located{place: v}, true
	}
	return r.readPath(v), true
}

// environment returns the file with the flags of a member. It reports a wrong file once.
func (r *reader) environment(c candidate, m Member) Environment {
	named := ""
	switch {
	case r.environments.find == nil, c.hasEnvironment && c.environment.path == "":
		return Environment{}
	case c.hasEnvironment:
		named = r.files.existing(c.environment, c.name)
	}
	key := [2]string{m.Manifest, named}
	one, known := r.environments.found[key]
	if !known {
		one.Environment, one.err = r.environments.find(m.Manifest, named)
	}
	if one.err != nil && !one.reported {
		c.environment.orElse(c.place).Fail("%s", document.Literal(strings.ReplaceAll(one.err.Error(), "\n", "; ")))
		one.reported = true
	}
	r.environments.found[key] = one
	return one.Environment
}

// stateOfEnvironment returns the state that the member's bootstrap.yml names. It refuses
// one that would make the fleet forget the state beside the manifest.
func (r *reader) stateOfEnvironment(c candidate, m Member) string {
	state, beside := m.Environment.State, file.Beside(m.Manifest)
	switch {
	case state == "":
		return ""
	case team.IsAddress(state) && len(team.Secrets(state)) > 0:
		c.place.Fail("%s names a state with a password: give the password in PGPASSWORD or ~/.pgpass; a store of https:// that wants one cannot have the state of a fleet's member",
			document.Literal(m.Environment.Path))
		return ""
	}
	if found, err := file.Exists(beside); err != nil || !found || team.IsAddress(state) {
		return state
	}
	if found, err := file.Exists(state); err == nil && !found {
		c.place.Fail("the member %s has the state %s, but %s names %s, which does not exist: write the right one as state of this member",
			document.Literal(m.Name), document.Literal(beside), document.Literal(m.Environment.Path), document.Literal(state))
	}
	return state
}
