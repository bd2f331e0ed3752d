package manifest

import (
	"regexp"
	"strings"
)

// placeholder matches a variable, ((name)) or ((name.key)), in text.
var placeholder = regexp.MustCompile(`\(\( ?(!?[-/\.\w\pL]+) ?\)\)`)

// variables reports each variable that has no value, at its first use, or at
// its definition if it has none. Nothing fills them in yet.
func (d *document) variables() {
	seen := map[string]bool{}
	note := func(name string, line, column int, at *step) {
		if seen[name] {
			return
		}
		seen[name] = true
		hint := ""
		if len(seen) == 1 {
			hint = "; this version does not fill in variables: run \"bosh interpolate MANIFEST --vars-store CREDENTIALS -v NAME=VALUE > FILLED\", and use FILLED"
		}
		d.report(false, line, column, at, "the variable ((%s)) has no value%s", name, hint)
	}
	top := d.cursor()
	d.eachPlaceholder(d.root, nil, note)
	definitions := top.get("variables")
	for _, item := range definitions.items() {
		if name, ok := item.get("name").text(); ok {
			note(name, item.line, item.column, item.at)
		}
	}
}

// eachPlaceholder calls f with the name of each variable below n, in keys and
// values.
func (d *document) eachPlaceholder(n *node, at *step, f func(name string, line, column int, at *step)) {
	scan := func(value any, line, column int, at *step) {
		text, ok := value.(string)
		if !ok || !strings.Contains(text, "((") {
			return
		}
		for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
			name, _, _ := strings.Cut(strings.TrimPrefix(match[1], "!"), ".")
			f(name, line, column, at)
		}
	}
	if n == nil {
		return
	}
	scan(n.value, n.line, n.column, at)
	for i, item := range n.items {
		d.eachPlaceholder(item, at.item(i), f)
	}
	for _, e := range n.entries {
		scan(e.key, e.line, e.column, at)
		d.eachPlaceholder(e.value, at.child(scalarText(e.key)), f)
	}
}
