package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"bootstrap/manifest/document"
	"bootstrap/manifest/source"
)

// Outside finds the bootstrap.yml files of members, and reads lists of members.
type Outside struct {
	Environment FindEnvironment // nil: members have no bootstrap.yml
	// List returns a list of members; passed are the names of environment variables that
	// its program gets. nil: lists are not read, and their members are missing.
	List func(ctx context.Context, l source.List, passed []string) ([]byte, error)
	// Doubt says why the fleet file must not start programs, and what to do if a person
	// trusts it; empty: it may.
	Doubt string
}

// listed is a list of members from a program or a server.
type listed struct {
	source.List
	passed []string
	vars   []string // the names of the variables that it may give
}

// readListed adds the members that a program or a server lists. They share the manifest
// and everything else of the entry: a list gives only names, and values of the variables
// that the fleet file allows.
func (r *reader) readListed(from document.Value, manifest located, common settings) {
	if !sections.StrictMap(from, "members[].from") || from.Unsettled() {
		r.unsure = true
		return
	}
	l, ok := r.readSource(from)
	if !ok || manifest.path == "" || r.list == nil {
		r.unsure = true
		return
	}
	if len(l.Exec) > 0 && r.doubt != "" {
		r.unsure = true
		from.Get("exec").Fail("this program is not started: %s", document.Literal(r.doubt))
		return
	}
	data, err := r.list(l.List, l.passed)
	if err != nil {
		r.unsure = true
		from.Fail("cannot read the list of members: %s: %s", l.Name(), err.Error())
		return
	}
	members := 0
	err = document.Check(l.Name(), data, func(top document.Value) { members = r.readRows(top, l, from, manifest, common) })
	if wrong, ok := errors.AsType[*document.Problems](err); ok {
		r.unsure = true
		const shown = 5
		for i, p := range *wrong {
			if i == shown {
				from.Fail("the list has %d more mistakes", len(*wrong)-shown)
				break
			}
			from.Fail("the list of members is wrong: %s", p.String())
		}
		return
	}
	if members == 0 {
		r.fleet.EmptyLists = append(r.fleet.EmptyLists, l.Name())
	}
}

// readSource reads where a list is.
func (r *reader) readSource(from document.Value) (l listed, ok bool) {
	program, address, ca, headers := from.Get("exec"), from.Get("url"), from.Get("ca"), from.Get("headers")
	l.Exec, l.Dir, l.vars, l.passed = program.Texts(), r.files.dir, from.Get("vars").Texts(), from.Get("pass_env").Texts()
	for _, name := range l.vars {
		if name == "" || strings.ContainsAny(name, "./") {
			from.Get("vars").Fail("must be names of variables, without dots and slashes")
			return l, false
		}
	}
	switch {
	case !program.IsNull() && !address.IsNull():
		address.Fail("cannot be used with exec")
	case !address.IsNull():
		l.URL, ok = address.Required("the address of the list")
		if err := source.CheckURL(l.URL); ok && err != nil {
			address.Fail("%s", document.Literal(err.Error()))
			ok = false
		}
		if path := r.readPath(ca); path.path != "" {
			l.CA = r.files.existing(path, "")
		}
		l.Headers = r.readLabels(headers)
	case program.IsNull():
		from.Fail("must contain exec, the program that prints the members, or url, the address with their list")
	case len(l.Exec) == 0 || l.Exec[0] == "":
		program.Fail("must be a list: the program and its arguments")
	default:
		ok = true
		for _, other := range []document.Value{ca, headers} {
			if !other.IsNull() {
				other.Fail("can be used only with url")
				ok = false
			}
		}
	}
	return l, ok
}

// readRows adds the members of a list, and returns their number. An element has a name and
// variables, or is one of a service broker's list, which has the keys service_instance_id
// and plan_id.
func (r *reader) readRows(top document.Value, l listed, from document.Value, manifest located, common settings) (n int) {
	if top.IsNull() {
		top.Fail("it is empty: a list without members is []")
		return 0
	}
	names := map[string]bool{}
	for _, row := range top.Items() {
		if !row.IsMap() {
			row.Fail(`must be a map such as {"name": "pg-1", "vars": {"index": 1}}, not %s`, document.Literal(row.Describe()))
			continue
		}
		name, given := readRow(row, l.vars)
		text, ok := name.Required("the name of the member")
		if !ok {
			continue
		}
		why := refuseName(text)
		if why == "" && names[strings.ToLower(text)] {
			why = "must be unique, but the list has it twice"
		}
		if why != "" {
			name.Fail("%s: %q", document.Literal(why), document.Literal(text))
			continue
		}
		names[strings.ToLower(text)] = true
		n++
		own := settings{vars: given}
		r.add(candidate{settings: common.with(own), name: text, place: from, manifest: manifest, row: true, listed: true})
	}
	return n
}

// The keys of an element in the list of a service broker's instances, as the
// on-demand-service-broker reads it.
const (
	brokersInstance = "service_instance_id"
	brokersPlan     = "plan_id"
)

// readRow returns the name and the variables of an element of a list.
func readRow(row document.Value, allowed []string) (name document.Value, vars map[string]any) {
	vars = map[string]any{}
	if id := row.Get(brokersInstance); !id.IsNull() {
		if plan, ok := row.Get(brokersPlan).Text(); ok && slices.Contains(allowed, brokersPlan) {
			checkListed(row.Get(brokersPlan), plan)
			vars[brokersPlan] = plan
		}
		return id, vars
	}
	for key, value := range row.All() {
		if key != "name" && key != "vars" {
			value.FailKey("unknown key: a list gives only name and vars")
		}
	}
	if vars := row.Get("vars"); !vars.IsNull() && !vars.IsMap() {
		vars.Fail("must be a map of variables, not %s", document.Literal(vars.Describe()))
	}
	for key, value := range row.Get("vars").All() {
		if !slices.Contains(allowed, key) {
			value.FailKey("is not in from.vars of the fleet file, which names the variables that this list may give")
			continue
		}
		vars[key] = value.Plain()
		checkListed(value, vars[key])
	}
	return row.Get("name"), vars
}

// checkListed reports texts that would be replaced by the values of other variables, which
// may be secrets.
func checkListed(at document.Value, value any) {
	switch value := value.(type) {
	case string:
		if strings.Contains(value, "((") {
			at.Fail("must not contain ((, because a list cannot use variables")
		}
	case []any:
		for _, one := range value {
			checkListed(at, one)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			checkListed(at, key)
			checkListed(at, value[key])
		}
	}
}
