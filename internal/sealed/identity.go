package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"filippo.io/age/armor"
	"golang.org/x/crypto/ssh"

	"bootstrap/internal/failure"
	"bootstrap/internal/regular"
)

// inText is the beginning of an identity of age, which is one line.
const inText = "AGE-SECRET-KEY-"

// Usual returns the files in which identities are looked for if the user names none.
// getenv returns variables of the environment.
func Usual(getenv func(string) string) []string {
	home := getenv("HOME")
	config := getenv("XDG_CONFIG_HOME")
	if config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	var list []string
	if config != "" {
		list = append(list, filepath.Join(config, "bootstrap", "identity.txt"), filepath.Join(config, "sops", "age", "keys.txt"))
	}
	if home != "" {
		list = append(list, filepath.Join(home, ".ssh", "id_ed25519"), filepath.Join(home, ".ssh", "id_rsa"))
	}
	return list
}

// Name returns the name of an entry of Keys.Identities for messages.
func Name(path string) string {
	if strings.HasPrefix(path, inText) {
		return "$BOOTSTRAP_IDENTITY"
	}
	return path
}

// finder is the identity that Open gives to age: it tries all identities, and asks
// for passphrases only when they are needed.
type finder struct {
	ctx        context.Context
	keys       *Keys
	name       string
	unasked    bool     // true: no passphrase is asked for
	passphrase bool     // the file is encrypted with a passphrase
	tried      []string // identities, with the reason why they could not be used
	err        error    // why no identity was found, as a sentence
}

// Unwrap implements age.Identity.
func (f *finder) Unwrap(stanzas []*age.Stanza) (key []byte, err error) {
	for _, s := range stanzas {
		if s.Type == "scrypt" {
			f.passphrase = true
			if f.err = f.damaged(tooMuchWork(stanzas)); f.err != nil {
				return nil, f.err // returned before a passphrase is asked for
			}
			key, f.err = f.withPassphrase(stanzas)
			return key, f.err
		}
	}
	key, err = f.search(stanzas)
	if key == nil && err == nil {
		err = f.noIdentity()
	}
	f.err = err
	return key, err
}

// search tries the identities of all files. The result is nil if none of them fits the
// file.
func (f *finder) search(stanzas []*age.Stanza) (key []byte, err error) {
	var late []loaded // they need passphrases, and are tried after the others
	seen := map[string]bool{}
	for i, path := range slices.Concat(f.keys.Identities, f.keys.Usual) {
		named := i < len(f.keys.Identities)
		if seen[path] {
			continue
		}
		seen[path] = true
		found, err := f.keys.load(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !named:
			continue
		case err != nil && named:
			return nil, f.damaged(err)
		case err != nil:
			f.tried = append(f.tried, fmt.Sprintf("%s (%s)", path, short(err)))
			continue
		}
		f.tried = append(f.tried, found.name)
		if key, err := unwrap(found.now, stanzas); !errors.Is(err, age.ErrIncorrectIdentity) {
			return key, f.damaged(err)
		}
		if found.late != nil {
			late = append(late, found)
		}
	}
	var failed error // the first error
	for _, l := range late {
		key, err := l.late(f.ctx, f.unasked, stanzas)
		switch {
		case err == nil:
			return key, nil
		case f.ctx.Err() != nil:
			return nil, f.damaged(err)
		case failed == nil && !errors.Is(err, age.ErrIncorrectIdentity):
			failed = fmt.Errorf("the identity %s: %w", l.name, err)
		}
	}
	return nil, f.damaged(failed)
}

// unwrap tries identities of one file. The error is age.ErrIncorrectIdentity if none fits
// the stanzas.
func unwrap(ids []age.Identity, stanzas []*age.Stanza) ([]byte, error) {
	for _, id := range ids {
		if key, err := id.Unwrap(stanzas); !errors.Is(err, age.ErrIncorrectIdentity) {
			return key, err
		}
	}
	return nil, age.ErrIncorrectIdentity
}

// damaged returns an error that says which file cannot be decrypted.
func (f *finder) damaged(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot decrypt %s: %w", f.name, err)
}

func (f *finder) noIdentity() error {
	const advice = "give the one that it is encrypted to with --identity FILE or $BOOTSTRAP_IDENTITY, or let somebody who can read it add your recipient, which bootstrap secrets init prints, with bootstrap secrets rekey --add"
	if len(f.tried) == 0 {
		return failure.Named("identity-missing", fmt.Errorf("cannot decrypt %s: there is no identity on this machine; %s", f.name, advice))
	}
	return failure.Named("identity-missing", fmt.Errorf("cannot decrypt %s: it is not encrypted to any of these identities: %s; %s", f.name, strings.Join(f.tried, ", "), advice))
}

// withPassphrase decrypts a file that is encrypted with a passphrase.
func (f *finder) withPassphrase(stanzas []*age.Stanza) (key []byte, err error) {
	err = f.keys.ask(f.ctx, f.name, f.unasked, func(phrase string) error {
		id, err := scryptOf(phrase)
		if err == nil {
			key, err = id.Unwrap(stanzas)
		}
		if errors.Is(err, age.ErrIncorrectIdentity) {
			return errWrongPassphrase
		}
		return err
	})
	return key, f.damaged(err)
}

// maxWorkFactor is the highest work factor of scrypt that is accepted: each step doubles
// time and memory, and with 18, which age writes, they are about 1 s and 256 MiB.
const maxWorkFactor = 19

var errTooMuchWork = errors.New("its passphrase needs more time and memory than this program spends (work factor of scrypt)")

// tooMuchWork returns an error if the passphrase of a file needs too much time and memory.
func tooMuchWork(stanzas []*age.Stanza) error {
	for _, s := range stanzas {
		if s.Type != "scrypt" || len(s.Args) != 2 {
			continue
		}
		if n, err := strconv.Atoi(s.Args[1]); err == nil && n > maxWorkFactor {
			return fmt.Errorf("%w: %d, and at most %d is accepted; decrypt it with age and encrypt it again", errTooMuchWork, n, maxWorkFactor)
		}
	}
	return nil
}

// bounded is the identity of a passphrase that refuses too much work.
type bounded struct{ *age.ScryptIdentity }

// Unwrap implements age.Identity.
func (b bounded) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	if err := tooMuchWork(stanzas); err != nil {
		return nil, err
	}
	return b.ScryptIdentity.Unwrap(stanzas)
}

// scryptOf returns the identity of a passphrase.
func scryptOf(phrase string) (age.Identity, error) {
	id, err := age.NewScryptIdentity(phrase)
	if err != nil {
		return nil, err
	}
	id.SetMaxWorkFactor(maxWorkFactor)
	return bounded{id}, nil
}

var (
	errWrongPassphrase = errors.New("the passphrase is wrong")
	errNobody          = errors.New("a passphrase is needed, and there is nobody to ask; set $BOOTSTRAP_PASSPHRASE")
)

// attempts is how often the user is asked for the same passphrase.
const attempts = 3

// ask calls use with the passphrase of what, and asks for it again if it is wrong.
func (k *Keys) ask(ctx context.Context, what string, unasked bool, use func(phrase string) error) error {
	k.mu.Lock()
	known, found := k.phrases[what]
	k.mu.Unlock()
	if found && use(known) == nil {
		return nil
	}
	if k.Passphrase == nil || unasked {
		return errNobody
	}
	before := ""
	for i := 0; ; i++ {
		phrase, err := k.Passphrase(ctx, what, false)
		if err != nil {
			return err
		}
		if phrase == "" {
			return errors.New("the passphrase is empty")
		}
		if i > 0 && phrase == before { // the passphrase comes from the environment, so asking again is useless
			return errWrongPassphrase
		}
		err = use(phrase)
		if err == nil {
			k.remember(what, phrase)
			return nil
		}
		if !errors.Is(err, errWrongPassphrase) || i == attempts-1 {
			return err
		}
		before = phrase
	}
}

func (k *Keys) remember(what, phrase string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phrases == nil {
		k.phrases = map[string]string{}
	}
	k.phrases[what] = phrase
}

// loaded has the identities of one file.
type loaded struct {
	name string // name for messages
	now  []age.Identity
	// late asks for the passphrase of the file; nil: the file has no passphrase. It
	// returns age.ErrIncorrectIdentity if the file does not fit these stanzas.
	late func(ctx context.Context, unasked bool, stanzas []*age.Stanza) ([]byte, error)
}

// maxIdentityFile is the size of the largest file with identities that is read.
const maxIdentityFile = 1 << 20

// load reads the identities of a file. It does so only once, because decrypting a file
// with a passphrase takes long.
func (k *Keys) load(path string) (loaded, error) {
	k.mu.Lock()
	l, found := k.files[path]
	k.mu.Unlock()
	if found {
		return l, nil
	}
	l, err := k.parse(path)
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.files == nil {
			k.files = map[string]loaded{}
		}
		k.files[path] = l
	}
	return l, err
}

// parse reads the identities of a file.
func (k *Keys) parse(path string) (loaded, error) {
	if strings.HasPrefix(path, inText) {
		ids, err := parseIdentities(Name(path), []byte(path))
		return loaded{name: Name(path), now: ids}, err
	}
	data, err := k.readIdentity(path)
	if err != nil {
		return loaded{}, err
	}
	l := loaded{name: path}
	switch {
	case IsSealed(data):
		l.late = func(ctx context.Context, unasked bool, stanzas []*age.Stanza) (key []byte, err error) {
			ids, err := k.openIdentities(ctx, path, data, unasked)
			if err != nil {
				return nil, err
			}
			return unwrap(ids, stanzas)
		}
		return l, nil
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN")):
		id, err := agessh.ParseIdentity(data)
		if locked, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
			return l, k.lockedSSH(path, data, locked, &l)
		}
		if err != nil {
			return l, fmt.Errorf("cannot use the identity %s: it is neither an SSH private key (ed25519, or rsa with at least 2048 bits) nor an identity of age", path)
		}
		l.now = []age.Identity{id}
		return l, nil
	}
	l.now, err = parseIdentities(path, data)
	return l, err
}

// lockedSSH adds a private key of SSH that has a passphrase.
func (k *Keys) lockedSSH(path string, data []byte, locked *ssh.PassphraseMissingError, l *loaded) error {
	public := locked.PublicKey
	if public == nil { // the older format does not contain it
		text, err := os.ReadFile(path + ".pub")
		if err == nil {
			public, _, _, _, err = ssh.ParseAuthorizedKey(text)
		}
		if err != nil {
			return fmt.Errorf("cannot use the identity %s: it has a passphrase, and its public key %s.pub cannot be read", path, path)
		}
	}
	if t := public.Type(); t != "ssh-ed25519" && t != "ssh-rsa" {
		return fmt.Errorf("cannot use the identity %s: keys of the type %s cannot decrypt; use ed25519 or rsa", path, t)
	}
	var right string
	var failed error // kept here, because Unwrap would hide the type of the error
	var ask func() error
	id, err := agessh.NewEncryptedSSHIdentity(public, data, func() ([]byte, error) {
		failed = ask()
		return []byte(right), failed
	})
	if err != nil {
		return fmt.Errorf("cannot use the identity %s: %w", path, err)
	}
	var mu sync.Mutex
	l.late = func(ctx context.Context, unasked bool, stanzas []*age.Stanza) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		failed = nil
		ask = func() error {
			return k.ask(ctx, path, unasked, func(phrase string) error {
				if _, err := ssh.ParseRawPrivateKeyWithPassphrase(data, []byte(phrase)); err != nil {
					return errWrongPassphrase
				}
				right = phrase
				return nil
			})
		}
		key, err := id.Unwrap(stanzas)
		if failed != nil {
			err = failed
		}
		return key, err
	}
	return nil
}

// openIdentities decrypts a file of identities that has a passphrase.
func (k *Keys) openIdentities(ctx context.Context, path string, data []byte, unasked bool) (ids []age.Identity, err error) {
	err = k.ask(ctx, path, unasked, func(phrase string) error {
		id, err := scryptOf(phrase)
		if err != nil {
			return err
		}
		var src io.Reader = bytes.NewReader(data)
		if !bytes.HasPrefix(data, []byte(magic)) {
			src = armor.NewReader(src)
		}
		r, err := age.Decrypt(src, id)
		if err != nil {
			if errors.Is(err, errTooMuchWork) {
				return err
			}
			if none, ok := errors.AsType[*age.NoIdentityMatchError](err); ok && none.StanzaTypes[0] == "scrypt" {
				return errWrongPassphrase
			}
			return errors.New("it is encrypted, but not with a passphrase, or it is damaged")
		}
		text, err := io.ReadAll(io.LimitReader(r, maxIdentityFile))
		if err != nil {
			return errors.New("it is damaged")
		}
		ids, err = parseIdentities(path, text)
		return err
	})
	return ids, err
}

// readIdentity reads a file with identities, and warns if others can read it.
func (k *Keys) readIdentity(path string) ([]byte, error) {
	f, info, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the identity %s: %w", path, cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIdentityFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the identity %s: %w", path, cause(err))
	case len(data) > maxIdentityFile:
		return nil, fmt.Errorf("cannot use the identity %s: it is larger than 1 MiB", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" && !IsSealed(data) {
		k.warn(path, fmt.Sprintf("other users can read the identity %s (mode %04o); close it with: chmod 600 %s", path, mode, path))
	}
	return data, nil
}

// warn sends a message about a file once.
func (k *Keys) warn(path, message string) {
	k.mu.Lock()
	first := !k.warned[path]
	if k.warned == nil {
		k.warned = map[string]bool{}
	}
	k.warned[path] = true
	k.mu.Unlock()
	if first && k.Warn != nil {
		k.Warn(message)
	}
}

// cause returns the reason of an error of package os, without the path.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// short returns the last part of an error, for a list.
func short(err error) string {
	text := err.Error()
	if _, reason, found := strings.Cut(text, ": "); found {
		return reason
	}
	return text
}

// parseIdentities reads identities of age, one in a line, and skips those of unknown
// kinds. Errors must not contain what is in the file.
func parseIdentities(path string, data []byte) ([]age.Identity, error) {
	var ids []age.Identity
	unknown := ""
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, err := age.ParseX25519Identity(line)
		switch {
		case err == nil:
			ids = append(ids, id)
		case strings.HasPrefix(line, "AGE-PLUGIN-"), strings.HasPrefix(line, inText+"PQ-"):
			unknown = ": identities of plugins and post-quantum ones cannot be used here, only AGE-SECRET-KEY-1…"
		default:
			return nil, fmt.Errorf("cannot use the identity %s: line %d is no identity of age (AGE-SECRET-KEY-1…)", path, n)
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("cannot use the identity %s: it contains no identity that can be used%s", path, unknown)
	}
	return ids, nil
}
