package manifest

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cursor is a place in the document: a value, or where one could be. Its
// methods read the value as what it should be, and report what it is not.
type cursor struct {
	*document
	node *node // nil: absent or null
	at   *step
	pos  Position // of the value, or of what lacks it
	key  Position // of the key; line 0 if the value has none
}

// cursor returns the place of the whole document.
func (d *document) cursor() cursor {
	c := cursor{document: d, pos: Position{d.file, 1, 1}}
	if d.root != nil {
		c.node, c.pos = d.root.present(), d.root.pos
	}
	return c
}

// present returns n, or nil for null.
func (n *node) present() *node {
	if n.kind == scalarKind && n.value == nil {
		return nil
	}
	return n
}

// get returns the place of the key's value.
func (c cursor) get(key string) cursor {
	child := cursor{document: c.document, at: c.at.child(key), pos: c.pos}
	if c.node == nil {
		return child
	}
	for _, e := range c.node.entries {
		if scalarText(e.key) == key {
			child.node, child.pos, child.key = e.value.present(), e.value.pos, e.pos
		}
	}
	return child
}

// given tells whether the key is there, be its value null.
func (c cursor) given() bool { return c.key.Line > 0 }

// fail reports an error.
func (c cursor) fail(format string, args ...any) {
	c.report(false, c.pos, c.at, format, args...)
}

// warn reports a warning.
func (c cursor) warn(format string, args ...any) {
	c.report(true, c.pos, c.at, format, args...)
}

// unsettled tells whether the value still contains a variable, or what stands
// for one, so that nothing can be said about it.
func (c cursor) unsettled() bool {
	if c.node == nil || c.node.kind != scalarKind {
		return false
	}
	if c.node.symbolic {
		return true
	}
	text, ok := c.node.value.(string)
	if !ok || len(c.pending) == 0 || !strings.Contains(text, "((") {
		return false
	}
	return slices.ContainsFunc(placeholder.FindAllStringSubmatch(text, -1), func(match []string) bool {
		name, _ := splitName(match[1])
		return c.pending[name]
	})
}

// section tells whether the value is a map, and warns of keys that nobody
// reads there. An absent one is none, without a report.
func (c cursor) section(name string) bool {
	if c.node == nil || c.unsettled() {
		return false
	}
	if c.node.kind != mapKind {
		c.fail(`must be a map (lines "key: value"), not %s`, c.node.describe())
		return false
	}
	c.warnUnknownKeys(name)
	return true
}

// items returns the places of a list's values.
func (c cursor) items() []cursor {
	if c.node == nil || c.unsettled() {
		return nil
	}
	if c.node.kind != listKind {
		c.fail(`must be a list (lines that begin with "- "), not %s`, c.node.describe())
		return nil
	}
	items := make([]cursor, len(c.node.items))
	for i, item := range c.node.items {
		items[i] = cursor{document: c.document, node: item.present(), at: c.at.item(i), pos: item.pos}
	}
	return items
}

// length returns the number of a list's values; 0 for anything else.
func (c cursor) length() int {
	if c.node == nil || c.node.kind != listKind {
		return 0
	}
	return len(c.node.items)
}

// text returns a scalar as text; ok is false if there is none, or none yet.
func (c cursor) text() (s string, ok bool) {
	switch {
	case c.node == nil || c.unsettled():
		return "", false
	case c.node.kind != scalarKind:
		c.fail("must be text, not %s", c.node.describe())
		return "", false
	}
	s = scalarText(c.node.value)
	if _, isText := c.node.value.(string); !isText && s != c.node.written {
		c.warn("is %s to YAML, which changes its text; put it in quotes", c.node.describe())
	}
	return s, true
}

// need is text for a value that must be there; what says what it is.
func (c cursor) need(what string) (s string, ok bool) {
	s, ok = c.text()
	switch {
	case c.node == nil:
		c.fail("must be provided: %s", what)
		return "", false
	case ok && strings.TrimSpace(s) == "":
		c.fail("must not be blank: %s", what)
		return "", false
	}
	return s, ok
}

// texts returns a list of texts; nil if there is none.
func (c cursor) texts() []string {
	var result []string
	for _, item := range c.items() {
		s, ok := item.text()
		if ok || item.node == nil {
			result = append(result, s)
		}
	}
	return result
}

// whole returns a whole number; ok is false if there is none.
func (c cursor) whole() (n int, ok bool) {
	if c.node == nil || c.unsettled() {
		return 0, false
	}
	switch v := c.node.value.(type) {
	case int:
		return v, true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= math.MaxInt32 {
			return int(v), true
		}
		c.fail("must be a whole number")
		return 0, false
	case string:
		if _, isNumber := numberValue(v).(int); isNumber {
			c.fail("must be a whole number without quotes")
			return 0, false
		}
	}
	c.fail("must be a whole number, not %s", c.node.describe())
	return 0, false
}

// flag returns a boolean, or what it is without one.
func (c cursor) flag(without bool) bool {
	if c.node == nil || c.unsettled() {
		return without
	}
	if b, ok := c.node.value.(bool); ok {
		return b
	}
	c.fail("must be true or false, not %s", c.node.describe())
	return without
}

// lenientFlag returns a boolean that create-env does not read, so that another
// value is no error: it is warned of, and taken as otherwise says.
func (c cursor) lenientFlag(otherwise bool) bool {
	if c.node == nil {
		return false
	}
	value := c.node.value
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
	if !c.unsettled() {
		c.warn("must be true or false, not %s; it is taken as %t", c.node.describe(), on)
	}
	return on
}

// seconds returns a duration given as seconds or as text such as 2m30s.
func (c cursor) seconds() time.Duration {
	if c.node == nil || c.unsettled() {
		return 0
	}
	const longest = 365 * 24 * 60 * 60
	const allowed = "must be a time in seconds, or one such as 90s or 2m30s"
	var d time.Duration
	switch v := c.node.value.(type) {
	case int:
		d = time.Duration(min(max(v, -1), longest)) * time.Second
	case float64:
		if math.IsNaN(v) {
			c.fail(allowed)
			return 0
		}
		d = time.Duration(min(max(v, -1), longest) * float64(time.Second))
	case string:
		parsed, err := time.ParseDuration(strings.TrimSpace(v))
		if err != nil {
			c.fail(allowed)
			return 0
		}
		d = parsed
	default:
		c.fail("%s, not %s", allowed, c.node.describe())
		return 0
	}
	if d < 0 {
		c.fail("%s; it cannot be negative", allowed)
		return 0
	}
	return d
}

// properties returns a map as JSON can take it; nil if there is none. Its keys
// must be text at every depth.
func (c cursor) properties() map[string]any {
	if c.node == nil || c.unsettled() {
		return nil
	}
	if c.node.kind != mapKind {
		c.fail(`must be a map (lines "key: value"), not %s`, c.node.describe())
		return nil
	}
	m, _ := c.property(c.node, c.at).(map[string]any)
	return m
}

// propertiesOrEmpty is properties, but never nil.
func (c cursor) propertiesOrEmpty() map[string]any {
	if m := c.properties(); m != nil {
		return m
	}
	return map[string]any{}
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
				d.report(false, e.pos, at, "a key is %s to YAML, which must be text; put it in quotes%s",
					(&node{value: e.key}).describe(), booleans(e.key))
				continue
			}
			m[key] = d.property(e.value, at.child(key))
		}
		return m
	}
	value := settledScalar(n.value)
	if f, ok := value.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		d.report(false, n.pos, at, "must be a finite number; put it in quotes if it is meant as text")
	}
	return value
}

// booleans explains a key that surprises its author.
func booleans(key any) string {
	if _, ok := key.(bool); ok {
		return " (y, n, yes, no, on and off are booleans)"
	}
	return ""
}

// describe names the kind of a value, without the value.
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
