package team

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/failure"
	"bootstrap/internal/regular"
)

// Copy is this machine's copy of a store: the folder ~/.bosh/team/<digest of the
// address>. It has the state and the vars store as files, and a record of the store's
// versions when both were the same.
//
// A nil *Copy is that of a state in a folder, which is in no other place: nothing of it is
// sent, received, locked or removed elsewhere, it has no address, and no other machine has
// deployed, removed or recorded anything. Methods that make sense for a folder do nothing
// then, and return zero values.
type Copy struct {
	*Store
	dir  string
	last storeRecord
	root *Copy // copy of the whole store; nil: this is it
	// record is set by Record.
	record *Copy
}

const recordName = "store.json"

// storeRecord is the content of the file store.json of the folder, 0600.
type storeRecord struct {
	Place  string          `json:"place"`
	Probed bool            `json:"probed"` // Probe has found that the place respects the conditions of writes
	Same   map[string]same `json:"same"`   // by the name of the document
	// Sent has the digests of states that were sent since, and that may or may not have
	// arrived.
	Sent []string `json:"sent,omitempty"`
}

// mostSent is the largest number of digests in a record: a run stops soon when the
// place fails.
const mostSent = 20

// same is a version of a document, and the digest of the file with the same content.
type same struct {
	Version string `json:"version"`
	Digest  string `json:"sha256"`
}

// Folder returns the folder of a store's copy. address contains no passwords.
func Folder(home, place string) string {
	digest := sha256.Sum256([]byte(place))
	return filepath.Join(home, "team", hex.EncodeToString(digest[:10]))
}

// StateIn returns the path of the state in the folder of a copy.
func StateIn(dir string) string { return filepath.Join(dir, stateName) }

// CopyOf returns this machine's copy of a store.
func CopyOf(home string, s *Store) *Copy {
	s.trust.path = pinPath(home, s.place)
	return copyIn(Folder(home, s.place), s)
}

// copyIn returns this machine's copy of a store in a folder.
func copyIn(dir string, s *Store) *Copy {
	c := &Copy{Store: s, dir: dir}
	data, err := regular.Read(c.recordPath())
	if err != nil || json.Unmarshal(data, &c.last) != nil {
		c.last = storeRecord{}
	}
	if c.last.Same == nil {
		c.last.Same = map[string]same{}
	}
	c.last.Place = s.Place()
	return c
}

func (c *Copy) recordPath() string { return filepath.Join(c.dir, recordName) }

// StatePath returns the path of the copy of the state.
func (c *Copy) StatePath() string { return c.path(stateName) }

// VarsPath returns the path of the copy of the vars store.
func (c *Copy) VarsPath() string { return c.path(varsName) }

// path returns the path of the copy of a document.
func (c *Copy) path(name string) string {
	if name == varsName && c.root != nil {
		return c.root.path(name)
	}
	return filepath.Join(c.dir, path.Base(c.full(name)))
}

// PlaceOf returns the store of a copied state file; empty: it is not a copy.
func PlaceOf(path string) string {
	dir, name := filepath.Split(path)
	var r storeRecord
	data, err := regular.Read(filepath.Join(dir, recordName))
	if name != stateName || err != nil || json.Unmarshal(data, &r) != nil {
		return ""
	}
	return r.Place
}

// ConflictError says that this machine's copy has changes that were not sent to the
// store, and that the store has changed since the copy was made.
type ConflictError struct {
	Place, Path string
	Gone        bool // true: the store has no state any more
}

func (e *ConflictError) Error() string {
	has := "another version"
	if e.Gone {
		has = "no state any more"
	}
	return fmt.Sprintf("this machine's copy of the deployment state, %s, has changes that were not sent to %s, which has %s; nothing was changed", e.Path, e.Place, has)
}

func (e *ConflictError) Name() string { return "state-conflict" }

func (e *ConflictError) ExitCode() failure.Code { return failure.Unsent }

func (e *ConflictError) Hint() string {
	return `"bootstrap state push MANIFEST --force" replaces the state in the store, "bootstrap state pull MANIFEST" discards this machine's changes`
}

// digestOf returns the digest of a file; empty: there is no file.
func digestOf(path string) (digest string, data []byte, err error) {
	data, err = regular.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	return digestText(data), data, err
}

func digestText(data []byte) string {
	if data == nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Unsent reports whether the copy of the state has changes that did not reach the
// store.
func (c *Copy) Unsent() (bool, error) {
	if c == nil {
		return false, nil
	}
	digest, _, err := digestOf(c.StatePath())
	return digest != "" && digest != c.last.Same[stateName].Digest, err
}

// Pull copies the state from the store. If the copy has changes that did not reach the
// store, Pull keeps them: Push writes them to the store. The error is a *ConflictError
// if the store has changed since, too. If the store does not have the state that this
// machine has seen there, and no command has removed it, the error is a
// *DocumentsLostError.
func (c *Copy) Pull(ctx context.Context) error {
	if c == nil {
		return nil
	}
	d, err := c.Load(ctx)
	if err != nil {
		return err
	}
	digest, _, err := digestOf(c.StatePath())
	if err != nil {
		return fmt.Errorf("cannot read this machine's copy of %s: %w", c.Place(), err)
	}
	last := c.last.Same[stateName]
	// A run that holds the lease may create something.
	if d.Version == "" && (last.Version != "" || digest == "" && c.lease != nil) {
		if err := c.vanished(ctx); err != nil {
			return err
		}
	}
	switch {
	case digest == digestText(d.Data): // also if the run was killed before it wrote the record
		return c.remember(stateName, d.Version, digest)
	case digest == last.Digest, digest == "": // a missing file has no changes
		return c.take(stateName, d)
	case d.Version == last.Version:
		return nil
	case c.isOurs(d):
		return c.remember(stateName, d.Version, digestText(d.Data))
	}
	return &ConflictError{Place: c.Place(), Path: c.StatePath(), Gone: d.Version == ""}
}

// PullVars copies the vars store from the store. The copy has no changes of its own,
// because they are written to the store first. No command removes a vars store from a
// store: if it is missing there, the error is a *DocumentsLostError, and the copy stays.
func (c *Copy) PullVars(ctx context.Context) error {
	if c == nil {
		return nil
	}
	d, err := c.load(ctx, varsName)
	if err != nil {
		return err
	}
	digest, _, err := digestOf(c.VarsPath())
	switch {
	case err != nil:
		return fmt.Errorf("cannot read this machine's copy of %s: %w", c.Place(), err)
	case digest == digestText(d.Data):
		return c.remember(varsName, d.Version, digest)
	case d.Version == "":
		return &DocumentsLostError{Place: c.place, Documents: []string{varsName}, Copied: true, OnlyVars: true}
	}
	return c.take(varsName, d)
}

// Vars returns the copy of the encrypted vars store; nil: there is none.
func (c *Copy) Vars() ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	_, data, err := digestOf(c.VarsPath())
	return data, err
}

// SaveVars writes the encrypted vars store to the store and then to the copy. It does
// not need the lease. The error wraps ErrChanged if somebody has changed the vars store
// since PullVars.
func (c *Copy) SaveVars(ctx context.Context, sealed []byte) error {
	if err := c.Probe(ctx); err != nil {
		return err
	}
	version, err := c.putSigned(ctx, varsName, sealed, c.last.Same[varsName].Version)
	if errors.Is(err, ErrChanged) {
		return fmt.Errorf("cannot write the vars store of %s: %w; run the same command again", c.place, err)
	}
	if err != nil {
		return fmt.Errorf("cannot write the vars store of %s: %w; nothing was changed", c.place, err)
	}
	return c.take(varsName, Document{Data: sealed, Version: version})
}

// CopyVars copies the vars store to another store, encrypted as it is, unless that has
// another one and replace is false.
func (c *Copy) CopyVars(ctx context.Context, to *Copy, replace bool) error {
	if c == nil || to == nil {
		return nil
	}
	d, err := c.load(ctx, varsName)
	if err != nil || d.Version == "" {
		return err
	}
	was, err := to.raw(ctx, varsName)
	if err == nil && (was.Version == "" || replace) {
		_, err = to.putSigned(ctx, varsName, d.Data, was.Version)
	}
	return err
}

// take writes a document of the store to its file in the copy.
func (c *Copy) take(name string, d Document) error {
	path := c.path(name)
	err := os.MkdirAll(c.dir, 0o700)
	switch {
	case err == nil && d.Version == "":
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	case err == nil:
		err = atomicfile.Replace(path, d.Data)
	}
	if err != nil {
		return fmt.Errorf("cannot write this machine's copy of %s: %w", c.Place(), err)
	}
	return c.remember(name, d.Version, digestText(d.Data))
}

// remember records that a file of the copy has the same content as a version in the
// store.
func (c *Copy) remember(name, version, digest string) error {
	now := same{Version: version, Digest: digest}
	if c.last.Same[name] == now {
		return nil
	}
	c.last.Same[name] = now
	if name == stateName {
		c.last.Sent = nil
	}
	if now == (same{}) {
		delete(c.last.Same, name)
	}
	return c.writeRecord()
}

func (c *Copy) writeRecord() error {
	data, err := json.MarshalIndent(c.last, "", "    ")
	if err == nil {
		err = os.MkdirAll(c.dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Replace(c.recordPath(), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot record what this machine has of %s: %w", c.Place(), err)
	}
	return nil
}

// isOurs reports whether the state in the store was sent by this machine, which got no
// answer.
func (c *Copy) isOurs(d Document) bool {
	return d.Version != "" && slices.Contains(c.last.Sent, digestText(d.Data))
}

// Push writes the copy of the state to the store. The error wraps ErrChanged if the
// store has changed since the copy was made, unless this machine sent that change.
func (c *Copy) Push(ctx context.Context) error {
	if c == nil {
		return nil
	}
	digest, data, err := digestOf(c.StatePath())
	switch {
	case err != nil:
		return fmt.Errorf("cannot read this machine's copy of %s: %w", c.Place(), err)
	case digest == "":
		return nil
	}
	version, err := c.Save(ctx, data, c.last.Same[stateName].Version)
	if errors.Is(err, ErrChanged) && len(c.last.Sent) > 0 {
		if d, failed := c.Load(ctx); failed == nil && c.isOurs(d) {
			version, err = c.Save(ctx, data, d.Version)
		}
	}
	if err != nil {
		c.last.Sent = append(c.last.Sent, digest)
		c.last.Sent = c.last.Sent[max(0, len(c.last.Sent)-mostSent):]
		_ = c.writeRecord() // Without the record, a person must decide.
		return err
	}
	return c.remember(stateName, version, digest)
}

// Overwrite makes Push replace any version in the store.
func (c *Copy) Overwrite(ctx context.Context) error {
	d, err := c.raw(ctx, stateName)
	if err != nil {
		return err
	}
	return c.remember(stateName, d.Version, digestText(d.Data))
}

// Discard removes the record of changes that were not sent to the store. The caller keeps
// a copy of the file. The error is a *DocumentsLostError if the store has lost the state.
func (c *Copy) Discard(ctx context.Context) error {
	d, err := c.Load(ctx)
	if err == nil && d.Version == "" {
		err = c.vanished(ctx)
	}
	if err != nil {
		return err
	}
	return c.take(stateName, d)
}

// Removed records that the state was removed from the store. The caller removes the
// file.
func (c *Copy) Removed() error {
	if c == nil {
		return nil
	}
	return c.remember(stateName, "", "")
}

// Clean removes the folder of a copy without a state, a vars store and backups, unless the
// store has lost its state.
func (c *Copy) Clean() error {
	if c == nil {
		return nil
	}
	if c.last.Same[stateName].Version != "" {
		return nil
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != recordName }) {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("cannot remove this machine's copy of %s: %w", c.Place(), err)
	}
	_ = os.Remove(filepath.Dir(c.dir)) // the parent folder, if it is empty
	return nil
}

// Probe checks that the place respects the conditions of writes, because some servers
// ignore them. It does so once for each machine.
func (c *Copy) Probe(ctx context.Context) error {
	if c == nil || c.last.Probed {
		return nil
	}
	if err := c.probe(ctx); err != nil {
		return err
	}
	c.last.Probed = true
	return c.writeRecord()
}
