package document

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Answers are the values from sources such as a credential server.
type Answers struct {
	Values map[string]Answer // by the name of the variable
	Asked  []string          // the sources that were asked, with their names for messages
}

// Answer is the value of a variable, which is secret.
type Answer struct {
	Source string // name of the source for messages
	Value  any    // in the types of JSON, with integers as int or uint64
}

// ParseAnswer reads a value in YAML. A text without quotes is not changed: a key in PEM
// keeps its lines, and a password keeps a part that looks like a comment. Errors do not
// contain the value.
func ParseAnswer(text string) (any, error) {
	n, err := parseValue(text)
	if err != nil {
		return nil, err
	}
	text = strings.TrimSpace(text)
	_, isText := n.value.(string)
	if isText && !strings.ContainsAny(text[:1], "\"'|>!&*") && !strings.HasPrefix(text, "--- ") && !strings.HasPrefix(text, "---\n") {
		return text, nil
	}
	return n.plain(), nil
}

// ask asks the sources for variables that the document uses, and that neither the flags
// nor the vars store have.
func (e *evaluation) ask(ctx context.Context) error {
	if e.opts.Ask == nil {
		return nil
	}
	var names []string
	seen := map[string]bool{"": true}
	e.used(func(name string) {
		def := e.byName[name]
		own := def != nil && def.each
		if !seen[name] && own == (e.instance != nil) && e.given(name) == nil {
			names = append(names, e.key(name))
		}
		seen[name] = true
	})
	if len(names) == 0 {
		return nil
	}
	answers, err := e.opts.Ask(ctx, names)
	if err != nil {
		return err
	}
	e.asked = answers.Asked
	if e.sourced == nil {
		e.sourced = variables{}
	}
	for name, a := range answers.Values {
		e.sourced[name] = &variable{value: toNode(a.Value), loose: true, secret: true, origin: "--var-source " + a.Source}
	}
	return nil
}

// used calls visit with the names of all variables that the document uses or defines,
// in their order.
func (e *evaluation) used(visit func(name string)) {
	e.root.variables(visit)
	for _, def := range e.definitions {
		visit(def.name)
		for _, name := range def.requires() {
			visit(name)
		}
	}
}

// variables calls visit with the name of each variable in a value.
func (n *node) variables(visit func(name string)) {
	find := func(value any) {
		text, _ := value.(string)
		if !strings.Contains(text, "((") {
			return
		}
		for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
			name, _ := splitName(match[1])
			visit(name)
		}
	}
	find(n.value)
	for _, item := range n.items {
		item.variables(visit)
	}
	for _, e := range n.entries {
		find(e.key)
		e.value.variables(visit)
	}
}

// sourced adds the values that the document's variables got from sources.
func (d inputsDigest) sourced(ctx context.Context, path string, opts Options) error {
	if opts.Ask == nil {
		return nil
	}
	e, err := openVariables(ctx, path, opts)
	if err != nil {
		return err
	}
	e.readDefinitions()
	if err := e.ask(ctx); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(e.sourced)) {
		d.part("name", []byte(name))
		d.part("sourced", fmt.Appendf(nil, "%#v", e.sourced[name].value.plain())) // this format sorts maps
	}
	return nil
}
