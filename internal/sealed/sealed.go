// Package sealed encrypts and decrypts files with age, to public keys of people and
// machines or with a passphrase.
package sealed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// WithPassphrase stands for a passphrase in a list of recipients. Then it must be the
// only recipient of the file.
const WithPassphrase = "passphrase"

// Keys are the keys of one person. A nil *Keys contains no keys.
type Keys struct {
	// Recipients are those of new files: age1…, ssh-ed25519 … or ssh-rsa …, which may be
	// followed by a comment, or WithPassphrase.
	Recipients []string
	// Identities are the files that the user named, all of which must be usable. They
	// contain identities of age, possibly encrypted with a passphrase, or private keys of
	// SSH. An entry that begins with AGE-SECRET-KEY- is an identity itself.
	Identities []string
	// Usual are files that are tried after Identities if they exist.
	Usual []string
	// Passphrase asks for the passphrase of what; if confirm is true, it asks twice for a
	// new one. Nil: nobody can be asked.
	Passphrase func(ctx context.Context, what string, confirm bool) (string, error)
	// Warn gets messages about files that other users can read; may be nil.
	Warn func(message string)

	workFactor int // work factor of scrypt, for tests; 0: the default of age

	mu      sync.Mutex
	phrases map[string]string // right passphrases, by the name of the file or key
	warned  map[string]bool
	files   map[string]loaded // identities by path
	last    struct {          // the last result of Open: a run reads the same file many times
		digest [sha256.Size]byte
		text   []byte
		to     []string
	}
}

// magic is the beginning of encrypted files in binary form.
const magic = "age-encryption.org/"

// proofLine is the beginning of a line before an encrypted document in the store of a
// team; somebody may have copied the document by hand, with this line.
const proofLine = "bootstrap-proof: "

// body returns an encrypted file without such a line.
func body(data []byte) []byte {
	if bytes.HasPrefix(data, []byte(proofLine)) {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return data
}

// IsSealed reports whether data is a file that age encrypted, in binary form or as text.
func IsSealed(data []byte) bool {
	data = body(data)
	return bytes.HasPrefix(data, []byte(magic)) || bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte(armor.Header))
}

// recipientLine begins a line, at the top of an encrypted text, that names a
// recipient. The recipients are within the file, so that everybody who can read it
// can write it again.
const recipientLine = "# recipient: "

// withRecipients returns a text with the lines that name its recipients.
func withRecipients(text []byte, to []string) []byte {
	var b bytes.Buffer
	for _, r := range to {
		if r != WithPassphrase {
			b.WriteString(recipientLine + r + "\n")
		}
	}
	b.Write(text)
	return b.Bytes()
}

// withoutRecipients reverses withRecipients.
func withoutRecipients(data []byte) (text []byte, to []string) {
	for {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		r, found := bytes.CutPrefix(line, []byte(recipientLine))
		if !found {
			return data, to
		}
		to = append(to, strings.TrimSpace(string(r)))
		data = rest
	}
}

// Seal returns the text encrypted for the recipients, as text with lines of 64
// characters. If the text begins with lines that name recipients, they are replaced. The
// name of the file is for messages; if Open has decrypted that file with a passphrase,
// the same passphrase is used again.
func (k *Keys) Seal(ctx context.Context, name string, text []byte, to []string) ([]byte, error) {
	if k == nil {
		k = &Keys{}
	}
	recipients, err := k.recipients(ctx, name, to)
	if err != nil {
		return nil, err
	}
	text, _ = withoutRecipients(text)
	var out bytes.Buffer
	lines := armor.NewWriter(&out)
	w, err := age.Encrypt(lines, recipients...)
	if err == nil {
		_, err = w.Write(withRecipients(text, clean(to)))
	}
	if err == nil {
		err = errors.Join(w.Close(), lines.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot encrypt %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// clean returns recipients with one space between their parts.
func clean(to []string) []string {
	list := make([]string, len(to))
	for i, r := range to {
		list[i] = strings.Join(strings.Fields(r), " ")
	}
	return list
}

// Open returns the text of an encrypted file without the lines that name its recipients,
// and these recipients; they are empty if another program made the file. The name of the
// file is for messages.
func (k *Keys) Open(ctx context.Context, name string, sealed []byte) (text []byte, to []string, err error) {
	return k.openFile(ctx, name, sealed, false)
}

// OpenUnasked is like Open, but asks for no passphrase: it uses only keys without a
// passphrase and those whose passphrase is already known.
func (k *Keys) OpenUnasked(ctx context.Context, name string, sealed []byte) (text []byte, to []string, err error) {
	return k.openFile(ctx, name, sealed, true)
}

func (k *Keys) openFile(ctx context.Context, name string, sealed []byte, unasked bool) (text []byte, to []string, err error) {
	if k == nil {
		k = &Keys{}
	}
	sealed = body(sealed)
	digest := sha256.Sum256(sealed)
	k.mu.Lock()
	last := k.last
	k.mu.Unlock()
	if last.text != nil && last.digest == digest {
		return bytes.Clone(last.text), slices.Clone(last.to), nil
	}
	var src io.Reader = bytes.NewReader(sealed)
	if !bytes.HasPrefix(sealed, []byte(magic)) {
		src = armor.NewReader(src)
	}
	f := &finder{ctx: ctx, keys: k, name: name, unasked: unasked}
	r, err := age.Decrypt(src, f)
	if f.err != nil {
		return nil, nil, f.err
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(r)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot decrypt %s: the file is damaged or incomplete (%w); restore an earlier copy of it", name, err)
	}
	text, to = withoutRecipients(data)
	if f.passphrase {
		to = []string{WithPassphrase}
	}
	if text == nil {
		text = []byte{}
	}
	k.mu.Lock()
	k.last.digest, k.last.text, k.last.to = digest, bytes.Clone(text), slices.Clone(to)
	k.mu.Unlock()
	return text, to, nil
}
