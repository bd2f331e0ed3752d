package artifact

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
)

// Digest is a multi-digest, for example "<sha1 hex>;sha256:<hex>": the same
// contents under several algorithms, of which the strongest counts.
type Digest struct {
	text   string
	pieces []piece
}

type piece struct{ algorithm, hex string }

// DigestError says that contents do not have the digest that was asked for.
type DigestError struct {
	Want, Got string // "<sha1 hex>" or "<algorithm>:<hex>"
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("its digest is %s, not %s as expected", e.Got, e.Want)
}

// ParseDigest reads "piece[;piece…]", each piece "[algorithm:]hex" and sha1
// when none is named. Unknown algorithms are tolerated beside a known one.
func ParseDigest(text string) (Digest, error) {
	d := Digest{text: strings.Trim(strings.TrimSpace(text), `"`)}
	seen := map[string]bool{}
	known := false
	for part := range strings.SplitSeq(d.text, ";") {
		if part == "" {
			continue
		}
		algorithm, value, named := strings.Cut(part, ":")
		if !named {
			algorithm, value = "sha1", part
		}
		if !alphanumeric(algorithm) || !alphanumeric(value) {
			return Digest{}, fmt.Errorf("cannot read digest %q: want [algorithm:]hex, several separated by ';', in letters and digits only", text)
		}
		if seen[algorithm] {
			return Digest{}, fmt.Errorf("cannot read digest %q: %s stands in it twice", text, algorithm)
		}
		seen[algorithm] = true
		if h := newHash(algorithm); h != nil {
			known = true
			if len(value) != 2*h.Size() {
				return Digest{}, fmt.Errorf("cannot read digest %q: a %s has %d digits, not %d", text, algorithm, 2*h.Size(), len(value))
			}
			if _, err := hex.DecodeString(value); err != nil {
				return Digest{}, fmt.Errorf("cannot read digest %q: the %s is not hexadecimal", text, algorithm)
			}
		}
		d.pieces = append(d.pieces, piece{algorithm, value})
	}
	if !known {
		return Digest{}, fmt.Errorf("cannot read digest %q: no algorithm in it is known, want sha1, sha256 or sha512", text)
	}
	return d, nil
}

// String returns the digest as it was written, without quotes.
func (d Digest) String() string { return d.text }

// Verify reads all of r and returns a *DigestError unless it has the digest.
func (d Digest) Verify(r io.Reader) error {
	p := d.strongest()
	h := newHash(p.algorithm)
	if h == nil {
		return errors.New("cannot verify contents: there is no digest to compare with")
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, r, make([]byte, bufferSize)); err != nil {
		return err
	}
	return p.check(hex.EncodeToString(h.Sum(nil)))
}

// Sum reads all of r and returns its digests in hexadecimal.
func Sum(r io.Reader) (sha1, sha256 string, err error) {
	s := newSums("sha1", "sha256")
	if _, err := io.CopyBuffer(struct{ io.Writer }{s}, r, make([]byte, bufferSize)); err != nil {
		return "", "", err
	}
	digests := s.hex()
	return digests["sha1"], digests["sha256"], nil
}

// strongest is the piece that is verified; empty if the digest is.
func (d Digest) strongest() piece {
	for _, algorithm := range [...]string{"sha512", "sha256", "sha1"} {
		for _, p := range d.pieces {
			if p.algorithm == algorithm {
				return p
			}
		}
	}
	return piece{}
}

func (p piece) String() string {
	if p.algorithm == "sha1" {
		return p.hex
	}
	return p.algorithm + ":" + p.hex
}

func (p piece) check(got string) error {
	if strings.EqualFold(p.hex, got) {
		return nil
	}
	return &DigestError{Want: p.String(), Got: piece{p.algorithm, got}.String()}
}

func newHash(algorithm string) hash.Hash {
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

// sums is a writer that computes several digests at once.
type sums struct{ hashes map[string]hash.Hash }

func newSums(algorithms ...string) *sums {
	s := &sums{hashes: map[string]hash.Hash{}}
	for _, a := range algorithms {
		if h := newHash(a); h != nil {
			s.hashes[a] = h
		}
	}
	return s
}

func (s *sums) Write(p []byte) (int, error) {
	for _, h := range s.hashes {
		h.Write(p)
	}
	return len(p), nil
}

// hex returns algorithm -> hexadecimal digest.
func (s *sums) hex() map[string]string {
	digests := map[string]string{}
	for a, h := range s.hashes {
		digests[a] = hex.EncodeToString(h.Sum(nil))
	}
	return digests
}
