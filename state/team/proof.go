package team

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"bootstrap/internal/failure"
	"bootstrap/internal/printable"
)

// Key is the secret with which the machines of a team sign the documents of one store.
type Key [32]byte

// keyPrefix begins the text of a key, and fingerprintPrefix that of a fingerprint.
const (
	keyPrefix         = "bootstrap-state-key-"
	fingerprintPrefix = "SHA256:"
)

// NewKey makes a random key.
func NewKey() (k Key) {
	_, _ = rand.Read(k[:]) // rand.Read never fails
	return k
}

// ParseKey parses the text of a key. Its errors do not contain the text.
func ParseKey(text string) (k Key, err error) {
	hexed, ok := strings.CutPrefix(strings.TrimSpace(text), keyPrefix)
	data, err := hex.DecodeString(hexed)
	if !ok || err != nil || len(data) != len(k) {
		return k, fmt.Errorf("it is not a state key, which is %s and %d digits and letters", keyPrefix, 2*len(k))
	}
	return Key(data), nil
}

// Text returns the key as text, which is secret.
func (k Key) Text() string { return keyPrefix + hex.EncodeToString(k[:]) }

// Fingerprint returns a name of the key that is not secret.
func (k Key) Fingerprint() string {
	digest := sha256.Sum256([]byte(k.Text()))
	return fingerprintPrefix + base64.RawStdEncoding.EncodeToString(digest[:])
}

// id returns the part of the fingerprint that proofs contain.
func (k Key) id() string { return shortOf(k.Fingerprint()) }

func shortOf(fingerprint string) string {
	digest, err := base64.RawStdEncoding.DecodeString(strings.TrimPrefix(fingerprint, fingerprintPrefix))
	if err != nil || len(digest) != sha256.Size {
		return ""
	}
	return hex.EncodeToString(digest[:8])
}

// Given is a state key or a fingerprint from a person; zero: neither.
type Given struct {
	key         *Key
	fingerprint string
}

// ParseGiven reads a fingerprint, or the text of a key; an empty text gives neither.
func ParseGiven(text string) (Given, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Given{}, nil
	case strings.HasPrefix(text, keyPrefix):
		k, err := ParseKey(text)
		return Given{key: &k, fingerprint: k.Fingerprint()}, err
	case shortOf(text) == "":
		return Given{}, errors.New("expected the fingerprint of a state key, SHA256:…, as `bootstrap state key` prints it")
	}
	return Given{fingerprint: text}, nil
}

// IsSecret reports whether it is a key, not a fingerprint.
func (g Given) IsSecret() bool { return g.key != nil }

// proof is the first part of a document. It proves who wrote the document.
type proof struct {
	generation uint64 // grows with each write of the document; usually milliseconds since 1970
	key        string // id of the key
	writer     string
	mac        []byte
}

// A proof has two forms: the first key of a JSON object, so that the document stays valid
// JSON, or the first line of any other document.
const (
	proofKey  = `{"bootstrap_proof":"`
	proofLine = "bootstrap-proof: "
)

func (p proof) text() string {
	return fmt.Sprintf("v1 %d %s %s %s", p.generation, p.key, p.writer, hex.EncodeToString(p.mac))
}

// parseProof parses the text of a proof; ok is false if it is another text.
func parseProof(text string) (p proof, ok bool) {
	words := strings.Split(text, " ")
	if len(words) != 5 || words[0] != "v1" {
		return p, false
	}
	generation, err := strconv.ParseUint(words[1], 10, 64)
	mac, wrong := hex.DecodeString(words[4])
	p = proof{generation: generation, key: words[2], writer: words[3], mac: mac}
	return p, err == nil && wrong == nil && p.text() == text
}

// at returns when the document was written, by the clock of its writer.
func at(generation uint64) string {
	return time.UnixMilli(int64(min(generation, 1<<52))).UTC().Format("2006-01-02 15:04 UTC")
}

// plain returns the name of a writer without the characters that separate the parts of
// a proof.
func plain(writer string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f && r != '"' && r != '\\' {
			return r
		}
		return '-'
	}, writer), "-")
}

// sum returns the authentication code of a document's name, proof and content.
func (p proof) sum(k Key, name string, content []byte) []byte {
	h := hmac.New(sha256.New, k[:])
	for _, part := range []string{"bootstrap document v1", name, strconv.FormatUint(p.generation, 10), p.writer} {
		fmt.Fprintf(h, "%d:%s,", len(part), part)
	}
	h.Write(content)
	return h.Sum(nil)
}

// sign returns a document with a proof.
func (k Key) sign(name string, generation uint64, writer string, content []byte) []byte {
	p := proof{generation: generation, key: k.id(), writer: plain(writer)}
	p.mac = p.sum(k, name, content)
	if inJSON(content) {
		return append([]byte(proofKey+p.text()+`",`), content[1:]...)
	}
	return append([]byte(proofLine+p.text()+"\n"), content...)
}

// inJSON reports whether the proof of a document is a key of its JSON object.
func inJSON(content []byte) bool {
	rest, ok := bytes.CutPrefix(content, []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(`"`))
}

// split returns the proof of a document and its content; ok is false if it has none.
func split(data []byte) (p proof, content []byte, ok bool) {
	if rest, found := bytes.CutPrefix(data, []byte(proofKey)); found {
		text, rest, found := bytes.Cut(rest, []byte(`",`))
		content = append([]byte("{"), rest...)
		p, ok = parseProof(string(text))
		return p, content, ok && found && inJSON(content)
	}
	if rest, found := bytes.CutPrefix(data, []byte(proofLine)); found {
		text, rest, found := bytes.Cut(rest, []byte("\n"))
		p, ok = parseProof(string(text))
		return p, rest, ok && found && !inJSON(rest)
	}
	return proof{}, data, false
}

// Doubt is the reason why a proof is not valid.
type Doubt string

// The doubts.
const (
	Unproven   Doubt = "unproven"    // it has no proof
	UnknownKey Doubt = "unknown key" // this machine has no key
	OtherKey   Doubt = "other key"   // it is signed with a key that this machine does not trust
	Forged     Doubt = "forged"      // the proof does not fit the document
	Older      Doubt = "older"       // this machine has seen a newer version
	Behind     Doubt = "behind"      // the history of the store has a newer version
	NotGiven   Doubt = "not given"   // the key of the store is not the given one
	Unvouched  Doubt = "unvouched"   // only the store itself vouches for its key
)

// ProofError says why a document of a store is not used.
type ProofError struct {
	Place, Argument string // the store, for people and for --state
	Document        string
	Why             Doubt
	Trusted, Found  string // fingerprints, or ids of keys
	Is, Seen        uint64 // generations; of a document that is behind, serial numbers
}

func (e *ProofError) Error() string {
	what := fmt.Sprintf("%s of %s is not trusted", e.Document, e.Place)
	switch e.Why {
	case Unproven:
		return what + ": it carries no proof of its writer. Somebody who may write to the store has replaced or damaged it, or an old bootstrap, which made no proofs, wrote it"
	case UnknownKey:
		return fmt.Sprintf("%s: it is signed, and this machine has no state key to check that with. On a machine of the team, `bootstrap secrets rekey --state … --add RECIPIENT` lets this one read it, or `bootstrap state key --secret` prints it for $BOOTSTRAP_STATE_KEY", what)
	case OtherKey:
		return fmt.Sprintf("%s: it is signed with another state key than the one that this machine trusts for this store, %s", what, e.Trusted)
	case NotGiven:
		return fmt.Sprintf("%s: the state key in it is %s, and the one that was given is %s", what, e.Found, e.Trusted)
	case Unvouched:
		return fmt.Sprintf("%s: only the store itself vouches for its state key %s, and anybody who may write there could have put it there", what, e.Found)
	case Older:
		return fmt.Sprintf("%s: it is of %s, and this machine has seen the one of %s: somebody has put an old one back", what, at(e.Is), at(e.Seen))
	case Behind:
		return fmt.Sprintf("%s: it has the serial number %d, and the history of the store has number %d: somebody has put an old one back", what, e.Is, e.Seen)
	}
	return what + ": its proof is not that of this document. Somebody without the state key has changed, shortened or exchanged it"
}

func (e *ProofError) Name() string { return "state-proof" }

func (e *ProofError) ExitCode() failure.Code { return failure.NotBelieved }

func (e *ProofError) Hint() string {
	trust := `"bootstrap state trust --state ` + printable.ShellWord(e.Argument) + `"`
	switch e.Why {
	case UnknownKey:
		return ""
	case Unproven:
		return "check the store's documents before you trust them: " + trust + " shows them, and asks"
	case Unvouched:
		return `compare the fingerprint with "bootstrap state key" on a machine of the team; ` + trust + " makes this machine trust it"
	case OtherKey, NotGiven:
		return `ask the team whether it has made a new state key ("bootstrap secrets rekey --remove" does), and compare "bootstrap state key": then ` + trust + " makes this machine trust it"
	}
	return `find out who has written to the store; "bootstrap state push MANIFEST --force" puts back the state that this machine has, ` + trust + " shows the documents, and asks whether to trust them"
}
