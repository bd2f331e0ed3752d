package document

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	yaml2 "go.yaml.in/yaml/v2"

	"bootstrap/manifest/gen"
)

// evaluation is one evaluation of a document. Each file is read once.
type evaluation struct {
	*document
	opts        Options
	vars        variables  // variables from flags
	versions    []versions // of releases in runtime configs
	store       *varsStore // nil: there is none
	sourced     variables  // variables from sources
	asked       []string   // names of the asked sources, for messages
	definitions []*definition
	byName      map[string]*definition // the first definition of each name
	chain       []string               // variables being generated, each one needed by the one before it
	keys        *gen.Keys
	missing     []*missing
	missingBy   map[string]*missing // by name of the variable
	generated   []string            // names, in the order of generation
	secrets     Secrets             // values of the used variables
	sketch      any                 // the document with secrets masked; nil unless Read made it
	written     *node               // the document before variables were filled in; nil unless Read made it
	recorded    variables           // values of opts.Recorded that no flag gave
	instance    *Instance           // nil: variables with scope: instance have no value
	unchecked   Problems            // the problems before Read's caller checked the content
}

// newEvaluation returns the evaluation of a document that was parsed.
func newEvaluation(d *document, opts Options) *evaluation {
	return &evaluation{document: d, opts: opts, byName: map[string]*definition{}, keys: &gen.Keys{}, secrets: Secrets{}}
}

// open reads the document and the files of the options, applies the operations and adds
// the cloud config; with byKey, also a cloud config that the document names. It returns
// an error for files that cannot be read, and records problems of their content in the
// document.
func open(ctx context.Context, path string, opts Options, byKey bool) (*evaluation, error) {
	if opts.Recorded != nil {
		return reopen(ctx, opts)
	}
	wanted := cmp.Or(opts.Kind, manifestKind)
	if byKey && path != "-" {
		if err := refuseArchive(path, wanted); err != nil {
			return nil, err
		}
	}
	file, data, err := readDocument(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	e := newEvaluation(parse(file, data), opts)
	if other, found := e.recognized(wanted); byKey && found {
		e.problems = Problems{other}
		return e, nil
	}
	var errs []error
	var ops []operation
	for _, path := range opts.Ops {
		data, err := opts.Pipes.readFile(ctx, "the operations file", path)
		errs = append(errs, err)
		if err == nil {
			ops = append(ops, e.readOperations(path, data)...)
		}
	}
	e.vars, err = e.readVariables(ctx, opts)
	errs = append(errs, err)
	if opts.VarsStore != "" {
		e.store, err = e.openStore(ctx, opts)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || e.problems.failed() {
		return e, err
	}
	if err := e.addCloudConfig(ctx, ops, byKey); err != nil {
		return e, err
	}
	if err := e.addProvider(ctx); err != nil {
		return e, err
	}
	return e, e.addRuntimeConfigs(ctx)
}

// interpolate generates missing variables and fills in all variables.
func (e *evaluation) interpolate(ctx context.Context) error {
	e.readDefinitions()
	if err := e.ask(ctx); err != nil {
		return err
	}
	if err := e.readLinks(ctx); err != nil {
		return err
	}
	e.readUpdateModes()
	e.converge()
	if e.store != nil && e.opts.Generate == Write && len(e.incomplete()) > 0 {
		if !e.store.file.Exists() { // A lost store is reported before what its new one lacks.
			if err := e.generating(ctx); err != nil {
				return err
			}
		}
		if err := e.store.acquire(ctx, e.document); err != nil || e.problems.failed() {
			return err
		}
		e.converge() // another process may have generated values since
		if err := e.generating(ctx); err != nil {
			return err
		}
		if expected := e.expectKeys(); expected && e.opts.Waiting != nil {
			e.opts.Waiting(e.top())
		}
	}
	if e.store != nil && e.opts.Generate == Plan && len(e.incomplete()) > 0 {
		if err := e.generating(ctx); err != nil {
			return err
		}
		if err := e.store.writable(); err != nil {
			return err
		}
	}
	e.collectPlainText(e.root)
	for _, def := range e.definitions {
		if def.kind != "" {
			e.resolve(def.name)
		}
	}
	e.pending = map[string]bool{}
	f := filler{document: e.document, lookup: e.lookup, missing: e.recordMissing, broken: e.pending}
	e.checkFilled(f)
	e.root = f.fill(e.root, nil, 0)
	e.flattenCloudConfig()
	e.warnNumbers()
	for _, def := range e.definitions {
		if !def.each && e.resolve(def.name) == nil && e.missingBy[def.name] == nil {
			e.recordMissing(def.name, def.place.pos, def.place.at)
		}
	}
	e.checkStored()
	e.removeDefinitions()
	for _, m := range e.missing {
		e.pending[m.name] = true
	}
	for name, def := range e.byName {
		switch def.state {
		case planned, blocked, failed:
			e.pending[name] = true
		}
		if def.each {
			e.pending[name] = true
		}
	}
	e.collectSecrets()
	e.hide = e.secrets.replacer()
	return nil
}

// incomplete returns the names of the variables that must be generated.
func (e *evaluation) incomplete() []string {
	var names []string
	for _, def := range e.distinct() {
		if def.kind != "" && def.each == (e.instance != nil) && e.given(def.name) == nil {
			names = append(names, def.name)
		}
	}
	return names
}

// generating reports to the caller which variables will be generated, before that begins.
func (e *evaluation) generating(ctx context.Context) error {
	if names := e.incomplete(); e.opts.Generating != nil && len(names) > 0 {
		return e.opts.Generating(ctx, names, e.store.file.Exists())
	}
	return nil
}

// Typed returns the names of the variables that can be generated, sorted.
func (d *Document) Typed() []string {
	names := []string{}
	for _, def := range d.distinct() {
		if def.kind != "" {
			names = append(names, def.name)
		}
	}
	slices.Sort(names)
	return names
}

// finish returns all problems as an error, or writes the store.
func (e *evaluation) finish(ctx context.Context) (*Document, error) {
	if e.problems.failed() {
		problems := e.problems.sorted()
		return nil, &problems
	}
	if err := e.store.save(ctx); err != nil {
		return nil, err
	}
	return &Document{
		Missing:    e.missingProblems(),
		Unused:     e.unused(),
		Generated:  e.generated,
		Warnings:   e.problems.sorted(),
		evaluation: e,
	}, nil
}

// close unlocks the store; e may be nil.
func (e *evaluation) close() {
	if e != nil {
		e.store.close()
		e.keys.Close()
	}
}

// Document is a document with its operations applied and its variables filled
// in.
type Document struct {
	// Missing reports each variable without a value, at its first use.
	Missing []Problem
	// Unused are the names of given values that are not used.
	Unused []string
	// Generated are the variables that were generated or, with the mode Plan, will be, in
	// order.
	Generated []string
	// Warnings are the problems that do not prevent use of the document.
	Warnings []Problem
	*evaluation
}

// Evaluate applies operations and fills in variables; variables without a value stay. The
// path - stands for opts.Stdin. The document may be any YAML, so only opts can name a
// cloud config. If the content of the files is wrong, the error is a *Problems.
func Evaluate(ctx context.Context, path string, opts Options) (*Document, error) {
	e, err := open(ctx, path, opts, false)
	defer e.close()
	if err != nil {
		return nil, err
	}
	if e.root != nil && !e.problems.failed() {
		if err := e.interpolate(ctx); err != nil {
			return nil, err
		}
	}
	return e.finish(ctx)
}

// Read is like Evaluate, for a caller that checks the content: check reports problems
// with the methods of Value. An empty document and a variable without a value are
// problems, too.
func Read(ctx context.Context, path string, opts Options, check func(top Value)) (*Document, error) {
	e, err := open(ctx, path, opts, true)
	defer e.close()
	if err != nil {
		return nil, err
	}
	if e.root == nil && !e.problems.failed() {
		e.problems = append(e.problems, empty(e.file))
	}
	if e.problems.failed() {
		return e.finish(ctx)
	}
	if foreign, found := e.foreignOperators(); found {
		e.problems = Problems{foreign}
		return e.finish(ctx)
	}
	sketch := e.root.masked(false)
	e.written = e.root.at(Position{})
	if err := e.interpolate(ctx); err != nil {
		return nil, err
	}
	if e.opts.Find != nil && e.opts.Recorded == nil && e.pending != nil {
		if err := e.opts.Find(ctx, e.top(), !e.problems.failed()); err != nil {
			return nil, err
		}
	}
	if e.pending != nil { // nil: another process has damaged the vars store since
		e.problems = append(e.problems, e.missingProblems()...)
		e.checkNames()
		e.unchecked = slices.Clone(e.problems)
		check(e.top())
	}
	e.neededIn(sketch)
	e.sketch = sketch
	return e.finish(ctx)
}

// Check lets a caller report problems in the document after it was evaluated. The error is
// that of check, or a *Problems.
func (d *Document) Check(check func(top Value) error) error {
	if err := check(d.top()); err != nil {
		return err
	}
	if !d.problems.failed() {
		return nil
	}
	problems := d.problems.sorted()
	return &problems
}

func empty(file string) Problem {
	return Problem{Pos: Position{File: file}, Message: "the file is empty"}
}

// Sketch returns the document as YAML for Diff: with operations applied,
// variables not filled in, and plain-text secrets redacted. It is nil after
// Evaluate.
func (d *Document) Sketch() ([]byte, error) {
	if d.sketch == nil {
		return nil, nil
	}
	data, err := yaml2.Marshal(d.sketch)
	if err != nil {
		return nil, fmt.Errorf("cannot write the document as YAML: %v", err)
	}
	return data, nil
}

// stdinName names standard input in messages.
const stdinName = "<stdin>"

// readDocument reads the file at path, or standard input if path is -. It
// returns the file's name for messages.
func readDocument(ctx context.Context, path string, opts Options) (file string, data []byte, err error) {
	if path != "-" {
		data, err = opts.Pipes.readFile(ctx, "the manifest", path)
		return path, data, err
	}
	if slices.Contains(opts.VarsFiles, "-") {
		return stdinName, nil, errors.New("cannot read both the manifest and variables from standard input: write one of them to a file")
	}
	if opts.Stdin == nil {
		return "", nil, errors.New("cannot read the manifest: there is no standard input")
	}
	data, err = opts.Pipes.readOnce(path, func() ([]byte, error) {
		return waited(ctx, func() ([]byte, error) { return readAll("the manifest", "from standard input", opts.Stdin) })
	})
	return stdinName, data, err
}

// readAll reads an open file up to the size limit.
func readAll(what, path string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFileSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read %s %s: %w", what, path, Cause(err))
	case len(data) > MaxFileSize:
		return nil, fmt.Errorf("cannot read %s %s: it is larger than the limit of %d MiB", what, path, MaxFileSize>>20)
	}
	return data, nil
}

// YAML returns the value as create-env writes it.
func (v Value) YAML() ([]byte, error) {
	data, err := yaml2.Marshal(v.node.ordered())
	if err != nil {
		return nil, fmt.Errorf("cannot write the document as YAML: %v", err)
	}
	return data, nil
}

// Find returns the value at a path of operations files, such as
// /releases/name=bosh/url.
func (d *Document) Find(path string) (Value, error) {
	parsed, err := parsePath(path)
	if err != nil {
		return Value{}, fmt.Errorf("the path %q is wrong: %v", shortened(path), err)
	}
	root := d.root
	if root == nil {
		root = &node{}
	}
	found, err := walk{path: parsed}.find(root)
	if err != nil {
		return Value{}, fmt.Errorf("cannot find %s: %v", shortened(path), err)
	}
	return Value{document: d.document, node: found.present(), pos: found.pos}, nil
}
