package team

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"time"

	"bootstrap/state/versions"
)

// keptVersions is the number of versions of the state that a store keeps, one for each
// of the last runs that changed it. Of a deployment with several instances it keeps fewer:
// each version has the states of all instances.
const keptVersions = 100

// history is the archive of the versions in a store.
type history struct {
	*Store
	was string // version of the list that List has returned last
}

// Versions returns the archive of the versions in the store. Changes need the lease.
func (s *Store) Versions() versions.Archive { return &history{Store: s} }

// documentOf returns the name of a document of a version.
func documentOf(serial int, name string) string {
	if name == versions.Snapshot {
		name = "json"
	}
	return fmt.Sprintf(historyFolder+"%08d.%s", serial, name)
}

// documentsOf returns the names of all documents of a version.
func documentsOf(v versions.Version) []string {
	names := []string{documentOf(v.Serial, versions.Snapshot)}
	for _, name := range v.Attached {
		names = append(names, documentOf(v.Serial, name))
	}
	return names
}

// History lists the versions that the store keeps.
func (s *Store) History(ctx context.Context) (versions.List, error) { return s.Versions().List(ctx) }

// Earlier returns the snapshot of a version of the history. The error wraps fs.ErrNotExist if
// the store does not keep it.
func (s *Store) Earlier(ctx context.Context, serial int) ([]byte, error) {
	return s.Versions().Read(ctx, serial, versions.Snapshot)
}

// Keep adds a version that this run has written to the history, and removes the oldest ones.
// Resources that other machines have deleted stay in the history's list.
func (s *Store) Keep(ctx context.Context, serial int, docs versions.Documents, rules versions.Rules) error {
	v := versions.Version{Serial: serial, Written: time.Now().UTC().Truncate(time.Second), By: s.cfg.Holder.Who(), Command: s.cfg.Holder.Command}
	return versions.Keep(ctx, s.Versions(), v, docs, rules)
}

// Most is the number of versions that the store keeps.
func (h *history) Most() int {
	if h.IsRecord() {
		return versions.Kept
	}
	return keptVersions
}

// List lists the versions. A damaged list counts as empty: the next version begins a new one.
func (h *history) List(ctx context.Context) (l versions.List, err error) {
	d, err := h.load(ctx, historyName)
	if err != nil {
		return l, err
	}
	if h.was = d.Version; h.was != "" && json.Unmarshal(d.Data, &l) != nil {
		l = versions.List{}
	}
	return l, nil
}

// SetList replaces the list that List has returned last. It removes one without versions.
func (h *history) SetList(ctx context.Context, l versions.List) error {
	if len(l.Versions) == 0 {
		return h.remove(ctx, historyName)
	}
	text, err := json.MarshalIndent(l, "", "    ")
	if err == nil {
		h.was, err = h.save(ctx, historyName, append(text, '\n'), h.was)
	}
	return err
}

// Read returns a document of a version.
func (h *history) Read(ctx context.Context, serial int, name string) ([]byte, error) {
	d, err := h.load(ctx, documentOf(serial, name))
	if err == nil && d.Version == "" {
		return nil, fmt.Errorf("there is no version %d in the history of %s: %w", serial, h.place, fs.ErrNotExist)
	}
	return d.Data, err
}

// Write writes a document of a version.
func (h *history) Write(ctx context.Context, serial int, name string, data []byte) error {
	left, err := h.raw(ctx, documentOf(serial, name)) // A killed run may have written it.
	if err == nil {
		_, err = h.save(ctx, documentOf(serial, name), data, left.Version)
	}
	return err
}

// Remove removes a document of a version.
func (h *history) Remove(ctx context.Context, serial int, name string) error {
	return h.remove(ctx, documentOf(serial, name))
}
