package document

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bootstrap/internal/failure"
	"bootstrap/internal/guard"
)

// variable is the value of ((name)).
type variable struct {
	value  *node
	origin string // for messages, for example "--var-file"
	// loose is true if parts of the value have no position in a file. They get the
	// position at which they are filled in.
	loose  bool
	secret bool  // generated, kept in the vars store, or from a source
	file   bool  // a text from --var-file
	used   bool  // true: the document uses it
	size   int64 // size of the value, in bytes; 0 until it is computed
}

// variables are given values by name.
type variables map[string]*variable

// readVariables reads the values from flags. In this order, later ones replace earlier
// ones: the environment, files of variables, single files, the values of opts.FlagsFile,
// single values; with opts.PipedLast, standard input at the end. A name with dots sets a
// part of a map.
func (d *document) readVariables(ctx context.Context, opts Options) (variables, error) {
	vars := variables{}
	var errs []error
	for _, prefix := range opts.VarsEnv {
		errs = append(errs, vars.addEnvironment(prefix, opts.Environ))
	}
	isLast := func(path string) bool { return opts.PipedLast && path == "-" }
	for _, path := range opts.VarsFiles {
		if !isLast(path) {
			errs = append(errs, d.addVarsFile(ctx, vars, path, opts))
		}
	}
	for i, arg := range opts.VarFiles {
		errs = append(errs, vars.addFile(ctx, i, arg, opts.Pipes))
	}
	errs = append(errs, d.addFlagsFile(ctx, vars, opts.FlagsFile))
	for i, arg := range opts.Vars {
		errs = append(errs, d.addValue(vars, i, arg))
	}
	if slices.ContainsFunc(opts.VarsFiles, isLast) {
		errs = append(errs, d.addVarsFile(ctx, vars, "-", opts))
	}
	return vars, errors.Join(errs...)
}

// set gives a variable its value. A name with dots sets a part of a map.
func (vars variables) set(name string, v *variable) error {
	pieces := strings.Split(name, ".")
	if len(pieces) > maxDepth {
		return fmt.Errorf("cannot use a variable of %s: its name has more than %d parts", v.origin, maxDepth)
	}
	if len(pieces) == 1 {
		vars[name] = v
		return nil
	}
	top := vars[pieces[0]]
	if top == nil {
		top = &variable{value: &node{kind: mapKind, pos: v.value.pos}, origin: v.origin}
		vars[pieces[0]] = top
	}
	top.loose, top.file = top.loose || v.loose, top.file || v.file
	n := top.value
	for i, piece := range pieces[1:] {
		if n.kind != mapKind {
			return fmt.Errorf("cannot set the variable %q of %s: the value of %q is %s, not a map",
				shortened(name), v.origin, shortened(strings.Join(pieces[:i+1], ".")), n.describe())
		}
		e := n.find(piece)
		if e == nil {
			n.entries = append(n.entries, entry{key: piece, value: &node{kind: mapKind, pos: v.value.pos}, pos: v.value.pos})
			e = &n.entries[len(n.entries)-1]
		}
		if i == len(pieces)-2 {
			e.value = v.value
		}
		n = e.value
	}
	return nil
}

// addEnvironment adds PREFIX_name=VALUE, the value read as YAML.
func (vars variables) addEnvironment(prefix string, environ []string) error {
	if prefix == "" {
		return errors.New("cannot read variables from the environment: the prefix is empty")
	}
	var errs []error
	for _, setting := range environ {
		name, text, _ := strings.Cut(setting, "=")
		name, found := strings.CutPrefix(name, prefix+"_")
		if !found {
			continue
		}
		value, err := parseValue(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot read the environment variable %s_%s as YAML: %v", prefix, name, err))
			continue
		}
		if _, isText := value.value.(string); isText && strings.HasPrefix(text, "-----BEGIN ") {
			value.value = text // YAML would put the lines of a key or certificate into one
		}
		errs = append(errs, vars.set(name, &variable{value: value, loose: true, origin: "--vars-env " + prefix}))
	}
	return errors.Join(errs...)
}

// addVarsFile adds the keys of a YAML file; the path - stands for opts.Piped.
func (d *document) addVarsFile(ctx context.Context, vars variables, path string, opts Options) error {
	data := opts.Piped
	if path != "-" {
		var err error
		if data, err = opts.Pipes.readFile(ctx, "the variables file", path); err != nil {
			return err
		}
	}
	return vars.addEntries(d.namedValues("the variables file", path, data), "--vars-file "+path)
}

// addEntries adds the entries of a map, the keys of which are text.
func (vars variables) addEntries(values []entry, origin string) error {
	// A whole value is set before its parts.
	slices.SortStableFunc(values, func(a, b entry) int {
		return strings.Count(a.key.(string), ".") - strings.Count(b.key.(string), ".")
	})
	var errs []error
	for _, e := range values {
		errs = append(errs, vars.set(e.key.(string), &variable{value: e.value, origin: origin}))
	}
	return errors.Join(errs...)
}

// namedValues returns the entries of a YAML file that maps names to values. The keys are
// the texts in the file. Problems are recorded in d.
func (d *document) namedValues(what, path string, data []byte) []entry {
	source := parseNames(path, data)
	top := source.top()
	if top.node != nil && top.node.kind != mapKind {
		hint := ""
		if top.node.kind == listKind {
			hint = "; a list of operations is given with --ops-file"
		}
		top.Fail(`%s must be a map (lines "name: value"), not %s%s`, what, top.node.describe(), hint)
	}
	d.problems = append(d.problems, source.problems...)
	if top.node == nil {
		return nil
	}
	return top.node.entries
}

// CheckValues reports what is wrong with a text that maps names to values, such as a
// vars store; what and path are for messages. The error is a *Problems.
func CheckValues(what, path string, data []byte) error {
	var d document
	d.namedValues(what, path, data)
	if other, found := notStore(path, data); found {
		d.problems = Problems{other}
	}
	if !d.problems.failed() {
		return nil
	}
	problems := d.problems.sorted()
	return &problems
}

// addFile adds NAME=PATH. The value is the text of the file.
func (vars variables) addFile(ctx context.Context, index int, arg string, pipes *Pipes) error {
	name, path, found := strings.Cut(arg, "=")
	if !found || name == "" || path == "" {
		return fmt.Errorf("cannot use --var-file number %d: expected NAME=PATH", index+1)
	}
	data, err := pipes.readFile(ctx, "the file of --var-file "+name+":", path)
	if err != nil {
		return err
	}
	value := &node{value: string(data), pos: Position{path, 1, 1}}
	return vars.set(name, &variable{value: value, file: true, origin: "--var-file"})
}

// addValue adds NAME=VALUE. The value is read as YAML. A text is not changed, except that
// the quotes around it are removed.
func (d *document) addValue(vars variables, index int, arg string) error {
	name, text, found := strings.Cut(arg, "=")
	if !found || name == "" {
		return fmt.Errorf("cannot use --var number %d: expected NAME=VALUE", index+1)
	}
	if text == "" {
		return fmt.Errorf(`cannot use --var %s=: the value is empty; for an empty text write '%s=""'`, shortened(name), shortened(name))
	}
	value, err := parseValue(text)
	if err != nil {
		return fmt.Errorf(`cannot read the value of --var %s as YAML: %v (to put quotes around the value, write '%s="VALUE"')`, shortened(name), err, shortened(name))
	}
	plain := strings.TrimSpace(text)
	_, isText := value.value.(string)
	switch {
	case value.kind != scalarKind:
	case isText:
		value.value = unquoted(text)
	case value.value == nil && strings.HasPrefix(plain, "#"):
		d.report(true, Position{File: "--var " + shortened(name)}, nil,
			`the value is null, because YAML reads a text that begins with # as a comment; to set that text, put quotes around it: '%s="#..."'`, shortened(name))
	}
	return vars.set(name, &variable{value: value, loose: true, origin: "--var"})
}

// unquoted removes a pair of quotes around a text.
func unquoted(s string) string {
	if n := len(s); n >= 2 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') {
		return s[1 : n-1]
	}
	return s
}

// parseValue reads a value given as YAML. Its errors do not show the value.
func parseValue(text string) (*node, error) {
	if len(text) > MaxFileSize {
		return nil, fmt.Errorf("it is larger than the limit of %d MiB", MaxFileSize>>20)
	}
	d := parse("", []byte(text))
	for _, problem := range d.problems {
		if !problem.Warning {
			return nil, errors.New(strings.TrimPrefix(problem.Message, notYAML))
		}
	}
	if d.root == nil {
		return &node{}, nil
	}
	return d.root, nil
}

// FileError says that a file of the user cannot be read. It wraps fs.ErrNotExist if the
// file does not exist.
type FileError struct{ Err error }

func (e *FileError) Error() string { return e.Err.Error() }

// Name returns the name of the error's page; empty: there is none.
func (e *FileError) Name() string {
	if errors.Is(e, fs.ErrNotExist) {
		return "file-missing"
	}
	return ""
}

func (e *FileError) ExitCode() failure.Code {
	if errors.Is(e, fs.ErrNotExist) {
		return failure.NoState
	}
	return failure.Manifest
}
func (e *FileError) Unwrap() error { return e.Err }

// Pipes keeps what was read from pipes and from standard input, which can be read only
// once. The zero value is empty.
type Pipes struct {
	mu   sync.Mutex
	data map[string][]byte // by path
}

// readOnce returns what was read at the path before, or reads it. A nil p keeps nothing.
func (p *Pipes) readOnce(path string, read func() ([]byte, error)) ([]byte, error) {
	if p == nil {
		return read()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if data, found := p.data[path]; found {
		return data, nil
	}
	data, err := read()
	if err != nil {
		return nil, err
	}
	if p.data == nil {
		p.data = map[string][]byte{}
	}
	p.data[path] = data
	return data, nil
}

// readFile is like the function, but reads a pipe only once.
func (p *Pipes) readFile(ctx context.Context, what, path string) ([]byte, error) {
	if !isPipe(path) {
		return readFile(ctx, what, path)
	}
	return p.readOnce(path, func() ([]byte, error) { return readFile(ctx, what, path) })
}

// isPipe reports whether a path, which may begin with ~, names a pipe or another file that
// can be read only once.
func isPipe(path string) bool {
	expanded, err := ExpandHome(path)
	if err != nil {
		return false
	}
	info, err := os.Stat(expanded)
	return err == nil && !info.IsDir() && !info.Mode().IsRegular()
}

// readFile reads a file or pipe of the user up to the size limit. The path may
// begin with ~; what describes the file. The error is a *FileError.
func readFile(ctx context.Context, what, path string) ([]byte, error) {
	data, err := readPath(ctx, what, path)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, &FileError{Err: err}
	}
	return data, nil
}

func readPath(ctx context.Context, what, path string) ([]byte, error) {
	expanded, err := ExpandHome(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s %s: cannot find the home directory: %v", what, path, err)
	}
	if isPipe(expanded) {
		return readPipe(ctx, what, path, expanded, mostUnopened, mostPipe)
	}
	return readOpened(what, path, expanded, func() {})
}

// mostUnopened is how long a named pipe may have no writer, and mostPipe how long its
// writer may take.
const (
	mostUnopened = time.Minute
	mostPipe     = 30 * time.Minute
)

// readPipe reads a pipe or another file that may block.
func readPipe(ctx context.Context, what, path, expanded string, unopened, most time.Duration) ([]byte, error) {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := func(why string) func() {
		return func() { cancel(fmt.Errorf("cannot read %s %s: %s", what, path, why)) }
	}
	timer := guard.AfterFunc(ctx, unopened, late(fmt.Sprintf("it is a pipe that no program has opened for writing within %v; each command reads it again: write a file", unopened)))
	defer timer.Stop()
	end := guard.AfterFunc(ctx, most, late(fmt.Sprintf("it is a pipe that did not end within %v", most)))
	defer end.Stop()
	return waited(limited, func() ([]byte, error) { return readOpened(what, path, expanded, func() { timer.Stop() }) })
}

// waited reads a pipe or another file that may block, until ctx ends. Then the read
// continues in the background, because it cannot be ended.
func waited(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	var data []byte
	done := guard.Start(ctx, func() (err error) {
		data, err = read()
		return err
	})
	select {
	case err := <-done:
		return data, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readOpened reads a file or pipe; path is for messages. It calls opened before it reads.
func readOpened(what, path, expanded string, opened func()) ([]byte, error) {
	file, err := os.Open(expanded)
	opened()
	if err != nil {
		return nil, fmt.Errorf("cannot read %s %s: %w", what, path, Cause(err))
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("cannot read %s %s: it is a directory", what, path)
	}
	return readAll(what, path, file)
}

// ExpandHome replaces ~ or ~name at the beginning of a path by the home
// directory.
func ExpandHome(path string) (string, error) {
	name, rest, _ := strings.Cut(path, "/")
	if !strings.HasPrefix(name, "~") {
		return path, nil
	}
	var home string
	if name == "~" {
		dir, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		home = dir
	} else {
		u, err := user.Lookup(name[1:])
		if err != nil {
			return "", err
		}
		home = u.HomeDir
	}
	return filepath.Join(home, rest), nil
}

// Cause returns the reason of an error of package os, without the system call
// and the path.
func Cause(err error) error {
	if failure, ok := errors.AsType[*fs.PathError](err); ok {
		return failure.Err
	}
	return err
}
