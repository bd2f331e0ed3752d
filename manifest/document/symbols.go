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

// Unknown returns the texts in the document, of values and of keys, that contain a variable
// without a value or the symbol of a value that is not generated yet.
func (d *Document) Unknown() map[string]bool {
	texts := map[string]bool{}
	if d.root != nil {
		d.unknown(d.root, texts)
	}
	return texts
}

// unknown adds the unknown texts of a part of the document.
func (d *document) unknown(n *node, texts map[string]bool) {
	if text, isText := n.value.(string); isText && (Value{document: d, node: n}).Pending() {
		texts[text] = true
	}
	for _, item := range n.items {
		d.unknown(item, texts)
	}
	for _, e := range n.entries {
		if key, isText := e.key.(string); isText && (symbols.MatchString(key) || Value{document: d, node: &node{value: key}}.Pending()) {
			texts[key] = true
		}
		d.unknown(e.value, texts)
	}
}
