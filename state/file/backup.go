package file

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"bootstrap/internal/atomicfile"
	"bootstrap/state/versions"
)

// backupDir is the folder next to a state file that contains its backups.
func backupDir(path string) string { return path + ".backups" }

// archiveOf returns the versions of the state file at a path without links.
func archiveOf(path string) versions.Folder {
	return versions.Folder{Dir: backupDir(path), Like: path}
}

// Archive returns the versions of the state at a path: in the store, or beside the file.
func (o Options) Archive(path string) versions.Archive {
	if resolved, err := Resolve(path); err == nil {
		path = resolved
	}
	return o.Team.Archive(archiveOf(path))
}

// archive returns the versions of the state on this machine.
func (s *Store) archive() versions.Folder { return archiveOf(s.path) }

// Attach makes Close keep a document with the version that this run has written.
func (s *Store) Attach(name string, data []byte) {
	if s.attached == nil {
		s.attached = versions.Documents{}
	}
	s.attached[name] = data
}

// writer returns the version of this run, without its number.
func (s *Store) writer() (v versions.Version) {
	if s.opts.Holder.User != "" {
		v.By, v.Command = s.opts.Holder.Who(), s.opts.Holder.Command
	}
	return v
}

// startBackups makes a backup of the file before the first write of a run. Usually the
// previous run has made it at its end, unless it was killed.
func (s *Store) startBackups() error {
	if !fileExists(s.path) {
		return nil
	}
	return s.backUp(versions.Version{}, nil)
}

// backUp keeps the present file as a version, with the writer of a version and documents. It
// removes the oldest ones, except those that are the only record of something. The version is
// a copy, because other tools write the file in place.
func (s *Store) backUp(v versions.Version, with versions.Documents) error {
	if err := s.keepHere(v, with); err != nil {
		return fmt.Errorf("cannot keep a backup of the deployment state: %w", err)
	}
	return nil
}

func (s *Store) keepHere(v versions.Version, with versions.Documents) error {
	ctx := context.Background()
	data, err := readWhole(s.path)
	if err != nil {
		return err
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	a := s.archive()
	v.Serial, v.Written = s.current.Own.Serial, info.ModTime()
	docs := versions.Documents{versions.Snapshot: data}
	for name, doc := range with {
		docs[name] = doc
	}
	if have, err := a.Read(ctx, v.Serial, versions.Snapshot); err == nil && !bytes.Equal(have, data) {
		if err := a.Write(ctx, v.Serial, versions.Snapshot, data); err != nil { // Another tool has written the file.
			return err
		}
	}
	rules := versions.Rules{Present: s.current.Resources(), Gone: goneList(s.readGone()), Records: resourcesOf}
	if err := versions.Keep(ctx, a, v, docs, rules); err != nil {
		return err
	}
	atomicfile.Match(a.Path(v.Serial, versions.Snapshot), s.path) // The mode of the file may have changed since.
	return s.trimGone()
}

// resourcesOf returns the resources that a state records.
func resourcesOf(data []byte) ([]string, error) {
	st, err := Parse(data)
	return st.Resources(), err
}
