package document

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	yaml2 "go.yaml.in/yaml/v2"

	"bootstrap/internal/sealed"
	"bootstrap/internal/spelling"
	"bootstrap/manifest/gen"
)

// Options are the inputs of an evaluation besides the document: operations,
// which are applied first, and variables. Paths may begin with ~.
type Options struct {
	Ops []string // operations files, in their order
	// CloudConfigs are the files of the cloud config, which replace those that the
	// manifest names; together they are one cloud config.
	CloudConfigs []string
	// CloudProvider is a file with the section cloud_provider for a manifest without one,
	// and with the releases, variables and settings of agents for it; empty: none.
	CloudProvider string
	// RuntimeConfigs are files with addons, and with releases, variables and tags, which
	// are added to the manifest in this order.
	RuntimeConfigs []string
	Vars           []string // NAME=VALUE
	VarFiles       []string // NAME=PATH of a file with the value
	VarsFiles      []string // YAML files of names and values
	VarsEnv        []string // prefixes of environment variables: PREFIX_name=VALUE
	Environ        []string // the environment, as KEY=VALUE
	VarsStore      string   // file with generated values; empty: none
	// Keys decrypt the vars store, and have the recipients for a new one; nil: no keys.
	Keys *sealed.Keys
	// SaveStore keeps the vars store in place of writing the file, always encrypted.
	// It is called before the new values are used; nil: the file is written.
	SaveStore  func(ctx context.Context, sealed []byte) error
	StoreName  string // the vars store in messages; empty: VarsStore
	StoreState string // the store of a team in the form of --state, for SaveStore
	// FlagsFile is a file with the flags of an environment; only its variables are read
	// here, and Vars replace them. Empty: none.
	FlagsFile  string
	Generate   Mode     // what to do with variables without a value
	VarSources []string // sources of values, as package manifest/source reads them
	PassEnv    []string // names of environment variables that are passed to programs
	// Ask asks the sources for variables that have no value otherwise; nil: there are
	// no sources. Its error names the source that failed.
	Ask func(ctx context.Context, names []string) (Answers, error)
	// Sources are where releases and stemcells without a URL are looked for, as package
	// catalog reads them.
	Sources Sources
	// Find gives them their URLs, after variables are filled in; nil: nothing does. It
	// reports problems in the document; its error ends the evaluation.
	Find func(ctx context.Context, top Value) error
	// Several is true if the document describes instances of a deployment with several,
	// even if it has only one: variables with scope: instance have no value before
	// Document.For. Documents with several instances are recognized without it.
	Several bool
	// LinkNames returns the names of links that certificates consume, in the order of the
	// wishes; nil: they are unknown, and such certificates are not generated. It may read
	// the document again with the mode Plan and without LinkNames.
	LinkNames func(ctx context.Context, wishes []LinkWish) ([]LinkNames, error)
	// CheckLinks also compares stored certificates with the names of their links.
	CheckLinks bool
	// Instances are the instances of the deployment, for Variables and Rotate.
	Instances []Instance
	// ExpiryWarning is how long before its expiry a stored certificate gets a
	// warning; 0 means 30 days.
	ExpiryWarning time.Duration
	// Lenient is for commands that create no VM: wrong certificates of the agent are
	// warnings, not errors.
	Lenient bool
	Stdin   io.Reader
	Piped   []byte // content of standard input, for the variables file -
	// Pipes keeps what is read from pipes and from Stdin for further evaluations with the
	// same files; nil: there are none.
	Pipes *Pipes
	// Generating is called before variables get generated values, or are planned to. It
	// gets their names, and whether the vars store exists. Its error ends the evaluation,
	// and nothing is written; may be nil.
	Generating func(ctx context.Context, names []string, exists bool) error
	// Waiting is called before the evaluation waits for keys of variables. It gets the
	// document with variables that are not filled in; may be nil.
	Waiting func(top Value)
}

// Sources are where releases and stemcells are looked for, NAME=SOURCE each, and the file
// that keeps what was found; empty: the one beside the manifest.
type Sources struct {
	Releases, Stemcells []string
	LockFile            string
}

// evaluation is one evaluation of a document. Each file is read once.
type evaluation struct {
	*document
	opts        Options
	vars        variables  // variables from flags
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
	instance    *Instance           // nil: variables with scope: instance have no value
	unchecked   Problems            // the problems before Read's caller checked the content
}

// missing is a variable without a value.
type missing struct {
	name string
	pos  Position // position of its first use
	at   *step
	uses int
}

// open reads the document and the files of the options, applies the operations and adds
// the cloud config; with byKey, also a cloud config that the document names. It returns
// an error for files that cannot be read, and records problems of their content in the
// document.
func open(ctx context.Context, path string, opts Options, byKey bool) (*evaluation, error) {
	file, data, err := readDocument(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	e := &evaluation{document: parse(file, data), opts: opts, byName: map[string]*definition{}, keys: &gen.Keys{}, secrets: Secrets{}}
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
	e.root = f.fill(e.root, nil, 0)
	e.flattenCloudConfig()
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

// recordMissing records the use of a variable without a value, unless another
// problem explains why it has none.
func (e *evaluation) recordMissing(name string, pos Position, at *step) {
	if def := e.byName[name]; def != nil && (def.state != untouched || def.each && e.instance == nil) {
		return
	}
	if m := e.missingBy[name]; m != nil {
		m.uses++
		return
	}
	if e.missingBy == nil {
		e.missingBy = map[string]*missing{}
	}
	m := &missing{name: name, pos: pos, at: at, uses: 1}
	e.missing, e.missingBy[name] = append(e.missing, m), m
}

// missingProblems returns one problem for each variable without a value.
func (e *evaluation) missingProblems() Problems {
	names := slices.Collect(maps.Keys(e.vars))
	elsewhere := ""
	if len(e.asked) > 0 {
		elsewhere = ", also not in " + strings.Join(e.asked, ", ")
	}
	if e.store != nil {
		names = append(names, e.store.names...)
	}
	slices.Sort(names)
	given := spelling.Among(names)
	var problems Problems
	for i, m := range e.missing {
		more := ""
		if m.uses > 1 {
			more = fmt.Sprintf(" (it is used in %d places)", m.uses)
		}
		near := ""
		if i < MaxShown { // the others are not shown
			near = given.Nearest(m.name)
		}
		def := e.byName[m.name]
		switch {
		case near != "":
			more += fmt.Sprintf("; did you mean ((%s))?", near)
		case def != nil && def.kind != "" && e.store == nil:
			more += fmt.Sprintf("; its type is %s: with --vars-store FILE it is generated and kept in that file", def.kind)
		case def != nil && def.kind != "":
			more += fmt.Sprintf("; its type is %s, and it is not in the vars store %s, but this command generates nothing", def.kind, e.opts.VarsStore)
		}
		problems = append(problems, Problem{Pos: m.pos, Path: m.at.String(), Name: "variable-missing",
			Message: fmt.Sprintf("the variable ((%s)) has no value%s%s", shortened(m.name), elsewhere, more)})
	}
	problems = problems.sorted()
	// The general advice is given only one time.
	for i := range problems {
		if !strings.Contains(problems[i].Message, ";") {
			problems[i].Message += "; set it with --var NAME=VALUE, or in a file with --vars-file FILE"
			break
		}
	}
	return problems
}

// MissingNames returns the names of the variables without a value, in the order of their
// first use.
func (d *Document) MissingNames() []string {
	var names []string
	for _, m := range d.missing {
		names = append(names, m.name)
	}
	return names
}

// unused returns the names of given values that are not used.
func (e *evaluation) unused() []string {
	var names []string
	for name, v := range e.vars {
		if !v.used && e.byName[name] == nil {
			names = append(names, name)
		}
	}
	if e.store != nil {
		for name, v := range e.store.values {
			if !v.used && e.byName[name] == nil && e.vars[name] == nil && !e.ofInstance(name) {
				names = append(names, name)
			}
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
	sketch := e.root.masked(false)
	if err := e.interpolate(ctx); err != nil {
		return nil, err
	}
	if e.opts.Find != nil && e.pending != nil && !e.problems.failed() {
		if err := e.opts.Find(ctx, e.top()); err != nil {
			return nil, err
		}
	}
	if e.pending != nil { // nil: another process has damaged the vars store since
		e.problems = append(e.problems, e.missingProblems()...)
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
	data, err = opts.Pipes.once(path, func() ([]byte, error) {
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
