// Package digest reads multi-digests and compares contents with them.
package digest

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"slices"
	"strings"
)

// Digest is one digest of some contents.
type Digest struct {
	Algorithm string // "sha1", "sha256" or "sha512"
	Hex       string
}

// Multi is a multi-digest, for example "<sha1 hex>;sha256:<hex>": digests of the
// same contents with several algorithms. The strongest one is verified.
type Multi struct {
	text  string
	parts []Digest
}

// Error says that contents do not have the expected digest.
type Error struct {
	Want, Got string // "<sha1 hex>" or "<algorithm>:<hex>"
}

func (e *Error) Error() string {
	return fmt.Sprintf("its digest is %s, not %s as expected", e.Got, e.Want)
}

func (e *Error) Name() string { return "digest" }

// ParseError says what is wrong with the text of a multi-digest.
type ParseError struct {
	Text   string
	Reason string // for example "holds characters that no digest has"
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("cannot read digest %q: it %s", e.Text, e.Reason)
}

// Parse reads "part[;part…]", each part "[algorithm:]hex" and sha1 when none is
// named. Unknown algorithms are tolerated beside a known one. The error is a
// *ParseError.
func Parse(text string) (Multi, error) {
	m := Multi{text: strings.Trim(text, `"`)}
	wrong := func(reason string, args ...any) (Multi, error) {
		return Multi{}, &ParseError{Text: text, Reason: fmt.Sprintf(reason, args...)}
	}
	seen := map[string]bool{}
	for d := range split(m.text) {
		h := New(d.Algorithm)
		_, notHex := hex.DecodeString(d.Hex)
		switch {
		case seen[d.Algorithm]:
			return wrong("holds two digests of the kind %s", d.Algorithm)
		case !alphanumeric(d.Algorithm) || !alphanumeric(d.Hex):
			return wrong("holds characters that no digest has")
		case h != nil && len(d.Hex) != 2*h.Size():
			return wrong("has %d characters in its %s digest, which needs %d", len(d.Hex), d.Algorithm, 2*h.Size())
		case h != nil && notHex != nil:
			return wrong("has characters in its %s digest that are not hex digits", d.Algorithm)
		}
		seen[d.Algorithm] = true
		m.parts = append(m.parts, d)
	}
	if New(m.Strongest().Algorithm) == nil {
		return wrong("holds no digest of a supported kind (sha1, sha256 or sha512)")
	}
	return m, nil
}

// split yields the parts of a multi-digest.
func split(text string) iter.Seq[Digest] {
	return func(yield func(Digest) bool) {
		for part := range strings.SplitSeq(text, ";") {
			algorithm, value, named := strings.Cut(part, ":")
			if !named {
				algorithm, value = "sha1", part
			}
			if part != "" && !yield(Digest{algorithm, value}) {
				return
			}
		}
	}
}

// Share reports whether two multi-digests have a part in common.
func Share(a, b string) bool {
	parts := slices.Collect(split(strings.ToLower(b)))
	for part := range split(strings.ToLower(a)) {
		if slices.Contains(parts, part) {
			return true
		}
	}
	return false
}

// String returns the multi-digest as it was written, without quotes.
func (m Multi) String() string { return m.text }

// Strongest returns the part that is verified; empty if the multi-digest is
// empty.
func (m Multi) Strongest() Digest {
	for _, algorithm := range [...]string{"sha512", "sha256", "sha1"} {
		for _, d := range m.parts {
			if d.Algorithm == algorithm {
				return d
			}
		}
	}
	return Digest{}
}

// Verify reads all of r and returns an *Error unless it has the digest.
func (m Multi) Verify(r io.Reader) error {
	d := m.Strongest()
	h := New(d.Algorithm)
	if h == nil {
		return errors.New("cannot verify contents: there is no digest to compare with")
	}
	if _, err := copyTo(h, r); err != nil {
		return err
	}
	return d.Check(hex.EncodeToString(h.Sum(nil)))
}

// String returns "<hex>" for a SHA-1 and "<algorithm>:<hex>" for others.
func (d Digest) String() string {
	if d.Algorithm == "sha1" {
		return d.Hex
	}
	return d.Algorithm + ":" + d.Hex
}

// Check returns an *Error unless got, in hexadecimal, is the digest.
func (d Digest) Check(got string) error {
	if strings.EqualFold(d.Hex, got) {
		return nil
	}
	return &Error{Want: d.String(), Got: Digest{d.Algorithm, got}.String()}
}

// New returns the hash of an algorithm, nil if the algorithm is unknown.
func New(algorithm string) hash.Hash {
	switch algorithm {
	case "sha1":
		return sha1.New()
	case "sha256":
		return sha256.New()
	case "sha512":
		return sha512.New()
	}
	return nil
}

func alphanumeric(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != ""
}

// Sums is a writer that computes several digests at once.
type Sums struct{ hashes map[string]hash.Hash }

// NewSums returns a writer for these algorithms; it ignores unknown ones.
func NewSums(algorithms ...string) *Sums {
	s := &Sums{hashes: map[string]hash.Hash{}}
	for _, a := range algorithms {
		if h := New(a); h != nil {
			s.hashes[a] = h
		}
	}
	return s
}

// Write adds to each of the digests.
func (s *Sums) Write(p []byte) (int, error) {
	for _, h := range s.hashes {
		h.Write(p)
	}
	return len(p), nil
}

// Hex returns algorithm -> hexadecimal digest.
func (s *Sums) Hex() map[string]string {
	digests := map[string]string{}
	for a, h := range s.hashes {
		digests[a] = hex.EncodeToString(h.Sum(nil))
	}
	return digests
}

// SHA256 reads all of r and returns its digest.
func SHA256(r io.Reader) (Digest, error) {
	h := sha256.New()
	_, err := copyTo(h, r)
	return Digest{"sha256", hex.EncodeToString(h.Sum(nil))}, err
}

// copyTo reads in large steps, because archives have gigabytes.
func copyTo(w io.Writer, r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, r, make([]byte, 1<<20))
}
