// Package document evaluates YAML documents like create-env: it applies operations
// files, adds a cloud config, generates variables and fills them in, and keeps the
// position of every value for messages. It also compares documents. The only keys of a
// manifest that it knows are the variables section and those of a cloud config.
package document

import (
	"bytes"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	yaml2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"
)

// Limits of a document. Real manifests are below 1 MiB and use few aliases; the
// limits keep a hostile or broken file from using up the memory.
const (
	MaxFileSize     = 2 << 20
	maxDepth        = 500
	maxAliasedNodes = 100_000
	maxAliasedBytes = 16 << 20
)

// notYAML begins the messages about files that are not valid YAML.
const notYAML = "the file is not valid YAML: "

// document is a parsed YAML document with the problems found so far.
type document struct {
	file     string // name of the file as the user wrote it
	root     *node
	problems Problems
	cloud    *cloudConfig // nil: the document has none
	// pending holds the variables that have no value yet; nil until variables
	// are filled in.
	pending map[string]bool
	// hide redacts the values of variables in messages; nil if there are none.
	hide *strings.Replacer
	// plainText contains the texts and keys that the files contain without variables.
	plainText map[string]bool
	found     []Found // what was put into the document
}

type kind uint8

const (
	scalarKind kind = iota
	listKind
	mapKind
)

// node is a value of the document. Aliases are replaced by copies, merge keys
// are resolved, and scalars have the types that create-env gives them.
type node struct {
	kind    kind
	value   any    // value of a scalar: nil, bool, int, uint64, float64 or string
	written string // text of a scalar in the file, if it is not a string
	items   []*node
	entries []entry
	pos     Position // in the file of the value
	// symbolic is true if the text contains a symbol; see symbols.
	symbolic bool
}

// entry is a key of a map with its value; the keys of a map are distinct.
type entry struct {
	key    any
	value  *node
	pos    Position // position of the key
	merged bool     // true: it is from a merge key
}

// step is the path from the root to a node, as a linked list that begins with
// the last step. nil is the root.
type step struct {
	up    *step
	key   string // key of a map
	index int    // index of a list; -1 for a map
}

// simpleKey reports whether a key needs no quotes in a path.
func simpleKey(key string) bool {
	for _, r := range key {
		if !(r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return false
		}
	}
	return key != ""
}

// String returns the path as people write it: instance_groups[0].name.
func (s *step) String() string {
	return s.shown(func(key string) string { return key })
}

// shown is String with each key replaced by the result of key.
func (s *step) shown(key func(string) string) string {
	if s == nil {
		return ""
	}
	above := s.up.shown(key)
	if s.index >= 0 {
		return above + "[" + strconv.Itoa(s.index) + "]"
	}
	name := key(s.key)
	switch {
	case name == s.key && !simpleKey(name) && !isPlaceholder(name):
		return above + "[" + strconv.Quote(name) + "]"
	case above == "":
		return name
	}
	return above + "." + name
}

// hidden returns text with the values of variables redacted.
func (d *document) hidden(text string) string {
	if d.hide == nil {
		return text
	}
	return d.hide.Replace(text)
}

// hiddenKey redacts a key, unless the files contain it in plain text.
func (d *document) hiddenKey(key string) string {
	if d.plainText[key] {
		return key
	}
	return d.hidden(key)
}

// child returns the step to the value of a key.
func (s *step) child(key string) *step { return &step{up: s, key: key, index: -1} }

// item returns the step to an item of a list.
func (s *step) item(index int) *step { return &step{up: s, index: index} }

// Literal is an argument of a message that is never redacted, such as the name
// of a job.
type Literal string

// report records a problem. Strings among args are redacted and shortened; a
// Literal is only shortened.
func (d *document) report(warning bool, pos Position, at *step, format string, args ...any) {
	const longest = 300
	for i, arg := range args {
		var text string
		switch arg := arg.(type) {
		case Literal:
			text = string(arg)
		case string:
			text = d.hidden(arg)
		default:
			continue
		}
		if len(text) > longest {
			text = strings.ToValidUTF8(text[:longest], "") + "..."
		}
		args[i] = text
	}
	d.problems = append(d.problems, Problem{
		Pos:     pos,
		Path:    at.shown(d.hiddenKey),
		Message: fmt.Sprintf(format, args...),
		Warning: warning,
	})
}

// parse reads the first YAML document of data; root is nil if there is none.
// Errors of the YAML are in the document's problems.
func parse(file string, data []byte) *document { return parseAs(file, data, false) }

// parseNames is like parse, for a file that maps names to values. Names are the texts in
// the file: yes and 0755 are names like any other.
func parseNames(file string, data []byte) *document { return parseAs(file, data, true) }

func parseAs(file string, data []byte, names bool) *document {
	d := &document{file: file}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var top yaml.Node
	err := decode(decoder, &top)
	switch {
	case errors.Is(err, io.EOF):
		return d
	case err != nil:
		line, column, why := explainSyntax(data, err)
		d.problems = append(d.problems, Problem{Pos: Position{file, line, column}, Name: "yaml", Message: notYAML + why})
		return d
	}
	c := converter{document: d, names: names, tags: loneTags{none: bytes.IndexByte(data, '!') < 0, data: data}, open: map[*yaml.Node]bool{}}
	d.root = c.convert(top.Content[0], nil, 0)
	var second yaml.Node
	if err := decode(decoder, &second); !errors.Is(err, io.EOF) {
		d.report(true, Position{file, max(second.Line, 1), max(second.Column, 1)}, nil,
			"the file has more than one YAML document (separated by a line ---); only the first one is read")
	}
	return d
}

// decode turns a panic of the YAML library into an error.
func decode(decoder *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return decoder.Decode(n)
}

// converter turns nodes of yaml.v3 into ours, with the types that yaml.v2
// decodes into an empty interface.
type converter struct {
	*document
	names     bool // the top-level keys are names
	tags      loneTags
	open      map[*yaml.Node]bool // being expanded; an alias of one of them is a circle
	inAlias   int
	nodes     int // added by aliases
	bytes     int // size of text that aliases add
	exhausted bool
}

// position returns the position of n.
func (c *converter) position(n *yaml.Node) Position {
	return Position{File: c.file, Line: n.Line, Column: n.Column}
}

// convert returns the value of n. If it cannot be converted, convert reports it
// and returns null.
func (c *converter) convert(n *yaml.Node, at *step, depth int) *node {
	null := &node{pos: c.position(n)}
	if c.exhausted || !c.afford(n, at, depth) {
		return null
	}
	switch n.Kind {
	case yaml.AliasNode:
		return c.alias(n, at, func() *node { return c.convert(n.Alias, at, depth+1) })
	case yaml.SequenceNode:
		c.open[n] = true
		defer delete(c.open, n)
		list := &node{kind: listKind, pos: c.position(n), items: make([]*node, 0, len(n.Content))}
		for i, item := range n.Content {
			list.items = append(list.items, c.convert(item, at.item(i), depth+1))
		}
		return list
	case yaml.MappingNode:
		m := &node{kind: mapKind, pos: c.position(n), entries: make([]entry, 0, len(n.Content)/2)}
		c.pairs(n, &filling{node: m, quiet: c.inAlias > 0}, at, depth, false)
		return m
	}
	value, err := scalarValue(n)
	if _, isText := value.(string); !isText && n.Style&yaml.TaggedStyle == 0 && c.tags.on(n) {
		value = n.Value
	}
	if err != nil {
		c.report(false, c.position(n), at, "%v", err)
	}
	null.value = value
	if _, ok := value.(string); !ok {
		null.written = n.Value
	}
	return null
}

// afford counts the values and the text that aliases add, and reports whether the limits
// allow them.
func (c *converter) afford(n *yaml.Node, at *step, depth int) bool {
	if c.inAlias > 0 {
		c.nodes++
		c.bytes += len(n.Value)
	}
	switch {
	case depth > maxDepth:
		c.report(false, c.position(n), at, "is nested more than %d levels deep", maxDepth)
	case c.nodes > maxAliasedNodes || c.bytes > maxAliasedBytes:
		c.report(false, c.position(n), nil,
			"the aliases (*name) of this file repeat too much of it: they would add more than %d values or %d MiB of text",
			maxAliasedNodes, maxAliasedBytes>>20)
	default:
		return true
	}
	c.exhausted = true
	return false
}

// alias calls expand, unless the value that n refers to contains n.
func (c *converter) alias(n *yaml.Node, at *step, expand func() *node) *node {
	if c.open[n.Alias] {
		c.report(false, c.position(n), at, "the alias refers to a value that contains the alias itself")
		return &node{pos: c.position(n)}
	}
	c.inAlias++
	defer func() { c.inAlias-- }()
	return expand()
}

// pairs adds the keys of the mapping n to m. As in yaml.v2, and unlike in the
// YAML specification, a merge key replaces equal keys above it.
func (c *converter) pairs(n *yaml.Node, m *filling, at *step, depth int, merging bool) {
	c.open[n] = true
	defer delete(c.open, n)
	for i := 0; i+1 < len(n.Content) && !c.exhausted; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.Value == "<<" && key.Tag == "!!merge" {
			c.merge(value, m, at, depth+1)
			continue
		}
		name := c.convert(key, at, depth+1)
		if name.kind != scalarKind {
			c.report(false, c.position(key), at, "a key must be text, not a list or a map")
			continue
		}
		if c.names && at == nil {
			name.value = key.Value
		}
		next := entry{key: name.value, pos: c.position(key), merged: merging}
		there := at.child(scalarText(name.value))
		next.value = c.convert(value, there, depth+1)
		before, found := m.put(next)
		switch {
		case !found || m.quiet || before.merged:
		case merging:
			c.report(true, before.pos, there,
				"is replaced by the same key from the merge key << below it; put << first to keep this one")
		default:
			c.report(true, c.position(key), there,
				"the key is given twice, first on line %d; the last one is used", before.pos.Line)
		}
	}
}

// merge adds the keys of one map, or of each map of a list, to m. In a list,
// the first map takes precedence.
func (c *converter) merge(n *yaml.Node, m *filling, at *step, depth int) {
	if !c.afford(n, at, depth) {
		return
	}
	sources := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		sources = n.Content
	}
	for _, source := range slices.Backward(sources) {
		target := source
		if source.Kind == yaml.AliasNode {
			target = source.Alias
		}
		switch {
		case c.exhausted:
			return
		case target.Kind != yaml.MappingNode:
			c.report(false, c.position(source), at,
				"the merge key << needs a map, an alias of a map, or a list of these")
			return
		case target == source:
			c.pairs(target, m, at, depth+1, true)
		default:
			c.alias(source, at, func() *node {
				c.pairs(target, m, at, depth+1, true)
				return nil
			})
		}
	}
}

// filling is a map that is being filled.
type filling struct {
	*node
	quiet bool        // duplicate keys are reported elsewhere
	index map[any]int // indexes of the entries by key; nil for a small map
}

// put adds an entry, or replaces the one with the same key, and returns the replaced one.
func (f *filling) put(next entry) (before entry, found bool) {
	if f.index == nil && len(f.entries) >= 16 {
		f.index = make(map[any]int, 2*len(f.entries))
		for i := range f.entries {
			f.index[f.entries[i].key] = i
		}
	}
	if i, ok := f.find(next.key); ok {
		before, f.entries[i] = f.entries[i], next
		return before, true
	}
	if f.index != nil {
		f.index[next.key] = len(f.entries)
	}
	f.entries = append(f.entries, next)
	return entry{}, false
}

// find returns the index of the entry with a key.
func (f *filling) find(key any) (int, bool) {
	if f.index != nil {
		i, ok := f.index[key]
		return i, ok
	}
	i := slices.IndexFunc(f.entries, func(e entry) bool { return e.key == key })
	return i, i >= 0
}

// Digest returns the SHA-512, as hex, of the document as yaml.v2 writes it,
// without the items of a cloud config that Use did not record. create-env records
// it as current_manifest_sha.
func (d *Document) Digest() (string, error) { return d.needed().digest() }

func (n *node) digest() (string, error) {
	sum := sha512.New()
	encoder := yaml2.NewEncoder(sum)
	if err := errors.Join(encoder.Encode(n.ordered()), encoder.Close()); err != nil {
		return "", fmt.Errorf("cannot write the evaluated document as YAML: %v", err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
