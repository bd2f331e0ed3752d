package document

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Change says what happened to a value.
type Change string

// The changes.
const (
	Changed Change = "changed"
	Added   Change = "added"
	Removed Change = "removed"
)

// Difference is one place in which two documents differ.
type Difference struct {
	// Path is in the author's spelling, with the names of list items that have
	// one: instance_groups.page.jobs.web.properties.port.
	Path string `json:"path"`
	Kind Change `json:"kind"`
	// Old and New are the values as YAML on one line, shortened; empty where
	// there is none.
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

// Diff compares two YAML documents, such as sketches, value by value. Items of
// lists are matched by their name, id or key, else by what is equal in their
// order. An empty document counts as an empty map.
func Diff(before, after []byte) ([]Difference, error) {
	one, err := parseSide("old", before)
	if err != nil {
		return nil, err
	}
	other, err := parseSide("new", after)
	if err != nil {
		return nil, err
	}
	d := differ{sums: map[*node]sum{}}
	d.compare(nil, one, other)
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

// sum is a digest of a value that equal ones share.
type sum [sha256.Size]byte

// differ compares two trees.
type differ struct {
	sums  map[*node]sum
	found []Difference
}

// sum returns the digest of a value. Maps do not depend on the order of their
// keys.
func (d *differ) sum(n *node) sum {
	if s, ok := d.sums[n]; ok {
		return s
	}
	h := sha256.New()
	switch n.kind {
	case listKind:
		fmt.Fprintf(h, "list %d\n", len(n.items))
		for _, item := range n.items {
			s := d.sum(item)
			h.Write(s[:])
		}
	case mapKind:
		fmt.Fprintf(h, "map %d\n", len(n.entries))
		lines := make([]string, len(n.entries))
		for i, e := range n.entries {
			s := d.sum(e.value)
			lines[i] = identity(e.key) + string(s[:])
		}
		slices.Sort(lines)
		for _, line := range lines {
			h.Write([]byte(line))
		}
	default:
		h.Write([]byte(identity(n.value)))
	}
	s := sum(h.Sum(nil))
	d.sums[n] = s
	return s
}

// identity returns a text that equal scalars share, and no others; a NaN is
// equal to itself.
func identity(value any) string {
	value = settledScalar(value)
	return fmt.Sprintf("%T %q\n", value, scalarText(value))
}

func (d *differ) note(kind Change, at *step, before, after *node) {
	found := Difference{Path: at.String(), Kind: kind}
	switch kind {
	case Added:
		found.New = shown(after.flow(), 0)
	case Removed:
		found.Old = shown(before.flow(), 0)
	default:
		one, other := before.flow(), after.flow()
		from := apart(one, other)
		found.Old, found.New = shown(one, from), shown(other, from)
	}
	d.found = append(d.found, found)
}

// compare notes the differences of two values at the same place.
func (d *differ) compare(at *step, before, after *node) {
	switch {
	case d.sum(before) == d.sum(after):
	case before.kind != after.kind || before.kind == scalarKind:
		d.note(Changed, at, before, after)
	case before.kind == mapKind:
		d.compareMaps(at, before, after)
	default:
		d.compareLists(at, before, after)
	}
}

func (d *differ) compareMaps(at *step, before, after *node) {
	later := make(map[string]*node, len(after.entries))
	for _, e := range after.entries {
		later[identity(e.key)] = e.value
	}
	known := make(map[string]bool, len(before.entries))
	for _, e := range before.entries {
		key := identity(e.key)
		known[key] = true
		there := at.child(scalarText(e.key))
		if now := later[key]; now != nil {
			d.compare(there, e.value, now)
		} else {
			d.note(Removed, there, e.value, nil)
		}
	}
	for _, e := range after.entries {
		if !known[identity(e.key)] {
			d.note(Added, at.child(scalarText(e.key)), nil, e.value)
		}
	}
}

func (d *differ) compareLists(at *step, before, after *node) {
	for _, key := range []string{"name", "id", "key"} {
		one, ok := namesOf(before, key)
		other, also := namesOf(after, key)
		if ok && also {
			d.compareNamed(at, before, after, one, other)
			return
		}
	}
	d.compareInOrder(at, before.items, after.items)
}

// namesOf returns what the items of a list are called, if each has a name of
// its own.
func namesOf(list *node, key string) ([]string, bool) {
	names := make([]string, len(list.items))
	seen := map[string]bool{}
	for i, item := range list.items {
		if item.kind != mapKind {
			return nil, false
		}
		e := item.find(key)
		if e == nil || e.value.kind != scalarKind || e.value.value == nil {
			return nil, false
		}
		names[i] = scalarText(e.value.value)
		if seen[names[i]] {
			return nil, false
		}
		seen[names[i]] = true
	}
	return names, true
}

func (d *differ) compareNamed(at *step, before, after *node, one, other []string) {
	in := func(list []string) func(string) bool {
		set := make(map[string]bool, len(list))
		for _, name := range list {
			set[name] = true
		}
		return func(name string) bool { return !set[name] }
	}
	later := make(map[string]*node, len(other))
	for i, name := range other {
		later[name] = after.items[i]
	}
	for i, name := range one {
		if now := later[name]; now != nil {
			d.compare(at.child(name), before.items[i], now)
		} else {
			d.note(Removed, at.child(name), before.items[i], nil)
		}
	}
	gone, isNew := in(other), in(one)
	for i, name := range other {
		if isNew(name) {
			d.note(Added, at.child(name), nil, after.items[i])
		}
	}
	stayed := slices.DeleteFunc(slices.Clone(one), gone)
	order := slices.DeleteFunc(slices.Clone(other), isNew)
	if !slices.Equal(stayed, order) {
		d.note(Changed, at, textList(stayed), textList(order))
	}
}

func textList(texts []string) *node {
	list := &node{kind: listKind}
	for _, text := range texts {
		list.items = append(list.items, &node{value: text})
	}
	return list
}

// compareInOrder keeps as many equal items as it can in their order, and
// compares what lies between them in pairs.
func (d *differ) compareInOrder(at *step, before, after []*node) {
	i, j := 0, 0
	for _, pair := range append(d.common(before, after), [2]int{len(before), len(after)}) {
		for i < pair[0] && j < pair[1] {
			d.compare(at.item(j), before[i], after[j])
			i, j = i+1, j+1
		}
		for ; i < pair[0]; i++ {
			d.note(Removed, at.item(i), before[i], nil)
		}
		for ; j < pair[1]; j++ {
			d.note(Added, at.item(j), nil, after[j])
		}
		i, j = pair[0]+1, pair[1]+1
	}
}

// common returns the places of a longest sequence of items that both lists
// have.
func (d *differ) common(before, after []*node) [][2]int {
	equal := func(i, j int) bool { return d.sum(before[i]) == d.sum(after[j]) }
	var pairs [][2]int
	start := 0
	for start < len(before) && start < len(after) && equal(start, start) {
		pairs = append(pairs, [2]int{start, start})
		start++
	}
	one, other := len(before), len(after)
	var tail [][2]int
	for one > start && other > start && equal(one-1, other-1) {
		one, other = one-1, other-1
		tail = append(tail, [2]int{one, other})
	}
	slices.Reverse(tail)
	rows, columns := one-start, other-start
	// A table for lists that have next to nothing in common would eat the
	// machine; they are compared in pairs.
	if rows > 0 && columns > 0 && rows <= 1<<22/columns {
		length := make([][]int32, rows+1)
		for i := range length {
			length[i] = make([]int32, columns+1)
		}
		for i := rows - 1; i >= 0; i-- {
			for j := columns - 1; j >= 0; j-- {
				if equal(start+i, start+j) {
					length[i][j] = length[i+1][j+1] + 1
				} else {
					length[i][j] = max(length[i+1][j], length[i][j+1])
				}
			}
		}
		for i, j := 0, 0; i < rows && j < columns; {
			switch {
			case equal(start+i, start+j):
				pairs = append(pairs, [2]int{start + i, start + j})
				i, j = i+1, j+1
			case length[i+1][j] >= length[i][j+1]:
				i++
			default:
				j++
			}
		}
	}
	return append(pairs, tail...)
}

// isPlaceholder tells whether a text is one variable and nothing else.
func isPlaceholder(text string) bool {
	m := placeholder.FindStringIndex(text)
	return m != nil && m[0] == 0 && m[1] == len(text)
}

// longestShown is how many characters of a value are shown.
const longestShown = 100

// apart returns where two texts begin to differ.
func apart(one, other string) int {
	n := 0
	for n < len(one) && n < len(other) && one[n] == other[n] {
		n++
	}
	return n
}

// shown shortens a text, so that the byte from, at which it begins to differ
// from another, can be seen.
func shown(text string, from int) string {
	const before = longestShown / 3
	lead := ""
	if from > longestShown-before && len(text) > longestShown {
		cut := min(from, len(text)) - before
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		lead, text = "...", text[cut:]
	}
	if len(text) <= longestShown {
		return lead + text
	}
	cut := longestShown
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return lead + text[:cut] + "..."
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
	return slices.SortedStableFunc(slices.Values(entries), func(a, b entry) int {
		return cmp.Compare(btoi(b.key == "name"), btoi(a.key == "name"))
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// flowScalar returns a scalar as it can stand in YAML on one line.
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
