// Package source gets the values of variables from stores of secrets: CredHub, Vault and
// OpenBao, files that sops encrypts, and any program.
package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"bootstrap/internal/guard"
	"bootstrap/internal/proxy"
	"bootstrap/manifest/document"
)

const (
	// atOnce is how many requests a source gets at the same time.
	atOnce = 8
	// answerTime limits the time for one answer. It is long, because a program may wait
	// for a person.
	answerTime = time.Minute
	// maxAnswer limits the size of one answer, in bytes.
	maxAnswer = document.MaxFileSize
)

// Config is shared by the sources of a run.
type Config struct {
	Environ []string // the environment, as KEY=VALUE
	PassEnv []string // names of additional variables that are passed to programs
	Getenv  func(string) string
	Dial    proxy.Dial             // nil: connect directly
	Secret  func(values ...string) // adds values that the redactor hides; may be nil

	dir string // working directory of programs; empty: that of this process
}

// secret hides values in all output from now on.
func (c Config) secret(values ...string) {
	if c.Secret != nil {
		c.Secret(values...)
	}
}

// source is one place with values.
type source interface {
	// open prepares the source for questions; it is called once.
	open(ctx context.Context) error
	// find returns the value of a variable in the types of JSON; nil: the source has
	// none.
	find(ctx context.Context, name string) (any, error)
}

// Kinds lists the kinds of sources, each with the form of its value after the equals
// sign.
func Kinds() [][2]string {
	return [][2]string{
		{"credhub", "https://HOST:8844/PREFIX"},
		{"vault", "https://HOST:8200/MOUNT/PREFIX"},
		{"exec", "PROGRAM"},
		{"sops", "FILE"},
	}
}

// Check returns a mistake in a source as a person writes it. Its errors contain no
// password.
func Check(text string) error {
	kind, at, _ := strings.Cut(text, "=")
	known := slices.ContainsFunc(Kinds(), func(k [2]string) bool { return k[0] == kind })
	switch {
	case !known || at == "":
		var forms []string
		for _, k := range Kinds() {
			forms = append(forms, k[0]+"="+k[1])
		}
		return errors.New("want one of " + strings.Join(forms, ", "))
	case kind == "credhub" || kind == "vault":
		_, err := address(kind, at)
		return err
	}
	return nil
}

// address reads the address of a server. The host is empty if the environment names the
// server.
func address(kind, text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "/" + strings.TrimPrefix(text, "/")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("want a URL such as %s=https://host/path", kind) // the text may contain a password
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the address has only a host and a path; credentials are taken from the environment")
	case u.Scheme != "" && u.Hostname() == "":
		return nil, fmt.Errorf("want a URL such as %s=https://host/path", kind)
	case u.Scheme != "" && !safe(u):
		return nil, errors.New("want https://, because the token and the values must not be read on the way; http:// only to this machine")
	case kind == "vault" && strings.Trim(u.Path, "/") == "":
		return nil, errors.New("the address lacks the mount of the key-value engine, as in vault=https://host:8200/secret")
	}
	return u, nil
}

// safe reports whether nobody on the network can read data that is sent to an address.
func safe(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname())
}

// Remote reports whether a source is reached over the network.
func Remote(text string) bool {
	return strings.HasPrefix(text, "credhub=") || strings.HasPrefix(text, "vault=")
}

// Sources asks its sources for variables, for each variable only once.
type Sources struct {
	config Config
	time   time.Duration // time limit of one answer
	mu     sync.Mutex    // held during Ask
	list   []opened
	known  map[string]*document.Answer // known answers; nil: no source has the variable
}

// opened is a source with its name.
type opened struct {
	source
	name string
	open bool
}

// New returns sources, in the order in which they are asked. The texts must have passed
// Check. It sends no requests.
func New(list []string, c Config) (*Sources, error) {
	s := &Sources{config: c, time: answerTime, known: map[string]*document.Answer{}}
	for _, text := range list {
		if err := Check(text); err != nil {
			return nil, fmt.Errorf("cannot use --var-source: %w", err)
		}
		kind, at, _ := strings.Cut(text, "=")
		one := opened{name: text}
		switch kind {
		case "credhub":
			one.source = &credhub{config: c, at: at}
		case "vault":
			one.source = &vault{config: c, at: at}
		case "exec":
			one.source = &program{config: c, path: at}
		case "sops":
			one.source = &sops{config: c, file: at}
		}
		s.list = append(s.list, one)
	}
	return s, nil
}

// Error says that a source failed.
type Error struct {
	Source   string // the source as the user wrote it
	Variable string // the requested variable
	Others   int    // number of other variables with the same error
	Err      error  // contains no value
}

func (e *Error) Error() string {
	others := ""
	switch {
	case e.Others == 1:
		others = " and another one"
	case e.Others > 1:
		others = fmt.Sprintf(" and %d others", e.Others)
	}
	return fmt.Sprintf("cannot get the variable ((%s))%s from %s: %v", e.Variable, others, e.Source, e.Err)
}

func (e *Error) Name() string { return "variable-source" }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Ask returns the values of variables. It asks a source only for variables that the
// sources before it do not have. The error is an *Error if a source fails.
func (s *Sources) Ask(ctx context.Context, names []string) (document.Answers, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rest []string
	for _, name := range names {
		if _, known := s.known[name]; !known {
			rest = append(rest, name)
		}
	}
	answers := document.Answers{Values: map[string]document.Answer{}}
	for i := range s.list {
		one := &s.list[i]
		answers.Asked = append(answers.Asked, one.name)
		if len(rest) == 0 {
			continue
		}
		values, err := s.ask(ctx, one, rest)
		switch {
		case ctx.Err() != nil:
			return document.Answers{}, ctx.Err()
		case err != nil:
			s.hide(values)
			return document.Answers{}, err
		}
		var lacking []string
		for j, name := range rest {
			if values[j] == nil {
				lacking = append(lacking, name)
			} else {
				s.known[name] = &document.Answer{Source: one.name, Value: values[j]}
			}
		}
		rest = lacking
	}
	for _, name := range rest {
		s.known[name] = nil
	}
	for _, name := range names {
		if a := s.known[name]; a != nil {
			answers.Values[name] = *a
		}
	}
	return answers, nil
}

// ask asks one source. If there is an error, values contains the answers before it.
func (s *Sources) ask(ctx context.Context, one *opened, names []string) (values []any, err error) {
	if !one.open {
		if err := s.within(ctx, one.source.open); err != nil {
			return nil, &Error{Source: one.name, Variable: names[0], Others: len(names) - 1, Err: err}
		}
		one.open = true
	}
	values = make([]any, len(names))
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, name := range names {
		if limited.Err() != nil {
			break
		}
		group.Go(guard.Func(func() error {
			err := s.within(limited, func(ctx context.Context) (err error) {
				values[i], err = one.find(ctx, name)
				return err
			})
			if err != nil {
				return &Error{Source: one.name, Variable: name, Err: err}
			}
			return nil
		}))
	}
	return values, group.Wait()
}

// within calls do with the deadline of an answer.
func (s *Sources) within(ctx context.Context, do func(context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, s.time, fmt.Errorf("no answer within %s", s.time))
	defer cancel()
	err := do(limited)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil && limited.Err() != nil:
		return context.Cause(limited)
	}
	return err
}

// hide passes received values to the redactor before an error is shown: the output of a
// program about one variable may contain another one.
func (s *Sources) hide(values []any) {
	for _, a := range s.known {
		if a != nil {
			values = append(values, a.Value)
		}
	}
	for _, v := range values {
		texts(v, func(text string) { s.config.secret(text) })
	}
}

// texts calls f with each text in a value, except user names.
func texts(value any, f func(string)) {
	switch v := value.(type) {
	case string:
		f(v)
	case []any:
		for _, item := range v {
			texts(item, f)
		}
	case map[string]any:
		for key, item := range v {
			if key != "username" {
				texts(item, f)
			}
		}
	}
}

// fromJSON reads JSON, with integers as int or uint64. Its errors do not show the
// values.
func fromJSON(data []byte) (any, error) {
	var value any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, errors.New("the answer is not valid JSON")
	}
	return settled(value), nil
}

// settled converts the numbers of a value to Go's types.
func settled(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, err := strconv.Atoi(v.String()); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return u
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case []any:
		for i, item := range v {
			v[i] = settled(item)
		}
	case map[string]any:
		for key, item := range v {
			v[key] = settled(item)
		}
	}
	return value
}
