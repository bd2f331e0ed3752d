package document

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"bootstrap/internal/spelling"
)

// operation is one change of an operations file.
type operation struct {
	index  int    // in its file
	kind   string // replace, remove or test
	path   opPath
	value  *node // nil: it has none
	absent bool  // for test: the path must not exist
	pos    Position
}

// readOperations reads an operations file. Problems of it are recorded in d.
func (d *document) readOperations(file string, data []byte) []operation {
	source := parse(file, data)
	defer func() { d.problems = append(d.problems, source.problems...) }()
	top := source.top()
	if top.node == nil {
		return nil
	}
	if top.node.kind != listKind {
		top.Fail(`an operations file must be a list of operations (lines that begin with "- "), not %s; a file of variables is given with --vars-file`, top.node.describe())
		return nil
	}
	var ops []operation
	for i, item := range top.Items() {
		op := operation{index: i, pos: item.pos}
		if wrong, pos := op.read(item); wrong != "" {
			source.failOperation(i, pos, wrong)
			continue
		}
		warnUnknown(item, []string{"type", "path", "value", "absent", "error"}, belongs{}) // error: of other tools
		ops = append(ops, op)
	}
	return ops
}

// failOperation reports an error of an operation.
func (d *document) failOperation(index int, pos Position, message string) {
	d.problems = append(d.problems, Problem{Pos: pos, Path: fmt.Sprintf("operation [%d]", index), Name: "operation", Message: message})
}

// read reads one operation; wrong describes a mistake in it, or is "".
func (op *operation) read(item Value) (wrong string, pos Position) {
	if item.node == nil || item.node.kind != mapKind {
		kind := "null"
		if item.node != nil {
			kind = item.node.describe()
		}
		return "must be a map with type, path and value, not " + kind, item.pos
	}
	kinds := []string{"replace", "remove", "test"}
	kind := item.Get("type")
	op.kind = kind.raw()
	switch {
	case kind.node == nil:
		return "must have a type: replace, remove or test" + item.misspelt("type"), item.pos
	case !slices.Contains(kinds, op.kind):
		return fmt.Sprintf("the type must be replace, remove or test, but is %q%s", shortened(op.kind), spelling.Suggest(op.kind, kinds)), kind.pos
	}
	path := item.Get("path")
	switch {
	case path.node == nil:
		return "must have a path, such as /releases/name=bosh" + item.misspelt("path"), item.pos
	case path.node.kind != scalarKind:
		return "the path must be text, not " + path.node.describe(), path.pos
	}
	op.pos = path.pos
	parsed, err := parsePath(path.raw())
	if err != nil {
		return fmt.Sprintf("the path %q is wrong: %v", shortened(path.raw()), err), path.pos
	}
	op.path = parsed
	op.value = item.Get("value").node
	absent := item.Get("absent")
	if absent.node != nil {
		flag, ok := absent.node.value.(bool)
		if !ok {
			return "absent must be true or false, not " + absent.node.describe(), absent.pos
		}
		op.absent = flag
	}
	return op.check(item, absent.node != nil)
}

// check returns a mistake in the operation for its type, or "".
func (op *operation) check(item Value, absent bool) (wrong string, pos Position) {
	last := opToken{}
	if n := len(op.path.tokens); n > 0 {
		last = op.path.tokens[n-1]
	}
	// After an optional part, the rest of a path need not exist.
	reached := !slices.ContainsFunc(op.path.tokens, func(t opToken) bool { return t.optional })
	switch {
	case op.kind == "replace" && op.value == nil && item.Get("value").HasKey():
		return "the value is null, which no operation can set; to remove the key, use type: remove", item.Get("value").pos
	case op.kind == "replace" && op.value == nil:
		return "must have a value" + item.misspelt("value"), item.pos
	case op.kind == "remove" && op.value != nil:
		return "must not have a value, since its type is remove; is the type replace meant?", item.Get("value").pos
	case op.kind == "remove" && len(op.path.tokens) == 0:
		return "the whole document cannot be removed", op.pos
	case op.kind == "test" && op.value == nil && !absent:
		return "must have a value, or absent: true" + item.misspelt("value", "absent"), item.pos
	case op.kind != "replace" && last.kind == appendToken && reached:
		return fmt.Sprintf(`the path %q is wrong: "-" means a new item at the end of the list, so there is nothing to %s`, op.path.shown(), op.kind), op.pos
	case op.kind != "replace" && last.insert != overwrite && reached:
		return fmt.Sprintf("the path %q is wrong: :before and :after are only for operations of the type replace", op.path.shown()), op.pos
	}
	return "", Position{}
}

// raw returns the text of a scalar in the file.
func (c Value) raw() string {
	if c.node == nil || c.node.kind != scalarKind {
		return ""
	}
	if text, ok := c.node.value.(string); ok {
		return text
	}
	return c.node.written
}

// misspelt suggests a key of the map that looks like one of the names, or
// returns "".
func (c Value) misspelt(names ...string) string {
	for _, e := range c.node.entries {
		key := scalarText(e.key)
		if near := spelling.Nearest(key, names); near != "" && near != key {
			return fmt.Sprintf("; is %q meant to be %q?", shortened(key), near)
		}
	}
	return ""
}

// apply applies operations in order. An operation that fails is reported and changes
// nothing. Later ones are still applied, except within a value that the failed one would
// have set.
func (d *document) apply(ops []operation) {
	type failure struct {
		op   *operation
		path string
		err  error
	}
	var failures []failure
	if d.root == nil && len(ops) > 0 {
		d.root = &node{pos: Position{d.file, 1, 1}}
	}
	for i := range ops {
		op := &ops[i]
		path := strings.ReplaceAll(op.path.text, "?", "")
		if slices.ContainsFunc(failures, func(f failure) bool {
			return f.op.kind == "replace" && (path == f.path || strings.HasPrefix(path, f.path+"/"))
		}) {
			continue
		}
		if err := op.apply(d); err != nil {
			failures = append(failures, failure{op, path, err})
		}
	}
	for _, f := range failures {
		what := fmt.Sprintf("cannot %s %s", f.op.kind, f.op.path.shown())
		if f.op.kind == "test" {
			what = "the test of " + f.op.path.shown() + " fails"
		}
		d.failOperation(f.op.index, f.op.pos, fmt.Sprintf("%s: %v%s", what, f.err, f.op.advice(f.err, d.root)))
	}
}

// shown returns the path for a message.
func (p opPath) shown() string {
	if p.text == "" {
		return "the whole document"
	}
	return shortened(p.text)
}

// advice returns what to do about a missing value, or "". last is the document
// with the other operations applied.
func (op *operation) advice(err error, last *node) string {
	var failure *pathError
	if !errors.As(err, &failure) || !failure.absent {
		return ""
	}
	before := opPath{text: op.path.text, tokens: op.path.tokens[:failure.token+1]}
	if _, err := (walk{path: before}).find(last); err == nil {
		return "; a later operation adds it, so this one must come after that one: --ops-file flags are applied in order"
	}
	t := op.path.tokens[failure.token]
	switch {
	case strings.Contains(failure.message, "did you mean"), t.kind == indexToken, op.kind == "test":
		return ""
	case op.kind == "remove":
		return `; if it is optional, end that part of the path with "?"`
	}
	return `; if another operations file adds it, that file must come first; to create it here, end that part of the path with "?"`
}

// apply applies one operation to the document.
func (op *operation) apply(d *document) error {
	w := walk{path: op.path, source: op.pos}
	switch op.kind {
	case "replace":
		return w.replace(&d.root, 0, op.value)
	case "remove":
		return w.remove(d.root)
	}
	return op.test(w, d.root)
}

// replace sets the value at the end of the path, beginning with a token at *n.
// If it fails, nothing is changed.
func (w walk) replace(n **node, token int, value *node) error {
	if token == len(w.path.tokens) {
		*n = value
		return nil
	}
	t, here, last := w.path.tokens[token], *n, token == len(w.path.tokens)-1
	switch {
	case t.kind == keyToken && here.kind != mapKind, t.kind != keyToken && here.kind != listKind:
		return w.mismatch(token, here)
	case t.kind == appendToken:
		here.items = append(here.items, value)
		return nil
	case t.kind == keyToken:
		if e := here.find(t.key); e != nil {
			return w.replace(&e.value, token+1, value)
		}
		if !t.optional {
			return w.missingKey(token, here)
		}
		var made *node
		if !last {
			if made = w.container(token + 1); made == nil {
				return w.cannotGrow(token + 1)
			}
		}
		if err := w.replace(&made, token+1, value); err != nil {
			return err
		}
		here.entries = append(here.entries, entry{key: t.key, value: made, pos: w.source})
		return nil
	}
	index, err := w.item(token, here)
	switch {
	case err != nil:
		return err
	case index < 0:
		made := w.matching(t)
		if err := w.replace(&made, token+1, value); err != nil {
			return err
		}
		here.items = append(here.items, made)
	case last && t.insert == insertBefore:
		here.items = slices.Insert(here.items, index, value)
	case last && t.insert == insertAfter:
		here.items = slices.Insert(here.items, index+1, value)
	default:
		return w.replace(&here.items[index], token+1, value)
	}
	return nil
}

// remove removes the value at the path.
func (w walk) remove(n *node) error {
	last := len(w.path.tokens) - 1
	for i := range last {
		next, err := w.step(i, n)
		if err != nil || next == nil {
			return err
		}
		n = next
	}
	found, err := w.step(last, n)
	if err != nil || found == nil {
		return err
	}
	if t := w.path.tokens[last]; t.kind == keyToken {
		n.entries = slices.DeleteFunc(n.entries, func(e entry) bool { return e.key == t.key })
		return nil
	}
	index, err := w.item(last, n)
	if err != nil {
		return err
	}
	n.items = slices.Delete(n.items, index, index+1)
	return nil
}

// test returns an error unless the document fulfils the operation.
func (op *operation) test(w walk, root *node) error {
	found, err := w.find(root)
	if op.value != nil && !op.absent {
		switch {
		case err != nil:
			return err
		case !equal(found, op.value):
			return fmt.Errorf("the value is not the expected one: %s", difference(found, op.value))
		}
		return nil
	}
	if !op.absent {
		return err
	}
	var failure *pathError
	switch {
	case err == nil:
		return errors.New("it exists, but must not")
	case errors.As(err, &failure) && failure.absent && failure.token == len(op.path.tokens)-1:
		return nil
	}
	return err
}

// difference describes two values that are not equal, without showing them.
func difference(found, wanted *node) string {
	if a, b := found.describe(), wanted.describe(); a != b {
		return fmt.Sprintf("%s, not %s", a, b)
	}
	switch found.kind {
	case listKind:
		return fmt.Sprintf("a list of %s, not of %d", count(len(found.items), "item"), len(wanted.items))
	case mapKind:
		for _, e := range wanted.entries {
			if text, ok := e.key.(string); ok && found.find(text) == nil {
				return fmt.Sprintf("a map without the key %q", shortened(text))
			}
		}
		for _, e := range found.entries {
			if text, ok := e.key.(string); ok && wanted.find(text) == nil {
				return fmt.Sprintf("a map with the extra key %q", shortened(text))
			}
		}
	}
	return found.describe() + ", but another one"
}

// equal reports whether two values are equal for create-env.
func equal(a, b *node) bool {
	if a.kind != b.kind || len(a.items) != len(b.items) || len(a.entries) != len(b.entries) {
		return false
	}
	switch a.kind {
	case listKind:
		for i := range a.items {
			if !equal(a.items[i], b.items[i]) {
				return false
			}
		}
		return true
	case mapKind:
		index := make(map[any]*node, len(b.entries))
		for _, e := range b.entries {
			index[e.key] = e.value
		}
		for _, e := range a.entries {
			if other, ok := index[e.key]; !ok || !equal(e.value, other) {
				return false
			}
		}
		return true
	}
	if f, ok := a.value.(float64); ok && math.IsNaN(f) {
		return false
	}
	return settledScalar(a.value) == settledScalar(b.value)
}
