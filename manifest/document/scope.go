package document

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bootstrap/manifest/gen"
)

// The scopes of a variable.
const (
	deploymentScope = "deployment" // one value for all instances; the default
	instanceScope   = "instance"   // a value of its own for each instance
)

// Scopes returns the scopes that a variable can have.
func Scopes() []string { return []string{deploymentScope, instanceScope} }

// Instance is one instance of a deployment with several, for variables with scope:
// instance.
type Instance struct {
	Group, ID string
	Name      string // for people, such as web/0
	// Plain is true if its values have the names of the variables, as those of a manifest
	// with one instance; otherwise they have the names NAME/GROUP/ID.
	Plain bool
	Hosts []string // its addresses and host names, which its certificates are for
}

// readScope reads the scope of a definition.
func (e *evaluation) readScope(def *definition) {
	place := def.place.Get("scope")
	switch scope := place.raw(); {
	case scope == instanceScope:
		def.each = e.several() && e.vars[def.name] == nil
	case scope != deploymentScope && !place.IsNull():
		place.Fail("must be %s (one value for all instances, the default) or %s (a value of its own for each instance), but is %q", Literal(deploymentScope), Literal(instanceScope), Literal(cmp.Or(scope, place.Describe())))
	}
}

// several reports whether the document describes several instances.
func (e *evaluation) several() bool {
	if e.opts.Several {
		return true
	}
	groups := e.top().Get("instance_groups")
	if !groups.IsList() {
		return false
	}
	return len(groups.node.items) > 1 || slices.ContainsFunc(groups.Items(), func(g Value) bool {
		n := g.Get("instances")
		return n.IsScalar() && n.raw() != "1" && !placeholder.MatchString(n.raw())
	})
}

// checkScopes reports variables with one value whose options use a variable with a value
// for each instance.
func (e *evaluation) checkScopes() {
	for _, def := range e.definitions {
		if def.each {
			continue
		}
		for _, name := range slices.Concat(def.uses(), def.requires()) {
			if of := e.byName[name]; of != nil && of.each {
				def.place.Fail("the variable %q has one value for all instances, but its options use %q, which has a value of its own for each instance: add scope: instance", Literal(def.name), Literal(name))
				def.state = failed
			}
		}
	}
}

// key returns the name under which the value of a variable is kept: NAME/GROUP/ID for the
// value of an instance. The group may have had another name when the value was generated.
func (e *evaluation) key(name string) string {
	def := e.byName[name]
	if def == nil || !def.each || e.instance == nil || e.instance.Plain {
		return name
	}
	full := name + "/" + e.instance.Group + "/" + e.instance.ID
	if e.recorded[full] != nil || e.store.get(full) != nil {
		return full
	}
	renamed := func(other string) bool {
		of, id := splitKey(other)
		return of == name && id == e.instance.ID
	}
	for other := range e.recorded {
		if renamed(other) {
			return other
		}
	}
	if e.store == nil {
		return full
	}
	if i := slices.IndexFunc(e.store.names, renamed); i >= 0 {
		return e.store.names[i]
	}
	return full
}

// splitKey splits NAME/GROUP/ID. Only the name may contain slashes. Both are empty if the
// key has another form.
func splitKey(key string) (name, id string) {
	parts := strings.Split(key, "/")
	n := len(parts) - 2
	if n < 1 {
		return "", ""
	}
	return strings.Join(parts[:n], "/"), parts[n+1]
}

// ofInstance reports whether a name is that of an instance's value of a variable.
func (e *evaluation) ofInstance(key string) bool {
	name, _ := splitKey(key)
	def := e.byName[name]
	return def != nil && def.each
}

// addHosts adds the addresses and host names of the instance to the options of its
// certificates.
func (e *evaluation) addHosts(def *definition, wanted *gen.Definition) {
	if !def.each || e.instance == nil || def.kind != "certificate" || wanted.Options["is_ca"] == true {
		return
	}
	names, isList := wanted.Options["alternative_names"].([]any)
	if wanted.Options["alternative_names"] != nil && !isList {
		return // gen reports what is wrong
	}
	names = slices.Clone(names)
	for _, host := range e.instance.Hosts {
		if !slices.Contains(names, any(host)) {
			names = append(names, host)
		}
	}
	if len(names) == 0 {
		return
	}
	wanted.Options = maps.Clone(wanted.Options)
	if wanted.Options == nil {
		wanted.Options = map[string]any{}
	}
	wanted.Options["alternative_names"] = names
}

// findings returns the problems of a stored value.
func (e *evaluation) findings(def *definition, v *variable, now time.Time, within time.Duration) []gen.Finding {
	return e.check(def, v, e.resolve, e.certificate, now, within)
}

// check returns the problems of a stored value, with the values of other variables and of
// CAs.
func (e *evaluation) check(def *definition, v *variable, value func(string) *variable, ca func(string) (any, bool), now time.Time, within time.Duration) []gen.Finding {
	wanted := e.wanted(def, value)
	wanted.Name = e.key(def.name)
	list := gen.Check(wanted, v.value.plain(), ca, now, within)
	if !def.each {
		// A certificate of the first of several instances is for its addresses, too, and
		// stays when the others are deleted.
		return slices.DeleteFunc(list, func(f gen.Finding) bool {
			return f.Option == "alternative_names" && def.place.Get("scope").raw() == instanceScope && isFor(v, wanted)
		})
	}
	e.addHosts(def, &wanted)
	if full := gen.Check(wanted, v.value.plain(), ca, now, within); !e.instance.Plain || len(full) <= len(list) {
		return full
	}
	return list // The value was generated for a manifest with one instance, without its address.
}

// StoreExists reports whether the vars store existed when it was last read.
func (d *Document) StoreExists() bool { return d.store != nil && d.store.file.Exists() }

// isFor reports whether a certificate is for all names in the options.
func isFor(v *variable, wanted gen.Definition) bool {
	value, _ := v.value.plain().(map[string]any)
	text, _ := value["certificate"].(string)
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	names, _ := wanted.Options["alternative_names"].([]any)
	return err == nil && !slices.ContainsFunc(names, func(name any) bool { return cert.VerifyHostname(fmt.Sprint(name)) != nil })
}

// Scoped returns the first variable with scope: instance in a text that is not filled in;
// empty: there is none.
func (d *Document) Scoped(text string) string {
	for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
		name, _ := splitName(match[1])
		if def := d.byName[name]; def != nil && def.each {
			return name
		}
	}
	return ""
}

// HasScopes reports whether variables have a value for each instance.
func (d *Document) HasScopes() bool {
	return slices.ContainsFunc(d.definitions, func(def *definition) bool { return def.each })
}

// For returns the document with the values that an instance has of variables with scope:
// instance. Values that it lacks are symbols. It calls check as Read does. Not for several
// goroutines at the same time.
func (d *Document) For(ctx context.Context, of Instance, check func(top Value)) (*Document, error) {
	e := d.of(of)
	if err := e.ask(ctx); err != nil {
		return nil, err
	}
	e.converge()
	e.resolveEach()
	f := filler{document: e.document, lookup: e.lookup, missing: e.recordMissing, broken: e.pending}
	e.root = f.copied(e.root, nil, 0)
	for _, def := range e.definitions {
		if def.each && e.resolve(def.name) == nil && e.missingBy[def.name] == nil {
			e.recordMissing(def.name, def.place.pos, def.place.at)
		}
	}
	for _, m := range e.missing {
		e.pending[m.name] = true
	}
	e.checkStored()
	e.collectSecrets()
	e.hide = e.secrets.replacer()
	e.problems = append(e.problems, e.missingProblems()...)
	check(e.top())
	return e.finish(ctx)
}

// resolveEach resolves the variables with a value for each instance.
func (e *evaluation) resolveEach() {
	for _, def := range e.definitions {
		if !def.each || def.kind == "" {
			continue
		}
		e.resolve(def.name)
		if def.state == planned || def.state == blocked || def.state == failed {
			e.pending[def.name] = true
		}
	}
}

// of returns the evaluation for an instance, before variables with scope: instance are
// filled in. It generates no values until opts.Generate is set.
func (e *evaluation) of(of Instance) *evaluation {
	doc := *e.document
	doc.problems = slices.Clone(e.unchecked)
	doc.pending = maps.Clone(e.pending)
	if doc.pending == nil {
		doc.pending = map[string]bool{}
	}
	own := &evaluation{
		document: &doc, opts: e.opts, instance: &of, vars: e.vars, store: e.store, sourced: maps.Clone(e.sourced), asked: e.asked,
		byName: map[string]*definition{}, keys: e.keys, secrets: maps.Clone(e.secrets), sketch: e.sketch, recorded: e.recorded,
	}
	if own.opts.Generate == Write {
		own.opts.Generate = Plan
	}
	for _, def := range e.definitions {
		if def.each {
			def = &definition{name: def.name, kind: def.kind, place: def.place, each: true, converges: def.converges}
			delete(doc.pending, def.name)
		}
		own.definitions = append(own.definitions, def)
		if own.byName[def.name] == nil {
			own.byName[def.name] = def
		}
	}
	return own
}

// ofEach returns the evaluations for the instances of the options.
func (e *evaluation) ofEach(ctx context.Context) ([]*evaluation, error) {
	var list []*evaluation
	for _, in := range e.opts.Instances {
		own := e.of(in)
		if err := own.ask(ctx); err != nil {
			return nil, err
		}
		list = append(list, own)
	}
	return list, nil
}

// Forget removes the values of an instance from the vars store, except those with the
// names of the variables.
func (d *Document) Forget(ctx context.Context, in Instance) error {
	if d.store == nil || in.Plain {
		return nil
	}
	of := func(name string) bool { return strings.HasSuffix(name, "/"+in.ID) }
	if !slices.ContainsFunc(d.store.names, of) {
		return nil
	}
	defer d.close()
	if err := d.store.acquire(ctx, d.document); err != nil {
		return err
	}
	d.store.remove(of)
	return d.store.save(ctx)
}

// GenerateFor generates the values that instances lack of variables with scope: instance, and
// those that do not match their options and converge. It writes them to the vars store, if
// the document was read with Write. It returns the names of the variables, and of the instances. The error is a *Problems if values cannot
// be generated.
func (d *Document) GenerateFor(ctx context.Context, list []Instance) (names, of []string, err error) {
	lacks := func() (lacking []*evaluation, err error) {
		for _, of := range list {
			e := d.of(of)
			if err := e.ask(ctx); err != nil {
				return nil, err
			}
			e.converge()
			if len(e.incomplete()) > 0 {
				e.opts.Generate = Write
				lacking = append(lacking, e)
			}
		}
		return lacking, nil
	}
	if d.store == nil || d.opts.Generate != Write {
		return nil, nil, nil
	}
	if lacking, err := lacks(); err != nil || len(lacking) == 0 {
		return nil, nil, err
	}
	defer d.close()
	if err := d.store.acquire(ctx, d.document); err != nil {
		return nil, nil, err
	}
	lacking, err := lacks() // another process may have generated some
	if err != nil {
		return nil, nil, err
	}
	for _, e := range lacking {
		e.expectKeys()
	}
	for _, e := range lacking {
		e.resolveEach()
		if e.problems.failed() {
			problems := e.problems.sorted()
			return nil, nil, &problems
		}
		names, of = append(names, e.generated...), append(of, e.instance.Name)
	}
	if err := d.store.save(ctx); err != nil {
		return nil, nil, err
	}
	d.store.keep()
	slices.Sort(names)
	return slices.Compact(names), of, nil
}

// copied is like fill, but does not change n: it copies the values that contain variables.
func (f *filler) copied(n *node, at *step, depth int) *node {
	c := *n
	changed := false
	switch n.kind {
	case listKind:
		for i, item := range n.items {
			next := f.copied(item, at.item(i), depth+1)
			if next != item && !changed {
				c.items, changed = slices.Clone(n.items), true
			}
			if changed {
				c.items[i] = next
			}
		}
	case mapKind:
		renamed := false
		for i, e := range n.entries {
			e.value = f.copied(e.value, at.child(scalarText(e.key)), depth+1)
			renamed = f.fillKey(&e, at) || renamed
			if e != n.entries[i] && !changed {
				c.entries, changed = slices.Clone(n.entries), true
			}
			if changed {
				c.entries[i] = e
			}
		}
		if renamed {
			f.checkKeys(&c, at)
		}
	default:
		if text, ok := n.value.(string); ok && strings.Contains(text, "((") {
			return f.fillText(n, text, at)
		}
	}
	if !changed {
		return n
	}
	return &c
}
