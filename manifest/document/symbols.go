package document

import (
	"fmt"
	"regexp"

	"bootstrap/manifest/gen"
)

// symbols matches the texts that replace values that are not generated yet.
var symbols = regexp.MustCompile(`<generated [a-z]+ [^<>]*>`)

// lookup returns the value of a variable, or the symbol for a value that will be
// generated, or nil.
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

// symbol returns a value with the shape of a generated one, with a text such as
// <generated certificate NAME.ca> for each part.
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

// ReplaceVariables replaces the variables in a text, and the symbols of values
// that are not generated yet.
func ReplaceVariables(text, replacement string) string {
	return symbols.ReplaceAllLiteralString(placeholder.ReplaceAllLiteralString(text, replacement), replacement)
}
