// Package secrets has the commands of bootstrap secrets: they make, edit and encrypt vars
// stores.
package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/cmd/environment"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/sealed"
	"bootstrap/manifest/document"
	"bootstrap/manifest/store"
	"bootstrap/state/team"
)

// Result is the result of a command, in the form of --json.
type Result struct {
	Store      string   `json:"store,omitempty"`
	Identity   string   `json:"identity,omitempty"`  // the file with the private key
	Recipient  string   `json:"recipient,omitempty"` // its public key
	Recipients []string `json:"recipients,omitempty"`
	StateKey   string   `json:"state_key,omitempty"` // fingerprint of the new key of a team's store
	Changed    bool     `json:"changed"`             // a file was written
	Lines      []string `json:"-"`                   // the result for people
}

func (r *Result) say(format string, args ...any) {
	r.Lines = append(r.Lines, fmt.Sprintf(format, args...))
}

// at returns the vars store at a path as the person wrote it.
func at(path string, keys *sealed.Keys) (*store.File, error) {
	expanded, err := document.ExpandHome(path)
	if err == nil {
		expanded, err = filepath.Abs(expanded)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the vars store %s: %v", path, err)
	}
	return store.At(expanded, path, keys, nil), nil
}

// read returns the text of a store that must exist and be encrypted.
func read(ctx context.Context, f *store.File) ([]byte, error) {
	text, err := f.Read(ctx)
	switch {
	case err != nil:
		return nil, &document.FileError{Err: err}
	case !f.Exists() && f.Argument() != f.Shown:
		return nil, &document.FileError{Err: fmt.Errorf("%s has no vars store (%w); make it with: bootstrap secrets init %s", f.Shown, fs.ErrNotExist, f.Argument())}
	case !f.Exists():
		if err := f.Lost(); err != nil {
			return nil, &document.FileError{Err: err}
		}
		return nil, &document.FileError{Err: fmt.Errorf("cannot read the vars store %s: %w; if it was lost, restore it from version control, a backup or a colleague's copy", f.Shown, fs.ErrNotExist)}
	case !isSealed(f):
		return nil, &document.FileError{Err: fmt.Errorf("the vars store %s is not encrypted; encrypt it with: bootstrap secrets init --vars-store %s", f.Shown, f.Shown)}
	}
	return text, nil
}

func isSealed(f *store.File) bool {
	data, err := store.Content(f.Path, f.Shown)
	return err == nil && sealed.IsSealed(data)
}

// Decrypt returns the text of an encrypted vars store.
func Decrypt(ctx context.Context, from Place, keys *sealed.Keys) ([]byte, error) {
	f, err := from.open(keys)
	if err != nil {
		return nil, err
	}
	return read(ctx, f)
}

// Init has the arguments of bootstrap secrets init.
type Init struct {
	Store      string     // path of the vars store; empty: only make an identity
	Copy       string     // path of this machine's copy of the vars store in To
	To         *team.Copy // the vars store is made there, with the values of the file; nil: in the file
	Passphrase bool       // encrypt with a passphrase, not to recipients
	Keys       *sealed.Keys
}

// empty is the text of a new vars store.
const empty = "# Values of variables, one a line: NAME: VALUE\n"

// Run finds or makes the person's identity, and makes or encrypts the vars store.
func (i Init) Run(ctx context.Context) (*Result, error) {
	r := &Result{Recipients: []string{sealed.WithPassphrase}}
	if !i.Passphrase {
		if err := i.identity(ctx, r); err != nil {
			return nil, err
		}
		r.Recipients = merge([]string{r.Recipient}, i.Keys.Recipients)
	}
	switch {
	case i.To != nil:
		return r, i.give(ctx, r)
	case i.Store == "":
		return r, nil
	}
	if err := i.store(ctx, r); err != nil {
		return nil, err
	}
	r.say("Use it with: --vars-store %s", r.Store)
	return r, nil
}

// identity finds the identity of the person, or makes one.
func (i Init) identity(ctx context.Context, r *Result) error {
	for n, path := range slices.Concat(i.Keys.Identities, i.Keys.Usual) {
		own, err := i.Keys.Own(ctx, path)
		switch {
		case err == nil:
			r.Identity, r.Recipient = sealed.Name(path), own[0]
			r.say("Using the identity %s; its public recipient is:", r.Identity)
			r.say("%s", r.Recipient)
			return nil
		case n < len(i.Keys.Identities):
			return &document.FileError{Err: err}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
	if len(i.Keys.Usual) == 0 {
		return errors.New("cannot make an identity: HOME is not set, and it is kept in ~/.config/bootstrap")
	}
	path := i.Keys.Usual[0]
	text, recipient, err := sealed.NewIdentity()
	if err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot make the identity %s: %w", path, document.Cause(err))
	}
	if _, err := os.Lstat(path); err == nil { // it cannot be used, but it exists
		_, err = i.Keys.Own(ctx, path)
		return &document.FileError{Err: err}
	}
	if err := atomicfile.Write(path, text); err != nil {
		return fmt.Errorf("cannot make the identity %s: %w", path, document.Cause(err))
	}
	r.Identity, r.Recipient, r.Changed = path, recipient, true
	r.say("Made the identity %s: keep it secret, and keep a copy. Its public recipient is:", path)
	r.say("%s", recipient)
	return nil
}

// give copies a vars store to the store of a team.
func (i Init) give(ctx context.Context, r *Result) error {
	to, err := Place{Path: i.Copy, Team: i.To}.open(i.Keys)
	if err != nil {
		return err
	}
	var from *store.File
	text, wasSealed := []byte(empty), false
	if i.Store != "" {
		if from, err = at(i.Store, i.Keys); err != nil {
			return err
		}
		if err := from.Lock(ctx); err != nil {
			return err
		}
		defer from.Close()
		if text, err = from.Read(ctx); err != nil {
			return &document.FileError{Err: err}
		}
		if !from.Exists() {
			return &document.FileError{Err: fmt.Errorf("cannot read the vars store %s: %w", i.Store, fs.ErrNotExist)}
		}
		if err := document.CheckValues("the vars store", i.Store, text); err != nil {
			return err
		}
		if wasSealed = from.Sealed; slices.Equal(from.To, []string{sealed.WithPassphrase}) {
			r.Recipients = from.To
		} else {
			r.Recipients = merge(from.To, r.Recipients)
		}
	}
	files, err := environment.Renames(i.Store, "")
	if err != nil && i.Store != "" {
		return err
	}
	if err := to.Lock(ctx); err != nil {
		return err
	}
	defer to.Close()
	have, err := to.Read(ctx)
	switch {
	case to.Exists() && (err != nil || from == nil || !bytes.Equal(have, text)):
		return fmt.Errorf("%s has a vars store already, and it was not changed; bootstrap secrets edit %s edits it, bootstrap secrets rekey changes who can read it", to.Shown, to.Argument())
	case to.Exists(): // left by a killed run
		r.Recipients = to.To
	default:
		if to.To = r.Recipients; err == nil {
			err = to.Write(ctx, text)
		}
	}
	if err != nil {
		return err
	}
	if err := i.To.ShareKey(ctx, r.Recipients, false); err != nil {
		return err
	}
	if err := i.To.PullVars(ctx); err != nil {
		return err
	}
	if got, err := to.Read(ctx); err != nil || !bytes.Equal(got, text) {
		return errors.Join(fmt.Errorf("cannot read the vars store of %s back after it was written", to.Shown), err)
	}
	r.Store, r.Changed = to.Shown, true
	r.say("Made the vars store of %s, encrypted for %s", to.Shown, people(r.Recipients))
	switch {
	case from == nil:
	case wasSealed:
		r.say("It has the values of %s, which is not used any more: remove that file, so that nobody changes it by mistake", i.Store)
	default:
		if err := i.rename(files, to, r); err != nil {
			return err
		}
		return i.removePlain(from, to, r)
	}
	return nil
}

// removePlain removes a plain vars store after its encrypted copy was read back.
func (i Init) removePlain(plain, target *store.File, r *Result) error {
	removed := i.Store
	if err := os.Remove(plain.Path); err != nil {
		return fmt.Errorf("cannot remove %s, whose encrypted copy is %s: %w", i.Store, target.Shown, document.Cause(err))
	}
	if err := os.Remove(plain.Path + ".previous"); err == nil {
		removed += " and " + i.Store + ".previous"
	}
	r.say("Removed %s (%s was verified). Was %s ever committed? Then rotate its values: bootstrap variables rotate", removed, target.Shown, i.Store)
	return nil
}

// rename replaces the plain vars store by the encrypted one in files with flags. After a
// kill before the plain one is removed, the same command continues.
func (i Init) rename(files []environment.Renamed, target *store.File, r *Result) error {
	for _, f := range files {
		if err := f.Write(); err != nil {
			return fmt.Errorf("cannot write %s, which names the vars store %s: %w; nothing was removed; write %s there, and run the same command again", f.Path, i.Store, document.Cause(err), target.Shown)
		}
		if f.To == "" {
			r.say("%s names no vars store any more: the one of %s is used", f.Path, target.Shown)
			continue
		}
		r.say("%s names %s as its vars store now", f.Path, f.To)
	}
	return nil
}

// merge returns the recipients of both lists, each key once.
func merge(list, more []string) []string {
	list = slices.Clone(list)
	for _, r := range more {
		if !slices.ContainsFunc(list, func(have string) bool { return sealed.Same(have, r) }) {
			list = append(list, r)
		}
	}
	return list
}

// store makes the vars store, or encrypts an existing one.
func (i Init) store(ctx context.Context, r *Result) error {
	plain, err := at(i.Store, i.Keys)
	if err != nil {
		return err
	}
	data, err := store.Content(plain.Path, plain.Shown)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return &document.FileError{Err: err}
	case sealed.IsSealed(data):
		return already(i.Store)
	case data != nil && len(data) == 0 && strings.HasSuffix(i.Store, store.Suffix):
		return &document.FileError{Err: fmt.Errorf("%s is empty, so its values are lost: restore an earlier copy of it; or, if no VM uses them, remove the file first", i.Store)}
	}
	if err := plain.Lock(ctx); err != nil {
		return err
	}
	defer plain.Close()
	text := data
	if data == nil {
		text = []byte(empty)
	} else if err := document.CheckValues("the vars store", i.Store, data); err != nil {
		return err
	}
	target := plain
	if !strings.HasSuffix(i.Store, store.Suffix) {
		if target, err = at(i.Store+store.Suffix, i.Keys); err != nil {
			return err
		}
		if err := target.Lock(ctx); err != nil {
			return err
		}
		defer target.Close()
	}
	files, err := environment.Renames(i.Store, i.Store+store.Suffix)
	if err != nil && target != plain {
		return err
	}
	if r.Store = target.Shown; data == nil && isSealed(target) {
		return already(target.Shown)
	}
	if err := i.encrypt(ctx, target, text, r); err != nil {
		return err
	}
	r.Changed = true
	if data == nil {
		r.say("Made the vars store %s, encrypted for %s", target.Shown, people(r.Recipients))
		if target == plain {
			return nil
		}
		return i.rename(files, target, r)
	}
	r.say("Encrypted %s as %s for %s", i.Store, target.Shown, people(r.Recipients))
	if target == plain {
		return nil
	}
	if err := i.rename(files, target, r); err != nil {
		return err
	}
	return i.removePlain(plain, target, r)
}

func already(path string) error {
	return fmt.Errorf("%s is encrypted already; change who can read it with: bootstrap secrets rekey %s", path, path)
}

// encrypt writes the text and reads it back. If the file already has the same content, a
// killed run has written it.
func (i Init) encrypt(ctx context.Context, target *store.File, text []byte, r *Result) error {
	if isSealed(target) {
		got, err := target.Read(ctx)
		if err != nil || !bytes.Equal(got, text) {
			return fmt.Errorf("%s exists already, with other values; remove or rename one of the two files", target.Shown)
		}
		r.Recipients = target.To
		return nil
	} else if _, err := os.Lstat(target.Path); err == nil && target.Shown != i.Store {
		return fmt.Errorf("%s exists already, and is not encrypted; remove or rename it", target.Shown)
	}
	target.Sealed, target.To = true, r.Recipients
	data, err := i.Keys.Seal(ctx, target.Shown, text, target.To)
	if err != nil {
		return err
	}
	if got, _, err := i.Keys.Open(ctx, target.Shown, data); err != nil || !bytes.Equal(got, text) {
		return errors.Join(fmt.Errorf("cannot encrypt %s: it could not be read back; nothing was changed", target.Shown), err)
	}
	if err := atomicfile.Write(target.Path, data); err != nil {
		return fmt.Errorf("cannot write the vars store %s: %w", target.Shown, document.Cause(err))
	}
	if got, err := target.Read(ctx); err != nil || !bytes.Equal(got, text) {
		return errors.Join(fmt.Errorf("cannot read %s back after it was written; the plain file was not removed", target.Shown), err)
	}
	return nil
}

// people returns the recipients for a sentence.
func people(recipients []string) string {
	if slices.Equal(recipients, []string{sealed.WithPassphrase}) {
		return "those who know the passphrase"
	}
	if len(recipients) == 1 {
		return "1 recipient"
	}
	return fmt.Sprintf("%d recipients", len(recipients))
}

// listed adds the recipients to the text for people.
func listed(r *Result, format string) *Result {
	r.say(format, r.Store, people(r.Recipients))
	for _, to := range r.Recipients {
		r.say("  %s", to)
	}
	return r
}

// comment returns the text after the key of a recipient.
func comment(recipient string) string {
	words := strings.Fields(recipient)
	if n := len(words); n > 0 && strings.HasPrefix(words[0], "ssh-") {
		return strings.Join(words[min(2, n):], " ")
	}
	return strings.Join(words[min(1, len(words)):], " ")
}
