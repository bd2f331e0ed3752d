package document

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Recorded is a document as it was evaluated once: with its operations and configs, before
// variables were filled in, and with the values of its variables, which are secrets. The
// same document can be evaluated from it again.
type Recorded struct {
	Name         string                   `json:"-"`        // for messages
	Document     string                   `json:"document"` // YAML
	CloudConfigs []string                 `json:"cloud_configs,omitempty"`
	Found        []Found                  `json:"found,omitempty"`
	Values       map[string]RecordedValue `json:"values,omitempty"` // by name, or NAME/GROUP/ID for that of an instance
}

// RecordedValue is the value of a variable.
type RecordedValue struct {
	YAML   string `json:"value"`
	Given  bool   `json:"given,omitempty"`  // with a flag; false: from the vars store or a source
	File   bool   `json:"file,omitempty"`   // it is a text from --var-file
	Secret bool   `json:"secret,omitempty"` // generated, kept in the vars store, or from a source
}

// Found is a text that Options.Find has put into the document.
type Found struct {
	Path []string `json:"path"` // keys, and indexes as #2
	Key  string   `json:"key"`
	Text string   `json:"text,omitempty"` // empty: Find has removed the key
	File string   `json:"file,omitempty"`
	Line int      `json:"line,omitempty"`
}

// Record returns what is needed to evaluate the document again; nil unless Read made it. It
// has the values that instances got since.
func (d *Document) Record() (*Recorded, error) {
	if d.written == nil {
		return nil, nil
	}
	text, err := d.written.exact()
	if err != nil {
		return nil, fmt.Errorf("cannot record the document: %w", err)
	}
	r := &Recorded{Document: text, Found: slices.Clone(d.found), Values: map[string]RecordedValue{}}
	if d.cloud != nil {
		r.CloudConfigs = d.cloud.files
	}
	add := func(name string, v *variable, given bool) error {
		if v == nil || !v.used && d.byName[name] == nil && !d.ofInstance(name) {
			return nil
		}
		text, err := v.value.exact()
		if err != nil {
			return fmt.Errorf("cannot record the value of the variable %q: %w", name, err)
		}
		r.Values[name] = RecordedValue{YAML: text, Given: given, File: v.file, Secret: v.secret}
		return nil
	}
	// Later ones replace earlier ones, as in the evaluation.
	sources := []variables{d.sourced}
	if d.store != nil {
		sources = append(sources, d.store.values)
	}
	made := variables{}
	for _, def := range d.definitions {
		if def.value != nil {
			made[def.name] = def.value
		}
	}
	for _, values := range append(sources, d.recorded, made) {
		for name, v := range values {
			if err := add(name, v, false); err != nil {
				return nil, err
			}
		}
	}
	for name, v := range d.vars {
		if err := add(name, v, true); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// reopen is open for opts.Recorded. The vars store has values only for what the record lacks:
// those of instances that did not exist then.
func reopen(ctx context.Context, opts Options) (*evaluation, error) {
	r := opts.Recorded
	e := newEvaluation(parse(r.Name, []byte(r.Document)), opts)
	if len(r.CloudConfigs) > 0 {
		e.cloud = &cloudConfig{files: r.CloudConfigs, origin: map[*node]int{}, used: map[*node]bool{}}
	}
	e.vars, e.recorded = variables{}, variables{}
	for name, of := range r.Values {
		value, err := parseValue(of.YAML)
		if err != nil {
			return nil, fmt.Errorf("cannot read the value of the variable %q of %s: %v", name, r.Name, err)
		}
		v := &variable{value: value, loose: true, origin: r.Name, file: of.File, secret: of.Secret}
		if of.Given {
			e.vars[name] = v
		} else {
			e.recorded[name] = v
		}
	}
	for _, f := range r.Found {
		if n := e.root.along(f.Path); n != nil {
			place := Value{document: e.document, node: n}
			place.Put(f.Key, f.Text, Position{File: f.File, Line: f.Line, Column: 1})
		}
	}
	e.found = r.Found
	if opts.VarsStore == "" {
		return e, nil
	}
	var err error
	if e.store, err = e.openStore(ctx, opts); err != nil {
		return e, err
	}
	newer, err := e.store.differing(e.recorded)
	if len(newer) > 0 {
		e.report(true, Position{File: e.file}, nil, "the vars store has newer values of %s: they stay there, and the values of this version are deployed again", Literal(strings.Join(newer, ", ")))
	}
	return e, err
}

// differing returns the names of stored values that are not the given ones.
func (s *varsStore) differing(given variables) (names []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		now := s.get(name)
		if now == nil {
			continue
		}
		text, err := now.value.exact()
		if err != nil {
			return nil, err
		}
		if was, err := given[name].value.exact(); err != nil || was != text {
			names = append(names, name)
		}
	}
	return names, nil
}

// digest adds the record.
func (d inputsDigest) recorded(r *Recorded) error {
	data, err := json.Marshal(r) // which sorts maps
	if err != nil {
		return fmt.Errorf("cannot compare %s: %w", r.Name, err)
	}
	d.part("recorded", data)
	return nil
}

// path returns a path for Found.
func (s *step) path() []string {
	if s == nil {
		return nil
	}
	if s.index >= 0 {
		return append(s.up.path(), "#"+strconv.Itoa(s.index))
	}
	return append(s.up.path(), s.key)
}

// along returns the value at a path of Found; nil: there is none.
func (n *node) along(path []string) *node {
	for _, part := range path {
		if n == nil {
			return nil
		}
		index, isIndex := strings.CutPrefix(part, "#")
		i, err := strconv.Atoi(index)
		switch {
		case isIndex && n.kind == listKind && err == nil && i < len(n.items):
			n = n.items[i]
		case n.kind == mapKind && n.find(part) != nil:
			n = n.find(part).value
		default:
			return nil
		}
	}
	return n
}

// exact returns the value as YAML that parse reads as the same value: texts have quotes, and
// numbers are written as they were.
func (n *node) exact() (string, error) {
	data, err := yaml.Marshal(n.tree())
	return string(data), err
}

func (n *node) tree() *yaml.Node {
	switch n.kind {
	case listKind:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range n.items {
			list.Content = append(list.Content, item.tree())
		}
		return list
	case mapKind:
		m := &yaml.Node{Kind: yaml.MappingNode}
		for _, e := range n.entries {
			m.Content = append(m.Content, (&node{value: e.key}).tree(), e.value.tree())
		}
		return m
	}
	if text, ok := n.value.(string); ok {
		return &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Tag: "!!str", Value: text}
	}
	text := n.written
	if text == "" || plainValue(text) != n.value { // It has no text, or a tag.
		text = scalarText(n.value)
	}
	if _, isFloat := n.value.(float64); isFloat && strings.Trim(text, "+-0123456789") == "" {
		text += ".0"
	}
	if n.value == nil {
		text = "null"
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: text}
}
