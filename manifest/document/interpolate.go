package document

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxFilled limits the size of text that variables add to a document, in bytes.
const maxFilled = 64 << 20

// placeholder matches a variable, ((name)) or ((name.key)), in text.
var placeholder = regexp.MustCompile(`\(\( ?(!?[-/\.\w\pL]+) ?\)\)`)

// splitName splits the text of a placeholder such as !a.b.c into the name of
// the variable and the path into its value, which may be empty.
func splitName(text string) (name, rest string) {
	name, rest, _ = strings.Cut(strings.TrimPrefix(text, "!"), ".")
	return name, rest
}

// lookup returns a variable, or nil if it has no value yet.
type lookup func(name string) *variable

// filler replaces variables by their values.
type filler struct {
	*document
	lookup lookup
	// missing is called for each variable without a value.
	missing func(name string, pos Position, at *step)
	broken  map[string]bool // variables that could not be filled in; nil: not recorded
	filled  int64           // bytes added so far
	over    bool            // the limit was exceeded and reported
}

// fill returns the value with its variables filled in, and changes n. Variables
// without a value stay as they are.
func (f *filler) fill(n *node, at *step, depth int) *node {
	if f.over || depth > maxDepth {
		if !f.over {
			f.over = true
			f.report(false, n.pos, at, "is nested more than %d levels deep", maxDepth)
		}
		return n
	}
	switch n.kind {
	case listKind:
		for i, item := range n.items {
			n.items[i] = f.fill(item, at.item(i), depth+1)
		}
	case mapKind:
		f.fillMap(n, at, depth)
	default:
		if text, ok := n.value.(string); ok && strings.Contains(text, "((") {
			return f.fillText(n, text, at)
		}
	}
	return n
}

// fillMap fills in the values of a map, then its keys.
func (f *filler) fillMap(n *node, at *step, depth int) {
	renamed := false
	for i := range n.entries {
		e := &n.entries[i]
		e.value = f.fill(e.value, at.child(scalarText(e.key)), depth+1)
		renamed = f.fillKey(e, at) || renamed
	}
	if renamed {
		f.checkKeys(n, at)
	}
}

// fillKey fills in the variables of a key, and reports whether that changes the key.
func (f *filler) fillKey(e *entry, at *step) (renamed bool) {
	text, ok := e.key.(string)
	if !ok || !strings.Contains(text, "((") {
		return false
	}
	key := f.fillText(&node{value: text, pos: e.pos}, text, at)
	if key.kind != scalarKind {
		f.report(false, e.pos, at, "the key %s is %s, but keys must be text", text, key.describe())
		return false
	}
	renamed = key.value != e.key
	e.key = key.value
	return renamed
}

// checkKeys reports keys that a map has twice after variables were filled in.
func (f *filler) checkKeys(n *node, at *step) {
	seen := make(map[any]bool, len(n.entries))
	for _, e := range n.entries {
		if seen[e.key] {
			f.report(false, e.pos, at, "with its variables filled in, this key equals another key of the map")
		}
		seen[e.key] = true
	}
}

// fillText fills in the variables of a text. A variable that is the whole text
// keeps its type; within other text, it must be text or a whole number.
func (f *filler) fillText(n *node, text string, at *step) *node {
	matches := placeholder.FindAllStringSubmatchIndex(text, -1)
	if matches == nil {
		return n
	}
	if len(matches) == 1 && matches[0][0] == 0 && matches[0][1] == len(text) {
		v, value := f.value(text[matches[0][2]:matches[0][3]], n.pos, at)
		if value == nil || !f.afford(v.bytes(), n.pos) {
			return n
		}
		if v.loose {
			value = value.at(n.pos)
		}
		return value
	}
	var b strings.Builder
	end, symbolic := 0, n.symbolic
	for _, m := range matches {
		b.WriteString(text[end:m[0]])
		end = m[1]
		name := text[m[2]:m[3]]
		_, value := f.value(name, n.pos, at)
		if value == nil {
			b.WriteString(text[m[0]:m[1]])
			continue
		}
		inner, ok := embedded(value)
		if !ok {
			f.markBroken(name)
			f.report(false, n.pos, at, "the variable ((%s)) is %s, but within other text only text and whole numbers can be filled in%s", Literal(name), value.describe(), Literal(asText(name, value)))
			b.WriteString(text[m[0]:m[1]])
			continue
		}
		if !f.afford(int64(len(inner)), n.pos) {
			return n
		}
		b.WriteString(inner)
		symbolic = symbolic || value.symbolic
	}
	b.WriteString(text[end:])
	return &node{value: b.String(), pos: n.pos, symbolic: symbolic}
}

// asText returns how to give a number as a text, for the end of a message.
func asText(name string, n *node) string {
	if _, isNumber := n.value.(float64); !isNumber || n.kind != scalarKind {
		return ""
	}
	written := cmp.Or(n.written, scalarText(n.value))
	if SecretName(name) {
		written = "..."
	}
	return fmt.Sprintf(`; for a text, put quotes around the number: "%s" in a file, or --var '%s="%s"'`, written, name, written)
}

// embedded returns the text of a value for use inside of a text; ok is false if the value
// cannot be part of a text.
func embedded(n *node) (text string, ok bool) {
	switch v := n.value.(type) {
	case string:
		return v, n.kind == scalarKind
	case int:
		return strconv.Itoa(v), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	}
	return "", false
}

// value returns the variable and the value of a placeholder's text. If there is none, it
// returns nil, after recording the variable as missing or reporting the problem.
func (f *filler) value(text string, pos Position, at *step) (*variable, *node) {
	name, rest := splitName(text)
	v := f.lookup(name)
	if v == nil {
		f.missing(name, pos, at)
		return nil, nil
	}
	v.used = true
	if rest == "" && !strings.HasSuffix(text, ".") {
		return v, v.value
	}
	value, err := v.part(name, rest)
	if err != nil {
		f.markBroken(text)
		f.report(false, pos, at, "((%s)): %v", strings.TrimPrefix(text, "!"), err)
		return nil, nil
	}
	return v, value
}

// markBroken records that the variable of a placeholder is not filled in.
func (f *filler) markBroken(text string) {
	if f.broken != nil {
		name, _ := splitName(text)
		f.broken[name] = true
	}
}

// part returns the part of the value at the path of a placeholder: keys and
// indexes, separated by dots.
func (v *variable) part(name, rest string) (*node, error) {
	path, err := parsePath("/" + strings.ReplaceAll(rest, ".", "/"))
	if err != nil {
		return nil, err
	}
	found, err := walk{path: path}.find(v.value)
	if err == nil {
		return found, nil
	}
	for i, t := range path.tokens {
		if t.kind == indexToken {
			path.tokens[i].kind, path.tokens[i].key = keyToken, strconv.Itoa(t.index)
		}
	}
	if found, again := (walk{path: path}).find(v.value); again == nil {
		return found, nil
	}
	var failure *pathError
	if errors.As(err, &failure) && failure.token == 0 {
		return nil, errors.New(strings.ReplaceAll(failure.message, opPath{}.upTo(0), fmt.Sprintf("the value of %q", name)))
	}
	return nil, fmt.Errorf("in the value of %q, %w", name, err)
}

// afford counts the bytes that variables add, and reports whether the limit allows
// them.
func (f *filler) afford(size int64, pos Position) bool {
	f.filled += size
	if f.filled > maxFilled && !f.over {
		f.over = true
		f.report(false, pos, nil, "the variables make the document larger than %d MiB", maxFilled>>20)
	}
	return !f.over
}

// bytes returns about how many bytes the value adds to a document.
func (v *variable) bytes() int64 {
	if v.size == 0 {
		v.size = v.value.bytes()
	}
	return v.size
}

// bytes returns about how much memory a value uses.
func (n *node) bytes() int64 {
	size := int64(16)
	if text, ok := n.value.(string); ok {
		size += int64(len(text))
	}
	for _, item := range n.items {
		size += item.bytes()
	}
	for _, e := range n.entries {
		size += 16 + int64(len(scalarText(e.key))) + e.value.bytes()
	}
	return size
}

// at returns a deep copy of a value. Nodes without a position get pos.
func (n *node) at(pos Position) *node {
	c := *n
	if c.pos.File == "" {
		c.pos = pos
	}
	c.items = make([]*node, len(n.items))
	for i, item := range n.items {
		c.items[i] = item.at(pos)
	}
	c.entries = make([]entry, len(n.entries))
	for i, e := range n.entries {
		e.value = e.value.at(pos)
		if e.pos.File == "" {
			e.pos = pos
		}
		c.entries[i] = e
	}
	return &c
}
