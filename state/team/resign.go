package team

import (
	"context"
	"fmt"
)

// NewKey makes a new key for the store. The machine trusts it in addition to the former
// key until KeyRenewed. If an earlier run was killed before KeyRenewed, its new key is
// used. This run must hold the lease.
func (s *Store) NewKey(ctx context.Context) error {
	t := s.trust
	if err := t.require(ctx); err != nil || t.former != nil {
		return err
	}
	k := NewKey()
	former := t.key.Text()
	t.key, t.former = &k, t.key
	return t.remember(ctx, func(p *pin) { p.Former = former })
}

// KeyRenewed removes the former key, which is not trusted any more.
func (s *Store) KeyRenewed(ctx context.Context) error {
	if s.trust.former == nil {
		return nil
	}
	s.trust.former = nil
	return s.trust.remember(ctx, func(p *pin) { p.Former = "" })
}

// SignAgain signs all documents with the present key, except those that are encrypted for
// machines: Rekey and SaveVars have written those. This run must hold the lease, and no
// other run that of a part.
func (c *Copy) SignAgain(ctx context.Context) error {
	return walk(func(name string, k kind) ([]byte, error) {
		if k.sealed || k.unsigned {
			return nil, nil
		}
		d, err := c.load(ctx, name)
		if err == nil && d.Version != "" {
			_, err = c.save(ctx, name, d.Data, d.Version)
		}
		return d.Data, err
	})
}

// Rekey replaces all documents that are encrypted for machines, except the vars store and
// the key. again encrypts the content of one for other recipients. This run must hold the
// lease, and no other run that of a part.
func (c *Copy) Rekey(ctx context.Context, again func(name string, sealed []byte) ([]byte, error)) error {
	return walk(func(name string, k kind) ([]byte, error) {
		changes := k.sealed && !k.unsigned && name != varsName
		if !changes && k.parts == nil && k.documents == nil {
			return nil, nil
		}
		d, err := c.load(ctx, name)
		if err != nil || d.Version == "" || !changes {
			return d.Data, err
		}
		data, err := again(name, d.Data)
		if err == nil {
			_, err = c.save(ctx, name, data, d.Version)
		}
		return d.Data, err
	})
}

// Seen is a document of a store, as shown to a person who decides whether to trust it.
type Seen struct {
	Name    string
	Content []byte // content without the proof
	Writer  string // empty: unknown
	Written string // empty: unknown
	Doubt   *ProofError
	// Remade is true if the next deploy writes the document again: Trust removes it, if it is
	// doubtful.
	Remade  bool
	version string
	proof   proof
}

// Examined is the content of a store, with the doubts about it.
type Examined struct {
	Fingerprint string // fingerprint of the key that would be trusted
	Trusted     string // fingerprint of the key that this machine trusts; empty: none
	Made        bool   // true: the key is new
	Documents   []Seen
	key         Key
}

// Doubtful reports whether the person has to decide something.
func (e *Examined) Doubtful() bool {
	for _, d := range e.Documents {
		if d.Doubt != nil {
			return true
		}
	}
	return e.Fingerprint != e.Trusted
}

// Examine reads all documents of the store, whether their proofs are valid or not. The
// key is the given one, or that of the store, or that of this machine, or a new one.
func (s *Store) Examine(ctx context.Context) (*Examined, error) {
	p, err := readPin(s.trust.path)
	if err != nil {
		return nil, err
	}
	pinned, _, err := p.keys()
	if err != nil {
		return nil, err
	}
	e := &Examined{}
	if pinned != nil {
		e.Trusted = pinned.Fingerprint()
	}
	given := s.cfg.Given
	k := given.key
	if k == nil && pinned != nil && given.fingerprint == e.Trusted {
		k = pinned
	}
	if k == nil {
		if k, err = s.storedKey(ctx); err != nil {
			return nil, err
		}
		if k == nil {
			k = pinned
		}
		if k != nil && given.fingerprint != "" && k.Fingerprint() != given.fingerprint {
			return nil, s.trust.doubt(keyName, ProofError{Why: NotGiven, Trusted: given.fingerprint, Found: k.Fingerprint()})
		}
	}
	if k == nil && given.fingerprint != "" {
		return nil, fmt.Errorf("cannot trust %s: neither it nor this machine has a state key with the fingerprint %s", s.place, given.fingerprint)
	}
	if k == nil {
		made := NewKey()
		k, e.Made = &made, true
	}
	e.key, e.Fingerprint = *k, k.Fingerprint()
	judge := &trust{store: s, pin: p, key: k}
	if e.Fingerprint != e.Trusted { // The generations that were seen with another key prove nothing.
		judge.pin.Seen = nil
	}
	return e, s.examine(ctx, e, judge)
}

func (s *Store) examine(ctx context.Context, e *Examined, judge *trust) error {
	err := walk(func(name string, k kind) ([]byte, error) {
		if k.unsigned {
			return nil, nil
		}
		d, err := s.raw(ctx, name)
		if err != nil || d.Version == "" {
			return nil, err
		}
		seen := Seen{Name: name, Remade: k.remade, version: d.Version}
		seen.proof, seen.Content, seen.Doubt = judge.judge(name, d.Data)
		if seen.Doubt == nil || seen.Doubt.Why == Older {
			seen.Writer, seen.Written = seen.proof.writer, at(seen.proof.generation)
		}
		e.Documents = append(e.Documents, seen)
		return seen.Content, nil
	})
	if err != nil {
		return err
	}
	return e.findBehind(judge)
}

// Trust makes this machine trust the key and the examined documents. It signs doubtful
// documents unchanged, but a state that is older than its history gets a serial number above
// it. It removes those that are encrypted for machines, which the person has not seen, and
// that a deploy makes again. If any document is doubtful, this run must hold the lease.
func (s *Store) Trust(ctx context.Context, e *Examined) error {
	t := s.trust
	t.key, t.former, t.first, t.ready = &e.key, nil, false, true
	err := t.remember(ctx, func(p *pin) {
		if p.Former = ""; e.Fingerprint != e.Trusted {
			p.Seen = nil
		}
		for _, d := range e.Documents {
			if d.Doubt != nil && d.Doubt.Why == Older {
				p.Seen[d.Name] = d.proof.generation
			}
		}
	})
	if err != nil {
		return err
	}
	for _, d := range e.Documents {
		switch {
		case d.Doubt == nil, d.Doubt.Why == Older:
			if remembered(d.Name) {
				err = t.remember(ctx, func(p *pin) { p.saw(d.Name, d.proof.generation) })
			}
		case d.Remade:
			err = s.removeNow(ctx, d.Name)
		case d.Doubt.Why == Behind:
			var content []byte
			if content, err = Raise(d.Name, d.Content, int(d.Doubt.Seen)); err == nil {
				_, err = s.save(ctx, d.Name, content, d.version)
			}
		default:
			_, err = s.save(ctx, d.Name, d.Content, d.version)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
