package document

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bootstrap/internal/spelling"
)

// missing is a variable without a value.
type missing struct {
	name string
	pos  Position // position of its first use
	at   *step
	uses int
}

// recordMissing records the use of a variable without a value, unless another
// problem explains why it has none.
func (e *evaluation) recordMissing(name string, pos Position, at *step) {
	if def := e.byName[name]; def != nil && (def.state != untouched || def.each && e.instance == nil) {
		return
	}
	if m := e.missingBy[name]; m != nil {
		m.uses++
		return
	}
	if e.missingBy == nil {
		e.missingBy = map[string]*missing{}
	}
	m := &missing{name: name, pos: pos, at: at, uses: 1}
	e.missing, e.missingBy[name] = append(e.missing, m), m
}

// missingProblems returns one problem for each variable without a value.
func (e *evaluation) missingProblems() Problems {
	names := slices.Collect(maps.Keys(e.vars))
	elsewhere := ""
	if len(e.asked) > 0 {
		elsewhere = ", also not in " + strings.Join(e.asked, ", ")
	}
	if e.store != nil {
		names = append(names, e.store.names...)
	}
	slices.Sort(names)
	given := spelling.Among(names)
	var problems Problems
	for i, m := range e.missing {
		more := ""
		if m.uses > 1 {
			more = fmt.Sprintf(" (it is used in %d places)", m.uses)
		}
		near := ""
		if i < MaxShown { // the others are not shown
			near = given.Nearest(m.name)
		}
		def := e.byName[m.name]
		switch {
		case near != "":
			more += fmt.Sprintf("; did you mean ((%s))?", near)
		case def != nil && def.kind != "" && e.store == nil:
			more += fmt.Sprintf("; its type is %s: with --vars-store FILE it is generated and kept in that file", def.kind)
		case def != nil && def.kind != "":
			more += fmt.Sprintf("; its type is %s, and it is not in the vars store %s, but this command generates nothing", def.kind, e.opts.VarsStore)
		}
		problems = append(problems, Problem{Pos: m.pos, Path: m.at.String(), Name: "variable-missing",
			Message: fmt.Sprintf("the variable ((%s)) has no value%s%s", shortened(m.name), elsewhere, more)})
	}
	problems = problems.sorted()
	// The general advice is given only one time.
	for i := range problems {
		if !strings.Contains(problems[i].Message, ";") {
			problems[i].Message += "; set it with --var NAME=VALUE, or in a file with --vars-file FILE"
			break
		}
	}
	return problems
}

// MissingNames returns the names of the variables without a value, in the order of their
// first use.
func (d *Document) MissingNames() []string {
	var names []string
	for _, m := range d.missing {
		names = append(names, m.name)
	}
	return names
}

// unused returns the names of given values that are not used.
func (e *evaluation) unused() []string {
	var names []string
	for name, v := range e.vars {
		if !v.used && e.byName[name] == nil {
			names = append(names, name)
		}
	}
	if e.store != nil {
		for name, v := range e.store.values {
			if !v.used && e.byName[name] == nil && e.vars[name] == nil && !e.ofInstance(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
