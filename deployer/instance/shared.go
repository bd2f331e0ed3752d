package instance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"

	"bootstrap/deployer/kept"
	"bootstrap/deployment/record"
	"bootstrap/internal/sealed"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// OpenTeam opens the store at an address and this machine's copy of it, as the state and
// the vars store of the deployment. The caller must close the copy.
func (c Config) OpenTeam(ctx context.Context, address string, from *Options, waiting func(*team.HeldError), say func(string)) (*team.Copy, error) {
	s, err := team.Open(ctx, address, team.Config{
		Holder: c.Holder, Getenv: c.Getenv, Wait: c.LockWait, Waiting: waiting, Given: c.StateKey, Keys: from.Inputs.Keys, Say: say,
	})
	if err != nil {
		return nil, err
	}
	copied := team.CopyOf(c.Home, s)
	if !c.KeepCopy {
		err := refresh(ctx, copied, from)
		if lost, _ := team.Lost(err); lost != nil && c.Lost != nil {
			c.Lost(lost)
			err = nil
		}
		if err != nil {
			s.Close()
			return nil, err
		}
	}
	from.Team, from.Store, from.StateFile = copied, address, copied.StatePath()
	if from.Inputs.VarsStore == "" {
		from.Inputs.VarsStore, from.Inputs.SaveStore = copied.VarsPath(), copied.SaveVars
		from.Inputs.StoreName, from.Inputs.StoreState = copied.Place(), copied.Argument()
	}
	return copied, nil
}

// refresh copies the state of a deployment from its store, and those of all instances. A
// run that is about one instance copies its state when it locks it.
func refresh(ctx context.Context, t *team.Copy, from *Options) error {
	var lost *team.DocumentsLostError // all that are missing, for one message
	steps := []func() error{
		func() error { return file.Refresh(ctx, t) },
		func() error { return file.RefreshPart(ctx, t.Record()) },
		func() error { return vanished(ctx, t, lost) },
	}
	if !from.OfAll {
		steps = append(steps, func() error { return RefreshInstances(ctx, t) })
	}
	for _, step := range steps {
		more, err := team.Lost(step())
		if err != nil {
			return err
		}
		lost = lost.With(more)
	}
	return lost.Err()
}

// vanished returns a *team.DocumentsLostError if a store has lost the state of a deployment
// of which this machine has no copy.
func vanished(ctx context.Context, t *team.Copy, lost *team.DocumentsLostError) error {
	found, err := file.Exists(t.StatePath())
	if err != nil || found || lost != nil || record.Exists(t.RecordFolder()) {
		return err
	}
	if err := t.Record().Vanished(ctx); err != nil {
		return err
	}
	return t.Vanished(ctx)
}

// RefreshInstances copies the states of all instances of a deployment from its store,
// except those that another process of this machine uses. The error is a
// *team.DocumentsLostError if the store has lost some.
func RefreshInstances(ctx context.Context, t *team.Copy) error {
	dir := t.RecordFolder()
	if t == nil || !record.Exists(dir) {
		return nil
	}
	all, err := record.Load(dir)
	if _, moved := errors.AsType[*state.MovedError](err); moved {
		return nil // The command that needs the record reports it.
	}
	if _, restoring := errors.AsType[*record.RestoringError](err); restoring {
		err = nil
	}
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var lost *team.DocumentsLostError
	err = t.EachInstance(ctx, all.States(), func(ctx context.Context, one *team.Copy) error {
		var err error
		if one != t { // That was copied before.
			err = file.RefreshPart(ctx, one)
		}
		if found, failed := file.Exists(one.StatePath()); err == nil && failed == nil && !found {
			err = one.Vanished(ctx)
		}
		missing, err := team.Lost(err)
		if missing == nil || err != nil {
			return err
		}
		in := all.OfState(one.StatePath())
		if in == nil || in.Going != "" {
			return nil // A run that was killed while it deleted the instance is continued.
		}
		missing.Instance = in.Name()
		mu.Lock()
		defer mu.Unlock()
		lost = lost.With(missing)
		return nil
	})
	return cmp.Or(err, lost.Err())
}

// StateName returns the place of the state, for people: the path of the file, or the
// store.
func (o Options) StateName(path string) string { return cmp.Or(o.Team.Place(), path) }

// StateArgument returns the place of the state, for --state in a command that can be
// pasted.
func (o Options) StateArgument() string {
	path := o.StateFile
	if o.Of != nil { // with --instance, the state is in the folder of the instance
		path = record.StateOf(o.Manifest, o.Of.Record.Dir())
	}
	return cmp.Or(o.Team.Argument(), path)
}

// keptDocument is the document of a store with the record for other machines.
const keptDocument = "kept.json.age"

// Shared exchanges encrypted records of the deployment with the other machines of a team:
// how its agent is reached, and which jobs were applied.
type Shared struct {
	rec     *Record
	readers []string // recipients, set by fetch
}

// alone reports whether no other machine can get the records: the state is in a folder.
func (sh *Shared) alone() bool { return sh.rec.From.Team == nil }

// fetch updates this machine's record from the store. The error is a *team.ProofError if
// somebody outside of the team wrote it.
func (sh *Shared) fetch(ctx context.Context) error {
	if sh.alone() {
		return nil
	}
	err := sh.take(ctx)
	if _, doubt := errors.AsType[*team.ProofError](err); doubt {
		return err
	}
	if err != nil {
		sh.rec.Out.Warning(fmt.Sprintf("cannot read the record of other machines (kept.json.age); using the manifest: %v", err))
	}
	return nil
}

// TakeKept replaces this machine's record of an installation by the text that a store has
// for other machines.
func (c Config) TakeKept(installation string, text []byte) error {
	return kept.At(filepath.Join(c.Home, installation)).Unpack(text)
}

func (sh *Shared) take(ctx context.Context) error {
	if by, err := file.LockedBy(sh.rec.From.Team.StatePath()); err != nil || by != nil && by.Holder.PID != os.Getpid() {
		return err // Another run of this machine writes the files that fetch would replace.
	}
	data, version, err := sh.rec.From.Team.Kept(ctx)
	if err != nil || data == nil {
		return err
	}
	text, to, err := sh.rec.From.Inputs.Keys.Open(ctx, keptDocument+" of "+sh.rec.From.StateName(sh.rec.StatePath), data)
	if err != nil {
		return err
	}
	sh.readers = to
	if err := sh.rec.Folder().Unpack(text); err != nil {
		return err
	}
	return sh.rec.From.Team.SeenKept(version, digestOf(text))
}

// Send writes this machine's record to the store, if it has changed. Without recipients
// it writes nothing, and the other machines read the manifest.
func (sh *Shared) Send(ctx context.Context) {
	if sh.alone() || sh.rec.Scratch != "" || sh.rec.State == nil || sh.rec.State.Fresh() {
		return
	}
	if err := sh.send(ctx); err != nil {
		sh.rec.Out.Warning(fmt.Sprintf("cannot send this machine's record of the deployment to the others: %v", err))
	}
}

func (sh *Shared) send(ctx context.Context) error {
	text, err := sh.rec.Folder().Bundle()
	if err != nil {
		return err
	}
	sent := text == nil || digestOf(text) == sh.rec.From.Team.KeptDigest()
	if sent && sh.rec.From.Team.KeyShared() {
		return nil
	}
	to := sh.recipients(ctx)
	if len(to) == 0 {
		return nil
	}
	if err := sh.rec.From.Team.ShareKey(ctx, to, false); err != nil || sent {
		return err
	}
	data, err := sh.rec.From.Inputs.Keys.Seal(ctx, keptDocument+" of "+sh.rec.From.StateName(sh.rec.StatePath), text, to)
	if err != nil {
		return err
	}
	return sh.rec.From.Team.SaveKept(ctx, data, digestOf(text))
}

// recipients returns the recipients of the record: those of the vars store, or those of
// its earlier version, or those of the command line.
func (sh *Shared) recipients(ctx context.Context) []string {
	if in := sh.rec.read; in != nil && len(in.Manifest.StoreReaders) > 0 {
		return in.Manifest.StoreReaders
	}
	if data, err := sh.rec.From.Team.Vars(); err == nil && sealed.IsSealed(data) {
		if _, to, err := sh.rec.From.Inputs.Keys.Open(ctx, "the vars store of "+sh.rec.From.StateName(sh.rec.StatePath), data); err == nil && len(to) > 0 {
			return to
		}
	}
	if len(sh.readers) == 0 { // Another run of this machine has fetched the record.
		if data, _, err := sh.rec.From.Team.KeptNow(ctx); err == nil && data != nil {
			_, sh.readers, _ = sh.rec.From.Inputs.Keys.Open(ctx, keptDocument+" of "+sh.rec.From.StateName(sh.rec.StatePath), data)
		}
	}
	if len(sh.readers) > 0 {
		return sh.readers
	}
	if sh.rec.From.Inputs.Keys == nil {
		return nil
	}
	return sh.rec.From.Inputs.Keys.Recipients
}

// RekeyShared encrypts for other recipients what a store has for machines, and the state
// key. If somebody who knows the key is removed, it makes a new key and signs all documents
// again. The lease must be held. The error is a *team.HeldError if another run uses a part
// of the store.
func RekeyShared(ctx context.Context, in *team.Copy, keys *sealed.Keys, to []string, removes bool) (err error) {
	if in == nil {
		return nil
	}
	unlock, err := in.LockParts(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if removes {
		if err := in.NewKey(ctx); err != nil {
			return err
		}
	}
	if err := in.ShareKey(ctx, to, true); err != nil {
		return err
	}
	err = in.Rekey(ctx, func(name string, data []byte) ([]byte, error) {
		what := name + " of " + in.Place()
		text, _, err := keys.Open(ctx, what, data)
		if err == nil && path.Base(name) == keptDocument {
			text, err = rekeyKept(ctx, text, keys, to)
		}
		if err != nil {
			return nil, err
		}
		return keys.Seal(ctx, what, text, to)
	})
	if err != nil || !removes {
		return err
	}
	return in.SignAgain(ctx)
}

// rekeyKept encrypts the secrets in a record of a deployment for other recipients.
func rekeyKept(ctx context.Context, text []byte, keys *sealed.Keys, to []string) ([]byte, error) {
	return kept.Reseal(text, func(data []byte) ([]byte, error) {
		values, _, err := keys.Open(ctx, secretsName, data)
		if err != nil {
			return nil, nil // The next deploy records them again.
		}
		return keys.Seal(ctx, secretsName, values, to)
	})
}

// ForgetDeleted removes the note in the store that the state of an instance was removed,
// after the record has been written without the instance.
func (o Options) ForgetDeleted(ctx context.Context, in *record.Instance) error {
	one, err := o.Team.Instance(in.State)
	if err != nil {
		return err
	}
	return one.ForgetDeleted(ctx)
}

// PutBackSecrets writes this machine's copy of the vars store and the state key to a store
// that has lost them. did is false if it has both, or this machine has neither.
func PutBackSecrets(ctx context.Context, t *team.Copy, keys *sealed.Keys, warn func(string)) (did bool, err error) {
	if did, err = t.PushVars(ctx); err != nil {
		return did, err
	}
	shared, err := t.HasKey(ctx)
	if err != nil || shared {
		return did, err
	}
	data, err := t.Vars()
	if err != nil || !sealed.IsSealed(data) {
		return did, err // Nobody is known who may read it.
	}
	_, to, err := keys.Open(ctx, "the vars store of "+t.Place(), data)
	if err != nil {
		warn(fmt.Sprintf("cannot put back the state key, because this machine cannot decrypt the vars store to learn its recipients: %v", err))
		return did, nil
	}
	return true, t.ShareKey(ctx, to, true)
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
