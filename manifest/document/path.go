package document

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"bootstrap/internal/spelling"
)

// opPath is a path of an operations file, for example
// /releases/name=bosh/url?. The path "" is the whole document.
type opPath struct {
	text   string // the text as it is written
	tokens []opToken
}

type tokenKind uint8

const (
	keyToken    tokenKind = iota // the value of a key
	indexToken                   // an item by its index
	matchToken                   // the item with a key and a value, as in name=bosh
	appendToken                  // a new item at the end of a list
)

// insertion says whether a value replaces the item or is inserted before or after it.
type insertion uint8

const (
	overwrite insertion = iota
	insertBefore
	insertAfter
)

// opToken is one part of a path.
type opToken struct {
	kind     tokenKind
	key      string // for keyToken and matchToken
	value    string // for matchToken
	index    int    // for indexToken
	optional bool   // need not exist
	shift    int    // offset from :prev and :next, in items
	insert   insertion
	end      int // where the token ends in the text of the path
}

// upTo returns the text of the path's first n tokens.
func (p opPath) upTo(n int) string {
	if n == 0 {
		return "the top of the document"
	}
	return shortened(p.text[:p.tokens[n-1].end])
}

// shortened puts a text on one line, and replaces the middle of a long one by ….
func shortened(s string) string {
	const longest, begin, end = 240, 160, 60
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		s = strings.Trim(strconv.Quote(s), `"`)
	}
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:begin], "") + "..." + strings.ToValidUTF8(s[len(s)-end:], "")
}

// parsePath reads a path.
func parsePath(text string) (opPath, error) {
	p := opPath{text: text}
	if text == "" {
		return p, nil
	}
	if text[0] != '/' {
		return p, errors.New(`a path must begin with "/"`)
	}
	pieces := strings.Split(text[1:], "/")
	if len(pieces) > maxDepth {
		return p, fmt.Errorf("the path has more than %d parts", maxDepth)
	}
	optional, end := false, 0
	for i, piece := range pieces {
		end += 1 + len(piece)
		token, err := parseToken(piece, i == len(pieces)-1)
		if err != nil {
			return p, err
		}
		if token.insert != overwrite && i < len(pieces)-1 {
			return p, errors.New(":before and :after are only allowed at its end")
		}
		token.end = end
		if token.kind == keyToken || token.kind == matchToken {
			optional = optional || token.optional
			token.optional = optional
		}
		p.tokens = append(p.tokens, token)
	}
	return p, nil
}

// parseToken reads one part of a path.
func parseToken(piece string, last bool) (opToken, error) {
	text, modifiers, _ := strings.Cut(piece, ":")
	modified := len(text) < len(piece)
	text = strings.NewReplacer("~0", "~", "~1", "/", "~7", ":").Replace(text)
	if last && text == "-" {
		if modified {
			return opToken{}, errors.New(`nothing may follow "-", which means a new item at the end of the list`)
		}
		return opToken{kind: appendToken}, nil
	}
	token := opToken{kind: keyToken, optional: strings.HasSuffix(text, "?")}
	if index, err := strconv.Atoi(text); err == nil {
		token = opToken{kind: indexToken, index: index}
	} else if key, value, found := strings.Cut(text, "="); found {
		token.kind, token.key, token.value = matchToken, key, strings.TrimSuffix(value, "?")
	} else {
		token.key = strings.TrimSuffix(text, "?")
	}
	if !modified {
		return token, nil
	}
	for modifier := range strings.SplitSeq(modifiers, ":") {
		if !slices.Contains([]string{"prev", "next", "before", "after"}, modifier) {
			return token, fmt.Errorf(`the modifier %q is unknown: there are :prev, :next, :before and :after; in a name, write ":" as ~7 and "/" as ~1`, ":"+shortened(modifier))
		}
		switch {
		case token.kind == keyToken:
			return token, fmt.Errorf(`":%s" may only follow an index or a match such as name=x, not a key`, modifier)
		case token.insert != overwrite:
			return token, fmt.Errorf(`nothing may follow :before or :after, but ":%s" does`, modifier)
		}
		switch modifier {
		case "prev":
			token.shift--
		case "next":
			token.shift++
		case "before":
			token.insert = insertBefore
		case "after":
			token.insert = insertAfter
		}
	}
	return token, nil
}

// pathError describes why a path cannot be followed.
type pathError struct {
	token   int  // index of the failed token
	absent  bool // the value does not exist
	message string
}

func (e *pathError) Error() string { return e.message }

// walk follows a path.
type walk struct {
	path opPath
	// source is the position for new nodes: that of the operation.
	source Position
}

// mismatch returns the error for a node of the wrong type for a token.
func (w walk) mismatch(token int, n *node) error {
	needs, what := "a map", fmt.Sprintf("the key %q", shortened(w.path.tokens[token].key))
	if kind := w.path.tokens[token].kind; kind != keyToken {
		needs, what = "a list", "an item"
		if kind == appendToken {
			what = "a new item"
		}
	}
	return &pathError{token: token, message: fmt.Sprintf("%s is %s, where %s is needed for %s",
		w.path.upTo(token), n.describe(), needs, what)}
}

// missingKey returns the error for a map without the key of a token.
func (w walk) missingKey(token int, n *node) error {
	var keys []string
	for _, e := range n.entries {
		keys = append(keys, scalarText(e.key))
	}
	key := w.path.tokens[token].key
	there := "it is empty"
	if len(keys) > 0 {
		there = "it has " + enumerate(keys)
	}
	hint := spelling.Suggest(key, keys)
	for _, e := range n.entries {
		if _, isText := e.key.(string); !isText && scalarText(e.key) == key {
			hint = fmt.Sprintf("; YAML reads its key %s as %s, but paths only match text", shortened(key), (&node{value: e.key}).describe())
		}
	}
	if strings.HasPrefix(key, "((") {
		hint += "; variables are not filled in yet when operations are applied"
	}
	return &pathError{token: token, absent: true,
		message: fmt.Sprintf("%s has no key %q; %s%s", w.path.upTo(token), shortened(key), there, hint)}
}

// item returns the index of the item of an index or match token; -1 if it does not exist
// and the token is optional.
func (w walk) item(token int, n *node) (int, error) {
	t := w.path.tokens[token]
	if n.kind != listKind {
		return 0, w.mismatch(token, n)
	}
	index := t.index
	if t.kind == matchToken {
		matches := 0
		for i, item := range n.items {
			if e := item.find(t.key); e != nil && e.value.kind == scalarKind && e.value.value == t.value {
				index = i
				matches++
			}
		}
		if matches == 0 && t.optional {
			return -1, nil
		}
		if matches != 1 {
			return 0, w.noMatch(token, n, matches)
		}
	}
	length := len(n.items)
	index += t.shift
	if index >= length || index < -length {
		return 0, &pathError{token: token, absent: true, message: fmt.Sprintf("%s has no item %d; it has %s",
			w.path.upTo(token), index, count(length, "item"))}
	}
	if index < 0 {
		index += length
	}
	return index, nil
}

// noMatch returns the error for a match token that matches no item, or several.
func (w walk) noMatch(token int, n *node, matches int) error {
	t := w.path.tokens[token]
	where := w.path.upTo(token)
	if matches > 1 {
		return &pathError{token: token, message: fmt.Sprintf("%s has %d items whose %s is %q, and the path must match only one; use an index",
			where, matches, shortened(t.key), shortened(t.value))}
	}
	var values []string
	other := ""
	for _, item := range n.items {
		e := item.find(t.key)
		if e == nil || e.value.kind != scalarKind {
			continue
		}
		text, isText := e.value.value.(string)
		switch {
		case isText:
			values = append(values, text)
		case scalarText(e.value.value) == t.value:
			other = fmt.Sprintf("; YAML reads one as %s, but paths only match text", e.value.describe())
		}
	}
	there := fmt.Sprintf("none of its %s has the key %q as text", count(len(n.items), "item"), shortened(t.key))
	switch {
	case len(n.items) == 0:
		there = "it is empty"
	case len(values) > 0 && secretKey(t.key):
		there = fmt.Sprintf("%s other values", count(len(values), "item")+" have")
	case len(values) > 0:
		there = "it has " + enumerate(values)
		other += spelling.Suggest(t.value, values)
	}
	return &pathError{token: token, absent: true,
		message: fmt.Sprintf("%s has no item whose %s is %q; %s%s", where, shortened(t.key), shortened(t.value), there, other)}
}

// find returns the value at the path. For an optional part that does not exist, it
// returns the value that replace would create.
func (w walk) find(n *node) (*node, error) {
	for i, t := range w.path.tokens {
		next, err := w.step(i, n)
		if err != nil {
			return nil, err
		}
		if next == nil && t.kind == keyToken {
			if i == len(w.path.tokens)-1 {
				return &node{pos: w.source}, nil
			}
			if next = w.container(i + 1); next == nil {
				return nil, w.cannotGrow(i + 1)
			}
		} else if next == nil {
			next = w.matching(t)
		}
		n = next
	}
	return n, nil
}

// step returns the value of one token, or nil if it does not exist and the token
// is optional.
func (w walk) step(token int, n *node) (*node, error) {
	t := w.path.tokens[token]
	switch {
	case t.kind == appendToken:
		return nil, &pathError{token: token, message: `"-" means a new item at the end of the list, so it has no value yet`}
	case t.kind != keyToken:
		index, err := w.item(token, n)
		if err != nil || index < 0 {
			return nil, err
		}
		if t.insert != overwrite {
			return nil, &pathError{token: token, message: ":before and :after are only for a new item, at the end of a path"}
		}
		return n.items[index], nil
	case n.kind != mapKind:
		return nil, w.mismatch(token, n)
	}
	e := n.find(t.key)
	switch {
	case e != nil:
		return e.value, nil
	case t.optional:
		return nil, nil
	}
	return nil, w.missingKey(token, n)
}

// container returns an empty map or list for the token to be created in; nil for
// an index.
func (w walk) container(token int) *node {
	switch w.path.tokens[token].kind {
	case keyToken:
		return &node{kind: mapKind, pos: w.source}
	case matchToken, appendToken:
		return &node{kind: listKind, pos: w.source}
	}
	return nil
}

// matching returns the item that a match token creates.
func (w walk) matching(t opToken) *node {
	value := &node{value: t.value, pos: w.source}
	return &node{kind: mapKind, pos: w.source, entries: []entry{{key: t.key, value: value, pos: w.source}}}
}

func (w walk) cannotGrow(token int) error {
	return &pathError{token: token, message: fmt.Sprintf("%s does not exist, and cannot be created for an index", w.path.upTo(token))}
}

// find returns the entry of a map with a text as its key, or nil.
func (n *node) find(key string) *entry {
	for i := range n.entries {
		if text, ok := n.entries[i].key.(string); ok && text == key {
			return &n.entries[i]
		}
	}
	return nil
}

// count returns a number of things, such as "2 items".
func count(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// enumerate returns names in quotes; of many, only the first ones.
func enumerate(names []string) string {
	const most = 12
	var b strings.Builder
	for i, name := range names {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(names)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(shortened(name)))
	}
	return b.String()
}
