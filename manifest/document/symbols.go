package document

import (
	"fmt"
	"regexp"

	"bootstrap/manifest/gen"
)

// symbols matches what stands for values that are not generated yet.
var symbols = regexp.MustCompile(`<generated [a-z]+ [^<>]*>`)

// lookup returns the value of a variable or, of one that will be generated,
// what stands for it; nil if it has none.
func (e *evaluation) lookup(name string) *variable {
	if v := e.resolve(name); v != nil {
		return v
	}
	def := e.byName[name]
	if def == nil || def.state != planned {
		return nil
	}
	if def.symbol == nil {
		def.symbol = &variable{value: symbol(def.kind, name), loose: true, origin: "--vars-store"}
	}
	return def.symbol
}

// symbol returns a value of the shape that a generated one has, with a text
// such as <generated certificate NAME.ca> for each part.
func symbol(kind, name string) *node {
	parts := gen.Parts(kind)
	if parts == nil {
		return &node{value: fmt.Sprintf("<generated %s %s>", kind, name), symbolic: true}
	}
	n := &node{kind: mapKind}
	for _, part := range parts {
		n.entries = append(n.entries, entry{key: part, value: &node{value: fmt.Sprintf("<generated %s %s.%s>", kind, name, part), symbolic: true}})
	}
	return n
}

// ReplaceVariables returns a text with another one in place of each variable,
// and of each symbol of a value that is to be generated.
func ReplaceVariables(text, replacement string) string {
	return symbols.ReplaceAllLiteralString(placeholder.ReplaceAllLiteralString(text, replacement), replacement)
}
