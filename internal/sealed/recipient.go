package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"golang.org/x/crypto/ssh"
)

// recipients returns the recipients in the form of age's library.
func (k *Keys) recipients(ctx context.Context, name string, to []string) ([]age.Recipient, error) {
	if len(to) == 0 {
		return nil, fmt.Errorf("cannot encrypt %s: it has no recipients; bootstrap secrets rekey adds some", name)
	}
	if slices.Contains(to, WithPassphrase) {
		if len(to) > 1 {
			return nil, fmt.Errorf("cannot encrypt %s: a file has either a passphrase or recipients, not both", name)
		}
		r, err := k.newPassphrase(ctx, name)
		return []age.Recipient{r}, err
	}
	list := make([]age.Recipient, len(to))
	for i, text := range to {
		r, err := parseRecipient(text)
		if err != nil {
			return nil, fmt.Errorf("cannot encrypt %s: %w", name, err)
		}
		list[i] = r
	}
	return list, nil
}

// newPassphrase returns the passphrase with which the file was opened, or a new one.
func (k *Keys) newPassphrase(ctx context.Context, name string) (age.Recipient, error) {
	k.mu.Lock()
	phrase := k.phrases[name]
	k.mu.Unlock()
	if phrase == "" {
		if k.Passphrase == nil {
			return nil, fmt.Errorf("cannot encrypt %s: %w", name, errNobody)
		}
		var err error
		if phrase, err = k.Passphrase(ctx, name, true); err != nil {
			return nil, fmt.Errorf("cannot encrypt %s: %w", name, err)
		}
		if phrase == "" {
			return nil, fmt.Errorf("cannot encrypt %s: the passphrase is empty", name)
		}
		k.remember(name, phrase)
	}
	r, err := age.NewScryptRecipient(phrase)
	if err == nil && k.workFactor > 0 {
		r.SetWorkFactor(k.workFactor)
	}
	return r, err
}

// parseRecipient reads a recipient, which may be followed by a comment. Errors do not
// contain the text, because the user may have given a private key by mistake.
func parseRecipient(text string) (age.Recipient, error) {
	words := strings.Fields(text)
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }), len(words) == 0:
		return nil, errors.New("a recipient is one line: age1…, ssh-ed25519 … or ssh-rsa …")
	case strings.HasPrefix(text, inText), strings.Contains(text, "PRIVATE KEY"):
		return nil, errors.New("the recipient is a private key; give the public one, which begins with age1 or ssh-, and make a new private key if this one was shown to others")
	case strings.HasPrefix(words[0], "age1pq1"), strings.HasPrefix(words[0], "age1tag"):
		return nil, fmt.Errorf("the recipient %.12s… is of a kind that cannot be used here; use age1… of age-keygen, ssh-ed25519 or ssh-rsa", words[0])
	case strings.HasPrefix(words[0], "age1"):
		r, err := age.ParseX25519Recipient(words[0])
		if err != nil {
			return nil, fmt.Errorf("the recipient %.12s… is not complete, or has a typing error", words[0])
		}
		return r, nil
	case words[0] == "ssh-ed25519", words[0] == "ssh-rsa":
		r, err := agessh.ParseRecipient(text)
		if err != nil {
			return nil, fmt.Errorf("the recipient %s %.24s… cannot be used: it is not complete, or shorter than 2048 bits", words[0], strings.Join(words[1:], " "))
		}
		return r, nil
	}
	return nil, errors.New("a recipient begins with age1, ssh-ed25519 or ssh-rsa")
}

// key returns a recipient without its comment.
func key(recipient string) string {
	words := strings.Fields(recipient)
	n := min(1, len(words))
	if n > 0 && strings.HasPrefix(words[0], "ssh-") {
		n = min(2, len(words))
	}
	return strings.Join(words[:n], " ")
}

// Same reports whether two recipients have the same key; comments may differ.
func Same(a, b string) bool { return key(a) == key(b) }

// Recipients returns the recipients that a word of a command line stands for: the word
// itself, or those in the file that it names, such as ~/.ssh/id_ed25519.pub. All returned
// recipients are valid.
func Recipients(word string) ([]string, error) {
	word = strings.TrimSpace(word)
	_, wrong := parseRecipient(word)
	if wrong == nil {
		return clean([]string{word}), nil
	}
	data, err := os.ReadFile(word)
	if err != nil || strings.HasPrefix(word, "age1") || strings.HasPrefix(word, "ssh-") {
		return nil, fmt.Errorf("%w; or name a file of them", wrong)
	}
	var list []string
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := parseRecipient(line); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", word, n, err)
		}
		list = append(list, line)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the file %s contains no recipients", word)
	}
	return clean(list), nil
}

// NewIdentity makes a key of age. file is the content of a file for Keys.Identities, and
// recipient the public key.
func NewIdentity() (file []byte, recipient string, err error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, "", fmt.Errorf("cannot make an identity: %w", err)
	}
	recipient = id.Recipient().String()
	return []byte("# The identity with which bootstrap decrypts. Keep it secret, and keep a copy.\n# public key: " + recipient + "\n" + id.String() + "\n"), recipient, nil
}

// Own returns the public recipients of the identities in a file. It asks for no
// passphrase unless the file is encrypted by age.
func (k *Keys) Own(ctx context.Context, path string) ([]string, error) {
	data := []byte(path)
	if !strings.HasPrefix(path, inText) {
		var err error
		if data, err = k.readIdentity(path); err != nil {
			return nil, err
		}
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN")) && !IsSealed(data) {
		if _, err := k.load(path); err != nil {
			return nil, err
		}
		return ownSSH(path, data)
	}
	var ids []age.Identity
	var err error
	if IsSealed(data) {
		if ids, err = k.openIdentities(ctx, path, data, false); err != nil {
			err = fmt.Errorf("cannot use the identity %s: %w", path, err)
		}
	} else {
		ids, err = parseIdentities(Name(path), data)
	}
	var list []string
	for _, id := range ids {
		if x, ok := id.(*age.X25519Identity); ok {
			list = append(list, x.Recipient().String())
		}
	}
	return list, err
}

// ownSSH returns the public key of a private key of SSH. If a file with the public key
// exists beside it, the result includes that file's comment.
func ownSSH(path string, data []byte) ([]string, error) {
	var public ssh.PublicKey
	signer, err := ssh.ParsePrivateKey(data)
	if err == nil {
		public = signer.PublicKey()
	} else if locked, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		public = locked.PublicKey
	}
	text, err := os.ReadFile(path + ".pub")
	if err == nil {
		beside, comment, _, _, err := ssh.ParseAuthorizedKey(text)
		if err == nil && (public == nil || bytes.Equal(beside.Marshal(), public.Marshal())) {
			return clean([]string{string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(beside))) + " " + comment}), nil
		}
	}
	if public == nil {
		return nil, fmt.Errorf("cannot find the public key of %s: there is no %s.pub", path, path)
	}
	return []string{string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(public)))}, nil
}
