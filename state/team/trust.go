package team

import (
	"context"
	"crypto/hmac"
	"fmt"
	"maps"
	"slices"
	"time"

	"bootstrap/internal/sealed"
)

// trust checks the documents that are read from a store, and signs those that are written
// there.
type trust struct {
	store *Store
	path  string // path of the pin; empty: nothing is recorded

	ready       bool // the fields below are set
	pin         pin
	key, former *Key // nil: none
	// first is true while only the store itself vouches for the key.
	first bool
}

// find finds the key: the given one, or the one that this machine trusts, or the one in
// the store.
func (t *trust) find(ctx context.Context) error {
	if t.ready {
		return nil
	}
	p, err := readPin(t.path)
	if err != nil {
		return err
	}
	given := t.store.cfg.Given
	pinned, former, err := p.keys()
	if err != nil {
		return err
	}
	key, first := given.key, false
	switch {
	case key != nil && pinned != nil && *key != *pinned:
		former = nil
	case key != nil:
	case pinned != nil && (given.fingerprint == "" || pinned.Fingerprint() == given.fingerprint):
		key = pinned
	default:
		if key, err = t.store.storedKey(ctx); err != nil {
			return err
		}
		if key != nil && given.fingerprint != "" && key.Fingerprint() != given.fingerprint {
			return t.doubt(keyName, ProofError{Why: NotGiven, Trusted: given.fingerprint, Found: key.Fingerprint()})
		}
		first, former = key != nil && given.fingerprint == "", nil
	}
	t.pin, t.key, t.former, t.first, t.ready = p, key, former, first, true
	return nil
}

// keys returns the keys in a pin; nil: none.
func (p pin) keys() (key, former *Key, err error) {
	for text, to := range map[string]**Key{p.Key: &key, p.Former: &former} {
		if text == "" {
			continue
		}
		k, wrong := ParseKey(text)
		if wrong != nil {
			return nil, nil, fmt.Errorf("cannot use the state key that this machine trusts for %s: %w", p.Place, wrong)
		}
		*to = &k
	}
	return key, former, nil
}

func (t *trust) doubt(name string, e ProofError) *ProofError {
	e.Place, e.Argument, e.Document = t.store.place, t.store.argument, name
	return &e
}

// check returns the content and the proof of a document with a valid proof, for saw. Otherwise
// the error is a *ProofError.
func (t *trust) check(ctx context.Context, name string, data []byte) ([]byte, proof, error) {
	if err := t.find(ctx); err != nil {
		return nil, proof{}, err
	}
	p, content, doubt := t.judge(name, data)
	if doubt != nil {
		return nil, p, doubt
	}
	return content, p, nil
}

// judge returns the proof and the content of a document, or why its proof is not valid.
func (t *trust) judge(name string, data []byte) (p proof, content []byte, _ *ProofError) {
	p, content, ok := split(data)
	switch {
	case !ok:
		return p, content, t.doubt(name, ProofError{Why: Unproven})
	case t.key == nil:
		return p, content, t.doubt(name, ProofError{Why: UnknownKey})
	}
	k := t.key
	if p.key != k.id() && t.former != nil {
		k = t.former
	}
	switch {
	case p.key != k.id():
		return p, content, t.doubt(name, ProofError{Why: OtherKey, Trusted: t.key.Fingerprint(), Found: p.key})
	case !hmac.Equal(p.mac, p.sum(*k, name, content)):
		return p, content, t.doubt(name, ProofError{Why: Forged})
	case remembered(name) && p.generation < t.pin.Seen[name]:
		return p, content, t.doubt(name, ProofError{Why: Older, Is: p.generation, Seen: t.pin.Seen[name]})
	}
	return p, content, nil
}

// saw records the key and the generation of a document with a valid proof.
func (t *trust) saw(ctx context.Context, name string, p proof) error {
	if t.first {
		t.store.say(fmt.Sprintf("Trusting %s on this machine from now on: its documents are signed with the state key %s, which its %s gave; %s was written by %s at %s. Nothing else vouches for it: compare it with \"bootstrap state key\" of a colleague, or write state_key: %s into bootstrap.yml",
			t.store.place, t.key.Fingerprint(), keyName, name, p.writer, at(p.generation), t.key.Fingerprint()))
	}
	return t.remember(ctx, func(now *pin) {
		if remembered(name) {
			now.saw(name, p.generation)
		}
	})
}

// remember records the key of the store, and a change, in the pin.
func (t *trust) remember(ctx context.Context, change func(*pin)) error {
	set := func(p *pin) {
		if text := t.key.Text(); p.Key != text {
			p.Key, p.Former, p.Shared = text, "", false
		}
		p.Place = t.store.place
		change(p)
	}
	before := t.pin.copied()
	set(&t.pin)
	t.first = false
	if t.path == "" || t.pin.same(before) {
		return nil
	}
	after, err := changePin(ctx, t.path, set)
	if err == nil {
		t.pin = after
	}
	return err
}

// signAfter returns a document with a proof that is newer than those of the document and of
// another one that this machine has seen. If the store has no key, it makes one.
func (t *trust) signAfter(ctx context.Context, name, other string, content []byte) (data []byte, generation uint64, err error) {
	if err := t.require(ctx); err != nil {
		return nil, 0, err
	}
	generation = max(t.pin.Seen[name]+1, t.pin.Seen[other]+1, uint64(max(0, time.Now().UnixMilli())))
	return t.key.sign(name, generation, t.store.cfg.Holder.Who(), content), generation, nil
}

// require returns an error unless this machine has recorded a key.
func (t *trust) require(ctx context.Context) error {
	if err := t.find(ctx); err != nil {
		return err
	}
	switch given := t.store.cfg.Given; {
	case t.first:
		t.store.say(fmt.Sprintf("Trusting %s on this machine from now on: what is written there is signed with the state key %s, which its %s gave", t.store.place, t.key.Fingerprint(), keyName))
	case t.key != nil:
	case given.fingerprint != "":
		return fmt.Errorf("cannot sign what is written to %s: this machine has no state key with the fingerprint %s, and the store has none in %s that it can decrypt", t.store.place, given.fingerprint, keyName)
	default:
		k := NewKey()
		t.key = &k
	}
	return t.remember(ctx, func(*pin) {})
}

// wrote records that this machine wrote a document.
func (t *trust) wrote(ctx context.Context, name string, generation uint64) error {
	if !remembered(name) {
		return nil
	}
	return t.remember(ctx, func(p *pin) { p.saw(name, generation) })
}

func (s *Store) say(message string) {
	if s.cfg.Say != nil {
		s.cfg.Say(message)
	}
}

// keyFile returns the name of the store's key file for messages. Users who have only a
// passphrase use that of the vars store.
func (s *Store) keyFile(to []string) string {
	if slices.Equal(to, []string{sealed.WithPassphrase}) {
		return "the vars store of " + s.place
	}
	return keyName + " of " + s.place
}

// storedKey returns the key in the store; nil: there is none.
func (s *Store) storedKey(ctx context.Context) (*Key, error) {
	d, err := s.raw(ctx, keyName)
	if err != nil || d.Version == "" {
		return nil, err
	}
	text, _, err := s.cfg.Keys.Open(ctx, s.keyFile(nil), d.Data)
	if err != nil {
		return nil, fmt.Errorf("cannot check who wrote the documents of %s: %w", s.place, err)
	}
	k, err := ParseKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("cannot check who wrote the documents of %s: %s is no state key: %w", s.place, keyName, err)
	}
	return &k, nil
}

// ShareKey writes the key to the store, encrypted to recipients, if it is not there yet.
// If again is true, it replaces the key there.
func (s *Store) ShareKey(ctx context.Context, to []string, again bool) error {
	t := s.trust
	if err := t.require(ctx); err != nil {
		return err
	}
	if t.pin.Shared && !again {
		return nil
	}
	d, err := s.raw(ctx, keyName)
	if err != nil {
		return err
	}
	if d.Version != "" && !again {
		// A key that this machine cannot decrypt is for other recipients, who have
		// changed it.
		k, err := s.storedKey(ctx)
		if err != nil {
			return nil
		}
		if *k == *t.key {
			return t.remember(ctx, func(p *pin) { p.Shared = true })
		}
	}
	data, err := s.cfg.Keys.Seal(ctx, s.keyFile(to), []byte(t.key.Text()+"\n"), to)
	if err != nil {
		return err
	}
	if _, err := s.put(ctx, keyName, data, d.Version); err != nil {
		return fmt.Errorf("cannot write %s to %s: %w", keyName, s.place, err)
	}
	return t.remember(ctx, func(p *pin) { p.Shared = true })
}

// HasKey reports whether the store has its key, encrypted for its readers.
func (c *Copy) HasKey(ctx context.Context) (bool, error) {
	d, err := c.raw(ctx, keyName)
	return d.Version != "", err
}

// KeyShared reports whether the store has the key, according to this machine's record.
func (s *Store) KeyShared() bool { return s.trust.pin.Shared }

// KeyText returns the key of the store, which is secret, and its fingerprint. Both are
// empty if the store has none.
func (s *Store) KeyText(ctx context.Context) (text, fingerprint string, err error) {
	if err := s.trust.find(ctx); err != nil || s.trust.key == nil {
		return "", "", err
	}
	return s.trust.key.Text(), s.trust.key.Fingerprint(), nil
}

// copied returns a copy of a pin.
func (p pin) copied() pin {
	p.Seen = maps.Clone(p.Seen)
	return p
}

// same reports whether two pins are equal.
func (p pin) same(other pin) bool {
	return p.Place == other.Place && p.Key == other.Key && p.Former == other.Former && p.Shared == other.Shared && maps.Equal(p.Seen, other.Seen)
}
