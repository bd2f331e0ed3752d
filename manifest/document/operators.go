package document

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// operator matches a text that is an operator of spruce or spiff, such as (( grab a.b )).
var operator = regexp.MustCompile(`^\(\(\s+([a-z][-a-z0-9_]*)(\s.*)?\s\)\)$`)

// operators are the names of operators that take no arguments or are common. A name with
// arguments is none of a variable.
func operators() []string {
	return []string{"append", "calc", "cartesian-product", "concat", "defer", "delete", "empty", "file", "grab", "inject", "inline", "insert", "ips",
		"join", "keys", "load", "merge", "param", "prepend", "prune", "replace", "shuffle", "sort", "static_ips", "vault", "awsparam", "awssecret", "base64",
		"stringify", "template", "lambda"}
}

// foreignOperators reports operators of other tools, which a manifest still contains. It
// reports only the first one, because all have the same reason. In longer texts, such as
// scripts, they may be something else.
func (e *evaluation) foreignOperators() (Problem, bool) {
	var first *node
	var text string
	var at *step
	count := 0
	defined := map[string]bool{}
	if list := e.top().Get("variables").node; list != nil {
		for _, item := range list.items {
			if name := item.find("name"); name != nil {
				defined[scalarText(name.value.value)] = true
			}
		}
	}
	var walk func(n *node, here *step)
	walk = func(n *node, here *step) {
		for i, item := range n.items {
			walk(item, here.item(i))
		}
		for _, entry := range n.entries {
			walk(entry.value, here.child(scalarText(entry.key)))
		}
		value, _ := n.value.(string)
		if !strings.HasPrefix(value, "((") {
			return
		}
		m := operator.FindStringSubmatch(value)
		if m == nil || !slices.Contains(operators(), m[1]) || strings.TrimSpace(m[2]) == "" && (e.given(m[1]) != nil || defined[m[1]]) {
			return
		}
		if count++; count == 1 {
			first, text, at = n, value, here
		}
	}
	walk(e.root, nil)
	if first == nil {
		return Problem{}, false
	}
	more := ""
	if count > 1 {
		more = fmt.Sprintf(" (and %d more)", count-1)
	}
	return Problem{Pos: first.pos, Path: at.String(), Message: fmt.Sprintf(
		"%s is an operator of another tool, spruce or spiff%s: let that tool make the manifest first, for example with spruce merge FILES >manifest.yml, and name its result", shortened(text), more)}, true
}
