package document

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Change is the kind of a difference.
type Change string

// The kinds of differences.
const (
	Changed Change = "changed"
	Added   Change = "added"
	Removed Change = "removed"
)

// Difference is a value that two documents do not share.
type Difference struct {
	// Path contains the names of list items, or their indexes if they have no
	// names: instance_groups.page.jobs.web.properties.port.
	Path string `json:"path"`
	Kind Change `json:"kind"`
	// Old and New are the values as YAML on one line, shortened. Old is empty for
	// an added value, New for a removed one.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// String returns one line: "~ path: old -> new", "+ path: new" or
// "- path: old".
func (d Difference) String() string {
	path := d.Path
	if path == "" {
		path = "(document)"
	}
	switch d.Kind {
	case Added:
		return "+ " + path + ": " + d.New
	case Removed:
		return "- " + path + ": " + d.Old
	}
	return "~ " + path + ": " + d.Old + " -> " + d.New
}

// Diff compares two YAML documents, such as sketches, value by value. Items of a list are
// matched by name, id or key if each item of both lists has a different one; otherwise by
// index. An empty document counts as an empty map.
func Diff(before, after []byte) ([]Difference, error) {
	from, err := parseSide("old", before)
	if err != nil {
		return nil, err
	}
	to, err := parseSide("new", after)
	if err != nil {
		return nil, err
	}
	var d differ
	d.compare(nil, from, to)
	return d.found, nil
}

func parseSide(which string, data []byte) (*node, error) {
	d := parse(which, data)
	if d.problems.failed() {
		return nil, fmt.Errorf("cannot compare the %s document: %w", which, &d.problems)
	}
	if d.root == nil {
		return &node{kind: mapKind}, nil
	}
	return d.root, nil
}

// differ collects the differences of two trees.
type differ struct{ found []Difference }

// identity returns a text that is the same only for equal scalars; a NaN equals itself.
func identity(value any) string {
	value = settledScalar(value)
	return fmt.Sprintf("%T %q\n", value, scalarText(value))
}

// add records that a value was changed, added (before is nil) or removed
// (after is nil).
func (d *differ) add(at *step, before, after *node) {
	found := Difference{Path: at.String()}
	switch {
	case before == nil:
		found.Kind, found.New = Added, shown(after.flow(), 0)
	case after == nil:
		found.Kind, found.Old = Removed, shown(before.flow(), 0)
	default:
		from, to := before.flow(), after.flow()
		start := commonPrefix(from, to)
		found.Kind, found.Old, found.New = Changed, shown(from, start), shown(to, start)
	}
	d.found = append(d.found, found)
}

// compare records the differences of two values at the same place.
func (d *differ) compare(at *step, before, after *node) {
	switch {
	case before.kind != after.kind:
		d.add(at, before, after)
	case before.kind == mapKind:
		d.compareMembers(at, keyed(before.entries), keyed(after.entries))
	case before.kind == listKind:
		d.compareLists(at, before, after)
	case identity(before.value) != identity(after.value):
		d.add(at, before, after)
	}
}

// member is a value of a map, or an item of a list whose items have names.
type member struct {
	id    string // unique among its siblings
	name  string // name in paths
	value *node
}

// keyed returns the values of a map by their keys. Keys that create-env reads back as the
// same key, such as 1.0 and 1, get numbers.
func keyed(entries []entry) []member {
	members := make([]member, len(entries))
	count := make(map[string]int, len(entries))
	for i, e := range entries {
		id := identity(e.key)
		count[id]++
		members[i] = member{fmt.Sprint(id, count[id]), scalarText(e.key), e.value}
	}
	return members
}

// named returns the items of a list by the value of a key; ok is false unless each item
// has a different value.
func named(list *node, key string) (members []member, ok bool) {
	seen := map[string]bool{}
	for _, item := range list.items {
		if item.kind != mapKind {
			return nil, false
		}
		e := item.find(key)
		if e == nil || e.value.kind != scalarKind || e.value.value == nil {
			return nil, false
		}
		name := scalarText(e.value.value)
		if seen[name] {
			return nil, false
		}
		seen[name] = true
		members = append(members, member{name, name, item})
	}
	return members, true
}

// compareMembers compares the members that both sides have, then records those
// that only one of them has.
func (d *differ) compareMembers(at *step, before, after []member) {
	later := make(map[string]*node, len(after))
	for _, m := range after {
		later[m.id] = m.value
	}
	earlier := make(map[string]bool, len(before))
	for _, m := range before {
		earlier[m.id] = true
		if now := later[m.id]; now != nil {
			d.compare(at.child(m.name), m.value, now)
		} else {
			d.add(at.child(m.name), m.value, nil)
		}
	}
	for _, m := range after {
		if !earlier[m.id] {
			d.add(at.child(m.name), nil, m.value)
		}
	}
}

func (d *differ) compareLists(at *step, before, after *node) {
	for _, key := range []string{"name", "id", "key"} {
		from, ok := named(before, key)
		to, also := named(after, key)
		if ok && also {
			d.compareMembers(at, from, to)
			d.compareOrder(at, from, to)
			return
		}
	}
	for i := range max(len(before.items), len(after.items)) {
		switch {
		case i >= len(after.items):
			d.add(at.item(i), before.items[i], nil)
		case i >= len(before.items):
			d.add(at.item(i), nil, after.items[i])
		default:
			d.compare(at.item(i), before.items[i], after.items[i])
		}
	}
}

// compareOrder records that the items of both lists have another order.
func (d *differ) compareOrder(at *step, before, after []member) {
	from, to := shared(before, after), shared(after, before)
	if !slices.EqualFunc(from.items, to.items, func(a, b *node) bool { return a.value == b.value }) {
		d.add(at, from, to)
	}
}

// shared returns a list of the names of the members that others have, too.
func shared(members, others []member) *node {
	known := make(map[string]bool, len(others))
	for _, m := range others {
		known[m.id] = true
	}
	list := &node{kind: listKind}
	for _, m := range members {
		if known[m.id] {
			list.items = append(list.items, &node{value: m.name})
		}
	}
	return list
}

// isPlaceholder reports whether a text is one variable and nothing else.
func isPlaceholder(text string) bool {
	m := placeholder.FindStringIndex(text)
	return m != nil && m[0] == 0 && m[1] == len(text)
}

// longestShown limits how many bytes of a value are shown.
const longestShown = 100

// commonPrefix returns the length of the beginning that two texts share.
func commonPrefix(one, other string) int {
	n := 0
	for n < len(one) && n < len(other) && one[n] == other[n] {
		n++
	}
	return n
}

// shown shortens a text, but keeps the byte at from, where it begins to differ from
// another text.
func shown(text string, from int) string {
	const before = longestShown / 3
	lead := ""
	if from > longestShown-before && len(text) > longestShown {
		start := min(from, len(text)) - before
		for start > 0 && !utf8.RuneStart(text[start]) {
			start--
		}
		lead, text = "...", text[start:]
	}
	if len(text) <= longestShown {
		return lead + text
	}
	end := longestShown
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return lead + text[:end] + "..."
}

// flow returns a value as YAML on one line.
func (n *node) flow() string {
	var b bytes.Buffer
	n.writeFlow(&b)
	return b.String()
}

func (n *node) writeFlow(b *bytes.Buffer) {
	separate := func(i int) {
		if i > 0 {
			b.WriteString(", ")
		}
	}
	switch n.kind {
	case listKind:
		b.WriteByte('[')
		for i, item := range n.items {
			separate(i)
			item.writeFlow(b)
		}
		b.WriteByte(']')
	case mapKind:
		b.WriteByte('{')
		for i, e := range byName(n.entries) {
			separate(i)
			b.WriteString(flowScalar(e.key))
			b.WriteString(": ")
			e.value.writeFlow(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString(flowScalar(n.value))
	}
}

// byName puts the name of a map first, where people look for it.
func byName(entries []entry) []entry {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(btoi(b.key == "name"), btoi(a.key == "name")) })
	return entries
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// flowScalar returns a scalar as YAML on one line.
func flowScalar(value any) string {
	text, ok := value.(string)
	if !ok {
		if value == nil {
			return "null"
		}
		return scalarText(value)
	}
	_, isText := plainValue(text).(string)
	plain := isText && text == strings.TrimSpace(text) && !strings.ContainsAny(text[:1], "-?:,[]{}#&*!|>'\"%@`<") || text == masked || placeholder.MatchString(text)
	plain = plain && !strings.Contains(text, ": ") && !strings.Contains(text, " #") && !strings.ContainsAny(text, ",[]{}") && !strings.HasSuffix(text, ":")
	for _, r := range text {
		plain = plain && r != utf8.RuneError && unicode.IsPrint(r)
	}
	if plain {
		return text
	}
	return strconv.Quote(text)
}
