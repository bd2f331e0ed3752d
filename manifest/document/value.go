package document

import (
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"bootstrap/internal/number"
)

// Value is a value of a document, or the place of an absent one. Methods such as Text and
// Items return it in the expected type, and report a problem if it has another type.
type Value struct {
	*document
	node *node // nil: absent or null
	at   *step
	pos  Position // position of the value, or of the map that lacks it
	key  Position // position of the key; line 0 if the value has none
}

// top returns the value of the whole document.
func (d *document) top() Value {
	v := Value{document: d, pos: Position{d.file, 1, 1}}
	if d.root != nil {
		v.node, v.pos = d.root.present(), d.root.pos
	}
	return v
}

// present returns n, or nil if n is null.
func (n *node) present() *node {
	if n.kind == scalarKind && n.value == nil {
		return nil
	}
	return n
}

// Get returns the value of a key.
func (v Value) Get(key string) Value {
	child := Value{document: v.document, at: v.at.child(key), pos: v.pos}
	if v.node == nil {
		return child
	}
	for _, e := range v.node.entries {
		if scalarText(e.key) == key {
			child = v.of(e)
		}
	}
	return child
}

// At returns the value at a path below this one, in the form of Path, such as
// networks[0].subnets[1].range. If a part of the path does not exist, At returns the
// place of the value that lacks it.
func (v Value) At(path string) Value {
	for _, piece := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' }) {
		index, isIndex := strings.CutSuffix(piece, "]")
		i, err := strconv.Atoi(index)
		switch {
		case v.node == nil:
			return v
		case !isIndex:
			v = v.Get(piece)
		case err != nil || v.node.kind != listKind || i < 0 || i >= len(v.node.items):
			return v
		default:
			item := v.node.items[i]
			v = Value{document: v.document, node: item.present(), at: v.at.item(i), pos: item.pos}
		}
	}
	return v
}

// Unsettled reports whether the value or a part of it is pending.
func (v Value) Unsettled() bool {
	if v.node == nil {
		return false
	}
	found := v.Pending()
	v.node.leaves("", false, func(_ string, _ bool, n *node) {
		found = found || Value{document: v.document, node: n.present()}.Pending()
	})
	return found
}

// All returns the keys and values of a map in the order of the file. Calling Get for
// each key would take quadratic time.
func (v Value) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.node == nil {
			return
		}
		for _, e := range v.node.entries {
			if !yield(scalarText(e.key), v.of(e)) {
				return
			}
		}
	}
}

// of returns the value of one of v's entries.
func (v Value) of(e entry) Value {
	return Value{document: v.document, node: e.value.present(), at: v.at.child(scalarText(e.key)), pos: e.value.pos, key: e.pos}
}

// HasKey reports whether the key exists, even if its value is null.
func (v Value) HasKey() bool { return v.key.Line > 0 }

// Precedes reports whether the value's key comes before another one in the
// same file.
func (v Value) Precedes(other Value) bool { return v.key.Line <= other.key.Line }

// Position returns the place of the value in its file, or that of the map
// that lacks it.
func (v Value) Position() Position { return v.pos }

// Path returns the path of the value, for example instance_groups[0].name.
func (v Value) Path() string { return v.at.String() }

// IsNull reports whether the value is absent or null.
func (v Value) IsNull() bool { return v.node == nil }

// IsMap reports whether the value is a map.
func (v Value) IsMap() bool { return v.node != nil && v.node.kind == mapKind }

// IsList reports whether the value is a list.
func (v Value) IsList() bool { return v.node != nil && v.node.kind == listKind }

// IsScalar reports whether the value is text, a number or a boolean.
func (v Value) IsScalar() bool { return v.node != nil && v.node.kind == scalarKind }

// IsText reports whether the value is text, and not a number or a boolean.
func (v Value) IsText() bool {
	if !v.IsScalar() {
		return false
	}
	_, ok := v.node.value.(string)
	return ok
}

// Len returns the number of a list's items or of a map's keys.
func (v Value) Len() int {
	if v.node == nil {
		return 0
	}
	return len(v.node.items) + len(v.node.entries)
}

// Describe names the type of the value, without showing it.
func (v Value) Describe() string {
	if v.node == nil {
		return "null"
	}
	return v.node.describe()
}

// Put gives a map a text for a key, as if the text were at a place of another file; an
// empty text removes the key.
func (v Value) Put(key, text string, from Position) {
	if !v.IsMap() {
		return
	}
	v.node.entries = slices.DeleteFunc(v.node.entries, func(e entry) bool { return e.key == key })
	if text != "" {
		v.node.entries = append(v.node.entries, entry{key: key, value: &node{value: text, pos: from}, pos: from})
	}
	v.found = append(v.found, Found{Path: v.at.path(), Key: key, Text: text, File: from.File, Line: from.Line})
}

// PutPending gives a map a key whose value cannot be checked yet, for a document that is
// wrong already.
func (v Value) PutPending(key string) {
	if v.IsMap() {
		v.Put(key, "", Position{})
		v.node.entries = append(v.node.entries, entry{key: key, value: &node{value: "", symbolic: true, pos: v.pos}, pos: v.pos})
	}
}

// Fail reports an error.
func (v Value) Fail(format string, args ...any) {
	v.report(false, v.pos, v.at, format, args...)
}

// FailKey reports an error at the position of the key.
func (v Value) FailKey(format string, args ...any) {
	v.report(false, v.key, v.at, format, args...)
}

// Warn reports a warning.
func (v Value) Warn(format string, args ...any) {
	v.report(true, v.pos, v.at, format, args...)
}

// WarnKey reports a warning at the position of the key.
func (v Value) WarnKey(format string, args ...any) {
	v.report(true, v.key, v.at, format, args...)
}

// Pending reports whether the value cannot be checked yet, because it contains
// a variable without a value or one that is not generated yet.
func (v Value) Pending() bool {
	if !v.IsScalar() {
		return false
	}
	if v.node.symbolic {
		return true
	}
	text, ok := v.node.value.(string)
	if !ok || len(v.pending) == 0 || !strings.Contains(text, "((") {
		return false
	}
	return slices.ContainsFunc(placeholder.FindAllStringSubmatch(text, -1), func(match []string) bool {
		name, _ := splitName(match[1])
		return v.pending[name]
	})
}

// Map reports whether the value is a map. It reports an error unless the value
// is a map, absent or pending.
func (v Value) Map() bool {
	switch {
	case v.node == nil || v.Pending():
		return false
	case v.node.kind != mapKind:
		v.Fail(`must be a map (lines "key: value"), not %s`, v.node.describe())
		return false
	}
	return true
}

// Items returns the items of a list.
func (v Value) Items() []Value {
	if v.node == nil || v.Pending() {
		return nil
	}
	if v.node.kind != listKind {
		v.Fail(`must be a list (lines that begin with "- "), not %s`, v.node.describe())
		return nil
	}
	items := make([]Value, len(v.node.items))
	for i, item := range v.node.items {
		items[i] = Value{document: v.document, node: item.present(), at: v.at.item(i), pos: item.pos}
	}
	return items
}

// Scalar returns a scalar as text, or "" for any other value. It reports
// nothing.
func (v Value) Scalar() string {
	if !v.IsScalar() {
		return ""
	}
	return scalarText(v.node.value)
}

// Text returns a scalar as text; ok is false if the value is absent, pending
// or not a scalar.
func (v Value) Text() (s string, ok bool) {
	switch {
	case v.node == nil || v.Pending():
		return "", false
	case v.node.kind != scalarKind:
		v.Fail("must be text, not %s", v.node.describe())
		return "", false
	}
	s = scalarText(v.node.value)
	if _, isText := v.node.value.(string); !isText && s != v.node.written {
		v.Warn("YAML reads this as %s, which changes its text; put it in quotes", v.node.describe())
	}
	return s, true
}

// Required returns the text, or reports that it is missing or blank; what
// describes it.
func (v Value) Required(what string) (s string, ok bool) {
	s, ok = v.Text()
	switch {
	case v.node == nil:
		v.Fail("must be provided: %s", what)
		return "", false
	case ok && strings.TrimSpace(s) == "":
		v.Fail("must not be blank: %s", what)
		return "", false
	}
	return s, ok
}

// Texts returns a list of texts; nil if the value is absent.
func (v Value) Texts() []string {
	var result []string
	for _, item := range v.Items() {
		s, ok := item.Text()
		if ok || item.node == nil {
			result = append(result, s)
		}
	}
	return result
}

// Whole returns a whole number within a bound. ok is false if the value is absent, pending,
// not a whole number or outside of the bound; the last two are reported, with the bound.
func (v Value) Whole(b number.Bound) (n int, ok bool) {
	if v.node == nil || v.Pending() {
		return 0, false
	}
	var value any
	switch v.node.kind {
	case listKind:
		value = []any(nil)
	case mapKind:
		value = map[string]any(nil)
	default:
		value = v.node.value
	}
	n, err := b.Of(value)
	if err != nil {
		v.Fail("%s", Literal(err.Error()))
		return 0, false
	}
	return n, true
}

// Flag returns the boolean, or def if the value is absent.
func (v Value) Flag(def bool) bool {
	if v.node == nil || v.Pending() {
		return def
	}
	if b, ok := v.node.value.(bool); ok {
		return b
	}
	v.Fail("must be true or false, not %s", v.node.describe())
	return def
}

// LenientFlag returns a boolean that create-env does not read. A value of another type
// gets a warning, and otherwise is returned.
func (v Value) LenientFlag(otherwise bool) bool {
	if v.node == nil {
		return false
	}
	value := v.node.value
	if on, ok := value.(bool); ok {
		return on
	}
	if text, ok := value.(string); ok {
		value = plainValue(text)
	}
	on, ok := value.(bool)
	if !ok {
		on = otherwise
	}
	if !v.Pending() {
		v.Warn("must be true or false, not %s; %t is used", v.node.describe(), on)
	}
	return on
}

// Seconds returns a duration of at most a year, in seconds or as text such as 2m30s; 0 if
// the value is absent or wrong.
func (v Value) Seconds() time.Duration {
	if v.node == nil || v.Pending() {
		return 0
	}
	const (
		longest = 365 * 24 * time.Hour
		allowed = "must be a number of seconds, or a time such as 90s or 2m30s"
	)
	var seconds float64
	switch value := v.node.value.(type) {
	case int:
		seconds = float64(value)
	case uint64:
		seconds = float64(value)
	case float64:
		seconds = value
	case string:
		d, err := time.ParseDuration(strings.TrimSpace(value))
		if err != nil {
			v.Fail("%s, but is %q", Literal(allowed), value)
			return 0
		}
		seconds = d.Seconds()
	default:
		v.Fail("%s, not %s", Literal(allowed), v.node.describe())
		return 0
	}
	switch {
	case seconds < 0:
		v.Fail("%s, and not negative", Literal(allowed))
		return 0
	case !(seconds <= longest.Seconds()): // also if it is not a number
		v.Fail("%s, of at most a year, but is %q", Literal(allowed), scalarText(v.node.value))
		return 0
	}
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// Properties returns a map in the types of JSON; nil if the value is absent.
// Keys that are not text are reported at every depth.
func (v Value) Properties() map[string]any {
	if !v.Map() {
		return nil
	}
	m, _ := v.property(v.node, v.at).(map[string]any)
	return m
}

// Plain returns the value in the types of JSON; nil if it is absent. Keys that are
// not text are reported at every depth.
func (v Value) Plain() any {
	if v.node == nil {
		return nil
	}
	return v.property(v.node, v.at)
}

// property converts one value of properties.
func (d *document) property(n *node, at *step) any {
	switch n.kind {
	case listKind:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = d.property(item, at.item(i))
		}
		return list
	case mapKind:
		m := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			key, ok := e.key.(string)
			if !ok {
				d.report(false, e.pos, at, "YAML reads a key here as %s, but keys must be text; put it in quotes%s",
					(&node{value: e.key}).describe(), booleans(e.key))
				continue
			}
			m[key] = d.property(e.value, at.child(key))
		}
		return m
	}
	value := settledScalar(n.value)
	if f, ok := value.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		d.report(false, n.pos, at, "must be a finite number; if it is text, put it in quotes")
	}
	return value
}

// booleans explains why a key such as "on" is not text.
func booleans(key any) string {
	if _, ok := key.(bool); ok {
		return " (y, n, yes, no, on and off are booleans)"
	}
	return ""
}

// describe names the type of a value, without the value.
func (n *node) describe() string {
	switch n.kind {
	case listKind:
		return "a list"
	case mapKind:
		return "a map"
	}
	switch v := n.value.(type) {
	case nil:
		return "null"
	case bool:
		return "the boolean " + strconv.FormatBool(v)
	case string:
		return "text"
	}
	return "a number"
}
