package team

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/failure"
	"bootstrap/internal/sealed"
	"bootstrap/internal/wait"
	"bootstrap/state"
	"bootstrap/state/versions"
)

// Config contains the inputs of Open besides the address.
type Config struct {
	Holder  state.Holder
	Getenv  func(string) string // reads variables for credentials and proxies
	Wait    time.Duration       // how long to wait for a lease of another run
	Waiting func(*HeldError)    // called once, before waiting; may be nil

	// Given is the state key or fingerprint that the person gave.
	Given Given
	// Keys decrypt the state key in the store; may be nil.
	Keys *sealed.Keys
	// Say is called when this machine begins to trust something, with the reason; may
	// be nil.
	Say func(message string)

	// TTL and Renew replace the constants of these names; 0: the constants apply.
	TTL, Renew time.Duration
}

func (c Config) ttl() time.Duration {
	if c.TTL > 0 {
		return c.TTL
	}
	return TTL
}

func (c Config) every() time.Duration {
	if c.Renew > 0 {
		return c.Renew
	}
	return Renew
}

// retry is the pause between two checks of a lease that another run holds.
func (c Config) retry() time.Duration { return min(time.Second, c.ttl()/20) }

// Store is the place of one environment: its state, other documents, and its lease. It
// may not be used concurrently; only the renewal of the lease runs during other calls.
type Store struct {
	docs     Documents
	place    string
	argument string
	cfg      Config
	folder   string // begins the names of the documents of a part; empty: the store is no part
	lease    *lease
	trust    *trust
	// removed is true if this run has removed the state, and buried if the store has a note
	// of such a removal.
	removed, buried bool
}

// Place returns the address of the store for people, without passwords. That of an
// instance ends with its name after a #.
func (s *Store) Place() string {
	if name := s.instance(); name != "" {
		return s.place + "#" + name
	}
	return s.place
}

// Argument returns the address of the store for --state, without passwords.
func (s *Store) Argument() string { return s.argument }

// Close ends the connections. A lease that was not given up ends by itself.
func (s *Store) Close() {
	if s.lease != nil {
		s.lease.end()
		<-s.lease.ended
	}
	s.docs.Close()
}

// The time limits of a request with all its tries, and of its first try: the connection
// may be dead without notice.
const (
	requestTime = 20 * time.Second
	firstTry    = 5 * time.Second
)

func (s *Store) get(ctx context.Context, name string) (Document, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var d Document
	err := retry(ctx, func(ctx context.Context) (err error) {
		d, err = s.docs.Get(ctx, s.full(name))
		return err
	})
	return d, err
}

// put writes a document, and repeats the write after an error. It succeeds if the
// document was written in spite of an error.
func (s *Store) put(ctx context.Context, name string, data []byte, was string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err = retry(ctx, func(ctx context.Context) error {
		if version, err = s.docs.Put(ctx, s.full(name), data, was); err == nil {
			return nil
		}
		if d, e := s.docs.Get(ctx, s.full(name)); e == nil && bytes.Equal(d.Data, data) && d.Version != was {
			version = d.Version
			return nil
		}
		return err
	})
	return version, err
}

// retry calls a function up to three times, while it fails for a temporary reason.
func retry(ctx context.Context, do func(context.Context) error) error {
	pauses, tries := wait.Jitter(100*time.Millisecond, time.Second), 0
	for {
		one, cancel := ctx, context.CancelFunc(func() {})
		if tries == 0 {
			one, cancel = context.WithTimeout(ctx, firstTry)
		}
		err := do(one)
		cancel()
		tries++
		passes := err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrChanged) && !isRefused(err)
		if !passes || tries > 3 || wait.For(ctx, pauses.Next()) != nil {
			return err
		}
	}
}

// RefusedError says that the place refuses a request, so repeating it does not help.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

func (e *RefusedError) Unwrap() error { return e.Err }

func isRefused(err error) bool {
	_, refused := errors.AsType[*RefusedError](err)
	return refused
}

// Load returns the state and its version; version is empty if there is no state.
func (s *Store) Load(ctx context.Context) (Document, error) { return s.load(ctx, stateName) }

// load reads a document that need not exist. The error is a *ProofError if its proof is
// not valid, or if it is a state or record that is older than its history. Another run may
// write both in the meantime: then it reads the document again.
func (s *Store) load(ctx context.Context, name string) (Document, error) {
	refused := Document{}
	for {
		d, err := s.raw(ctx, name)
		if err != nil || d.Version == "" {
			return d, err
		}
		content, p, err := s.trust.check(ctx, s.full(name), d.Data)
		if err != nil {
			return Document{}, err
		}
		if name == stateName && p.generation > s.trust.pin.Seen[s.full(name)] {
			old, err := s.behind(ctx, content)
			if err == nil && old != nil && d.Version != refused.Version {
				refused = d
				continue
			}
			if old != nil {
				err = old
			}
			if err != nil {
				return Document{}, err
			}
		}
		d.Data = content
		return d, s.trust.saw(ctx, s.full(name), p)
	}
}

// raw reads a document that need not exist, without any check.
func (s *Store) raw(ctx context.Context, name string) (Document, error) {
	d, err := s.get(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Document{}, nil
	}
	if err != nil {
		return d, failure.Named("state-store", fmt.Errorf("cannot read %s of %s: %w", s.full(name), s.place, err))
	}
	return d, nil
}

// Save replaces the version was of the state; empty: there must be no state. If this run
// does not hold the lease any more, the error is a *LostError; if the state has another
// version, it wraps ErrChanged.
func (s *Store) Save(ctx context.Context, data []byte, was string) (version string, err error) {
	return s.save(ctx, stateName, data, was)
}

func (s *Store) save(ctx context.Context, name string, data []byte, was string) (version string, err error) {
	if err := s.lease.hold(ctx); err != nil {
		return "", err
	}
	version, err = s.putSigned(ctx, name, data, was)
	if errors.Is(err, ErrChanged) {
		if lost, ok := errors.AsType[*LostError](s.lease.renew(ctx)); ok {
			return "", lost
		}
	}
	if err != nil {
		return "", fmt.Errorf("cannot write %s to %s: %w", s.full(name), s.place, err)
	}
	if name == stateName {
		s.removed = false
		s.exhume(ctx)
	}
	return version, nil
}

// putSigned writes a document with a proof.
func (s *Store) putSigned(ctx context.Context, name string, data []byte, was string) (version string, err error) {
	signed, generation, err := s.trust.signAfter(ctx, s.full(name), s.full(name), data)
	if err != nil {
		return "", err
	}
	if version, err = s.put(ctx, name, signed, was); err != nil {
		return "", err
	}
	return version, s.trust.wrote(ctx, s.full(name), generation)
}

// Remove removes the state of an installation and its history, except the versions with
// these serial numbers, and leaves a note of that. This run must hold the lease.
func (s *Store) Remove(ctx context.Context, installation string, keep ...int) error {
	return s.removeAfter(ctx, installation, func() error { return versions.Clear(ctx, s.Versions(), keep) })
}

// Forget is like Remove, but keeps the history.
func (s *Store) Forget(ctx context.Context, installation string) error {
	return s.removeAfter(ctx, installation, func() error { return nil })
}

func (s *Store) removeAfter(ctx context.Context, installation string, first func() error) error {
	if err := s.lease.confirm(ctx); err != nil {
		return fmt.Errorf("cannot remove the deployment state from %s: %w", s.Place(), err)
	}
	err := first()
	for _, k := range slices.Backward(kinds) {
		if err != nil || !k.removed || k.scope&scopeOf(s.folder) == 0 {
			continue
		}
		if s.full(k.name) == s.full(stateName) {
			err = s.bury(ctx, installation)
		}
		if err == nil {
			err = s.remove(ctx, k.name)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot remove the deployment state from %s: %w", s.Place(), err)
	}
	s.removed = true
	return nil
}

// removeNow removes a document, if this run holds the lease.
func (s *Store) removeNow(ctx context.Context, name string) error {
	err := s.lease.confirm(ctx)
	if err == nil {
		err = s.remove(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("cannot remove %s from %s: %w", s.full(name), s.place, err)
	}
	return nil
}

// remove removes a document, whoever has written it: this run has just confirmed its lease,
// or no list names the document any more.
func (s *Store) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return retry(ctx, func(ctx context.Context) error { return s.docs.Remove(ctx, s.full(name)) })
}

// redact replaces the secrets of an address in the text of an error.
func redact(err error, secrets []string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < 4 }) { // A shorter one is part of too many words.
		text = strings.ReplaceAll(text, secret, "<redacted>")
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}
