package document

import (
	"maps"
	"slices"
	"strings"
)

// warnNumbers warns of given values that were written in another way than the number as
// which YAML reads them, such as a version 3363.20.
func (e *evaluation) warnNumbers() {
	for _, name := range slices.Sorted(maps.Keys(e.vars)) {
		v := e.vars[name]
		if !v.used || e.pending[name] { // another problem says it already
			continue
		}
		v.value.leaves(name, SecretName(name), func(key string, below bool, n *node) {
			switch n.value.(type) {
			case int, uint64, float64:
			default:
				return
			}
			is := scalarText(n.value)
			if n.written == "" || strings.ReplaceAll(n.written, "_", "") == is {
				return
			}
			pos := n.pos
			if pos.File == "" {
				pos = Position{File: v.origin + " " + shortened(name)}
			}
			if below || SecretName(key) {
				e.report(true, pos, nil, "the value is read as a number, which is written in another way; to keep the text, put quotes around it: '\"...\"'")
				return
			}
			e.report(true, pos, nil, "the value %s is read as the number %s; to keep the text, put quotes around it: '\"%s\"'", Literal(shortened(n.written)), Literal(is), Literal(shortened(n.written)))
		})
	}
}
