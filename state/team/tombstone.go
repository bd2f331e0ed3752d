package team

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/failure"
	"bootstrap/state"
	"bootstrap/state/versions"
)

// deletedName is the document that remains of a state that a command has removed from the
// store: without it, a missing state was lost. The next state that is written there
// removes it.
const deletedName = "deleted.json"

// Deleted says which command has removed a state.
type Deleted struct {
	Installation string    `json:"installation_id,omitempty"` // empty: it was the record of several instances, or damaged
	By           string    `json:"by"`                        // user@host
	Command      string    `json:"command"`                   // without the values of flags
	Written      time.Time `json:"written"`                   // UTC, by the clock of its writer
}

// DocumentsLostError says that documents are missing in a store, and that no command has
// removed them.
type DocumentsLostError struct {
	Place     string
	Documents []string          // their names in the store
	Instance  string            // one of several instances whose state is missing; empty: none, or more is missing
	Copied    bool              // this machine has a copy of one of them
	Last      *versions.Version // the newest version in the history that the store still has; nil: it has none
	OnlyVars  bool              // nothing but the vars store is missing
}

func (e *DocumentsLostError) Error() string {
	is, it := "is", "it"
	if len(e.Documents) > 1 {
		is, it = "are", "them"
	}
	would := "a deploy would create VMs a second time"
	if e.OnlyVars {
		would = "a deploy would generate other secrets"
	}
	return fmt.Sprintf("%s of %s %s missing, and no delete has removed %s: without %s, %s; nothing was changed", namesOf(e.Documents), e.Place, is, it, it, would)
}

// Record reports whether the record of several instances is missing.
func (e *DocumentsLostError) Record() bool {
	return slices.Contains(e.Documents, deploymentFolder+recordDocument)
}

// namesOf returns names for a message, not more than a few of them.
func namesOf(documents []string) string {
	const most = 4
	if more := len(documents) - most; more > 0 {
		return fmt.Sprintf("%s and %d more documents", strings.Join(documents[:most], ", "), more)
	}
	if last := len(documents) - 1; last > 0 {
		return strings.Join(documents[:last], ", ") + " and " + documents[last]
	}
	return strings.Join(documents, "")
}

func (e *DocumentsLostError) Name() string { return "state-lost" }

func (e *DocumentsLostError) ExitCode() failure.Code { return failure.NoState }

func (e *DocumentsLostError) Hint() string {
	var ways []string
	instance := ""
	if e.Instance != "" {
		instance = " --instance " + e.Instance
	}
	if e.Copied {
		ways = append(ways, `"bootstrap state push MANIFEST" puts back what this machine has`)
	} else {
		ways = append(ways, `"bootstrap state push MANIFEST" on a machine that has deployed or looked at it puts back its copy`)
	}
	if e.Last != nil {
		ways = append(ways, fmt.Sprintf(`"bootstrap state restore MANIFEST%s %d" restores the version of %s by %s`, instance, e.Last.Serial, e.Last.Written.UTC().Format("2006-01-02 15:04 UTC"), e.Last.By))
	}
	if !e.OnlyVars {
		ways = append(ways, fmt.Sprintf(`if it was deleted, perhaps by an earlier bootstrap, "bootstrap state rm MANIFEST%s --force" records that`, instance))
	}
	return strings.Join(ways, "; ")
}

// With adds the documents that another error names. Either may be nil.
func (e *DocumentsLostError) With(other *DocumentsLostError) *DocumentsLostError {
	if e == nil || other == nil {
		if e == nil {
			return other
		}
		return e
	}
	both := *e
	both.Documents = slices.Clone(e.Documents)
	for _, name := range other.Documents {
		if !slices.Contains(both.Documents, name) {
			both.Documents = append(both.Documents, name)
		}
	}
	both.Instance = ""
	both.Copied, both.OnlyVars = e.Copied || other.Copied, e.OnlyVars && other.OnlyVars
	if e.Last == nil && e.OnlyVars {
		both.Last, both.Instance = other.Last, other.Instance
	}
	return &both
}

// Err returns the error; nil if e is nil.
func (e *DocumentsLostError) Err() error {
	if e == nil {
		return nil
	}
	return e
}

// Lost returns the *DocumentsLostError in an error, and the error if it is another one.
func Lost(err error) (*DocumentsLostError, error) {
	if lost, ok := errors.AsType[*DocumentsLostError](err); ok {
		return lost, nil
	}
	return nil, err
}

// bury writes which command removes the state. It is done right before the removal, so
// that after a kill the state counts.
func (s *Store) bury(ctx context.Context, installation string) error {
	if isWorker(s.folder) {
		return nil
	}
	text, err := json.MarshalIndent(Deleted{
		Installation: installation, By: s.cfg.Holder.Who(), Command: s.cfg.Holder.Command, Written: time.Now().UTC().Truncate(time.Second),
	}, "", "    ")
	if err != nil {
		return err
	}
	d, err := s.raw(ctx, deletedName)
	if err != nil {
		return err
	}
	// A machine with a slow clock must not write one that seems older than the state.
	signed, generation, err := s.trust.signAfter(ctx, s.full(deletedName), s.full(stateName), append(text, '\n'))
	if err == nil {
		_, err = s.put(ctx, deletedName, signed, d.Version)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s to %s: %w", s.full(deletedName), s.place, err)
	}
	return s.trust.wrote(ctx, s.full(deletedName), generation)
}

// Deleted returns which command has removed the state; nil: none. A note that is older
// than a state that this machine has seen is about an earlier state.
func (c *Copy) Deleted(ctx context.Context) (*Deleted, error) {
	if c == nil {
		return nil, nil
	}
	d, err := c.raw(ctx, deletedName)
	if err != nil || d.Version == "" {
		return nil, err
	}
	c.buried = true
	content, p, err := c.trust.check(ctx, c.full(deletedName), d.Data)
	if err == nil {
		err = c.trust.saw(ctx, c.full(deletedName), p)
	}
	if err != nil {
		return nil, err
	}
	if p.generation <= c.trust.pin.Seen[c.full(stateName)] {
		return nil, nil
	}
	var of Deleted
	if err := json.Unmarshal(content, &of); err != nil {
		return nil, fmt.Errorf("cannot read %s of %s: %w", c.full(deletedName), c.place, err)
	}
	return &of, nil
}

// exhume removes the note about an earlier state after another one was written.
func (s *Store) exhume(ctx context.Context) {
	if s.buried && s.remove(ctx, deletedName) == nil { // otherwise it is older than the state
		s.buried = false
	}
}

// vanished returns a *DocumentsLostError if a state that does not exist in the store was
// lost: no command has removed it, but this machine has seen it, or the store has something
// that belongs to it.
func (c *Copy) vanished(ctx context.Context) error {
	if isWorker(c.folder) {
		return nil
	}
	of, err := c.Deleted(ctx)
	if err != nil || of != nil {
		return err
	}
	last, remains, err := c.remains(ctx)
	copied, failed := c.hasCopy()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if !remains && c.last.Same[stateName].Version == "" { // A copy that was never sent is newer.
		return nil
	}
	return &DocumentsLostError{Place: c.place, Documents: []string{c.full(stateName)}, Copied: copied, Last: last}
}

// Vanished returns a *DocumentsLostError if the store has no state, and no command has
// removed it: this machine has seen it, or the store has something that belongs to it.
func (c *Copy) Vanished(ctx context.Context) error {
	d, err := c.raw(ctx, stateName)
	if err != nil || d.Version != "" {
		return err
	}
	return c.vanished(ctx)
}

// hasCopy reports whether this machine has a copy of the state.
func (c *Copy) hasCopy() (bool, error) {
	digest, _, err := digestOf(c.StatePath())
	if err != nil {
		return false, fmt.Errorf("cannot read this machine's copy of %s: %w", c.Place(), err)
	}
	return digest != "", nil
}

// remains reports whether the store has documents that a removal of the state removes
// before it, and returns the newest version of a history that was not removed.
func (c *Copy) remains(ctx context.Context) (last *versions.Version, found bool, err error) {
	h, err := c.History(ctx)
	if err != nil {
		return nil, false, err
	}
	for i := range h.Versions {
		v := &h.Versions[i]
		if len(v.Only) > 0 { // A removal of a record keeps it.
			continue
		}
		if c.IsRecord() {
			return v, true, nil
		}
		data, err := c.Earlier(ctx, v.Serial)
		if errors.Is(err, fs.ErrNotExist) {
			found = true
			continue
		}
		if err != nil {
			return nil, false, err
		}
		if owns(data, h.Gone) {
			return v, true, nil
		}
		return nil, found, nil
	}
	if found || c.IsRecord() {
		return nil, found, nil
	}
	d, err := c.raw(ctx, keptName)
	return nil, d.Version != "", err
}

// owns reports whether a state records a VM or a disk that is not in a list of deleted
// resources.
func owns(data []byte, gone []string) bool {
	st, _, err := state.Decode(data)
	return err == nil && slices.ContainsFunc(st.Resources(), func(r string) bool {
		return !strings.HasPrefix(r, "stemcell ") && !strings.HasPrefix(r, "snapshot ") && !slices.Contains(gone, r)
	})
}

// RemovedError says that a state is not put back into its store, because a command has
// removed it.
type RemovedError struct {
	Place string
	Deleted
}

func (e *RemovedError) Error() string {
	return fmt.Sprintf("the deployment state of %s was removed by %s at %s, with %q, and was not put back: --force does that, for VMs that exist nevertheless",
		e.Place, e.By, e.Written.UTC().Format("2006-01-02 15:04 UTC"), e.Command)
}

func (e *RemovedError) Name() string { return "state-missing" }

func (e *RemovedError) ExitCode() failure.Code { return failure.NoState }

// PutBack makes the next Push write a state that the store has lost: this machine's copy,
// which has the serial number, or a newer version that the history of the store has. It
// returns false if the store has a state, or nothing is left of it. If a command has removed
// the state, the error is a *RemovedError, unless force is set. This run must hold the lease.
func (c *Copy) PutBack(ctx context.Context, serial int, force bool) (bool, error) {
	d, err := c.load(ctx, stateName)
	if _, doubt := errors.AsType[*ProofError](err); doubt || err == nil && d.Version != "" {
		return false, nil
	}
	copied, failed := c.hasCopy()
	if err = errors.Join(err, failed); err != nil {
		return false, err
	}
	of, err := c.Deleted(ctx)
	switch {
	case err != nil:
		return false, err
	case of != nil && !force && copied:
		return false, &RemovedError{Place: c.Place(), Deleted: *of}
	case of != nil && !force:
		return false, nil
	}
	last, _, err := c.remains(ctx)
	if err != nil {
		return false, err
	}
	if last != nil {
		data, err := c.Earlier(ctx, last.Serial)
		if err != nil {
			return false, err
		}
		if data, newer := c.stateIn(data, last.Serial); newer > serial {
			if err := c.take(stateName, Document{Data: data, Version: "removed"}); err != nil {
				return false, err
			}
			copied = true
		}
	}
	if !copied {
		return false, nil
	}
	return true, c.remember(stateName, "", "")
}

// stateIn returns the state, or the record of several instances, in a version of the history,
// and its serial number.
func (c *Copy) stateIn(version []byte, serial int) ([]byte, int) {
	if !c.IsRecord() {
		return version, serial
	}
	return recordIn(version)
}

// PushVars writes this machine's copy of the encrypted vars store to a store that has lost
// it. It returns false if the store has a vars store, or this machine has none.
func (c *Copy) PushVars(ctx context.Context) (bool, error) {
	d, err := c.raw(ctx, varsName)
	if err != nil || d.Version != "" {
		return false, err
	}
	data, err := c.Vars()
	if err != nil || data == nil {
		return false, err
	}
	if err := c.remember(varsName, "", ""); err != nil {
		return false, err
	}
	return true, c.SaveVars(ctx, data)
}

// ForgetDeleted removes the note about an instance whose state was removed, after the
// record has been written without the instance. This run must hold the lock of the
// deployment.
func (c *Copy) ForgetDeleted(ctx context.Context) error {
	if c == nil || c.root == nil {
		return nil // Other machines may have a copy of a state of the whole store.
	}
	return c.remove(ctx, deletedName)
}
