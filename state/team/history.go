package team

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// keptVersions is the number of versions of the state that a store keeps, one for each
// of the last runs that changed it.
const keptVersions = 100

// keptRecords is the number of versions of the record of a deployment with several
// instances that a store keeps: each has the states of all instances. Versions that are
// the only record of something are kept in addition.
const keptRecords = 20

// Version is a version of the state at the end of a run.
type Version struct {
	Serial  int       `json:"serial"`
	Written time.Time `json:"written"` // UTC, by the clock of its writer
	By      string    `json:"by"`      // user@host
	Command string    `json:"command"`
	// Only lists resources of which this version of a record is the only record.
	Only []string `json:"only_here,omitempty"`
}

func (v Version) document() string { return fmt.Sprintf(historyFolder+"%08d.json", v.Serial) }

// History lists earlier versions of a store's state.
type History struct {
	Versions []Version `json:"versions"` // newest first
	// Gone lists resources that were deleted, or whose record was removed with a command,
	// as "VM vm-1": versions may still record them.
	Gone []string `json:"gone,omitempty"`
}

// History lists the versions that the store keeps.
func (s *Store) History(ctx context.Context) (History, error) {
	h, _, err := s.history(ctx)
	return h, err
}

func (s *Store) history(ctx context.Context) (h History, version string, err error) {
	d, err := s.load(ctx, historyName)
	if err != nil || d.Version == "" {
		return h, "", err
	}
	if json.Unmarshal(d.Data, &h) != nil {
		h = History{} // the next version begins a new history
	}
	return h, d.Version, nil
}

// Earlier returns the state of a version of the history. The error wraps
// fs.ErrNotExist if the store does not keep it.
func (s *Store) Earlier(ctx context.Context, serial int) ([]byte, error) {
	d, err := s.load(ctx, Version{Serial: serial}.document())
	if err == nil && d.Version == "" {
		return nil, fmt.Errorf("there is no version %d in the history of %s: %w", serial, s.place, fs.ErrNotExist)
	}
	return d.Data, err
}

// Keep adds the state with this serial number to the history, and removes the oldest
// versions. present lists the resources that it records, and gone those that do not exist
// any more, as far as this machine knows. Resources that other machines have deleted stay
// in the history's list.
func (s *Store) Keep(ctx context.Context, serial int, data []byte, present, gone []string) error {
	v := Version{Serial: serial, Written: time.Now().UTC().Truncate(time.Second), By: s.cfg.Holder.Who(), Command: s.cfg.Holder.Command}
	return s.KeepVersion(ctx, v, data, present, gone, 0)
}

// KeepVersion is like Keep, for a version that another run may have written before the
// state was moved to this store. spare is the number of a version that is not removed
// although there are too many; 0: none.
func (s *Store) KeepVersion(ctx context.Context, v Version, data []byte, present, gone []string, spare int) error {
	h, version, err := s.history(ctx)
	if err != nil {
		return err
	}
	gone = slices.DeleteFunc(union(h.Gone, gone), func(r string) bool { return slices.Contains(present, r) })
	has := slices.ContainsFunc(h.Versions, func(other Version) bool { return other.Serial == v.Serial })
	if has && slices.Equal(h.Gone, gone) {
		return nil
	}
	if !has {
		left, err := s.raw(ctx, v.document()) // a killed run has written it
		if err != nil {
			return err
		}
		if _, err := s.save(ctx, v.document(), data, left.Version); err != nil {
			return err
		}
		h.Versions = append(h.Versions, v)
		slices.SortStableFunc(h.Versions, func(a, b Version) int { return b.Serial - a.Serial })
	}
	h.Gone = gone
	var old []Version
	most := keptVersions
	if s.IsRecord() {
		most = keptRecords
	}
	if len(h.Versions) > most {
		for _, v := range h.Versions[most:] {
			if len(v.Only) == 0 && (spare == 0 || v.Serial != spare) {
				old = append(old, v)
			}
		}
		h.Versions = slices.DeleteFunc(h.Versions, func(v Version) bool {
			return slices.ContainsFunc(old, func(o Version) bool { return o.Serial == v.Serial })
		})
	}
	if err := s.writeHistory(ctx, h, version); err != nil {
		return err
	}
	for _, v := range old {
		_ = s.remove(ctx, v.document()) // the list does not have it any more
	}
	return nil
}

// SetOnly changes of which resources versions are the only record.
func (s *Store) SetOnly(ctx context.Context, only map[int][]string) error {
	h, version, err := s.history(ctx)
	if err != nil {
		return err
	}
	changed := false
	for i := range h.Versions {
		v := &h.Versions[i]
		if list, found := only[v.Serial]; found && !slices.Equal(list, v.Only) {
			v.Only, changed = list, true
		}
	}
	if !changed {
		return nil
	}
	return s.writeHistory(ctx, h, version)
}

// KeepGone adds resources that do not exist any more to the history, if a version may
// record them. It is called early, because the run that deleted them may be killed before
// it calls Keep.
func (s *Store) KeepGone(ctx context.Context, gone []string) error {
	h, version, err := s.history(ctx)
	if err != nil || len(h.Versions) == 0 {
		return err
	}
	all := union(h.Gone, gone)
	if slices.Equal(h.Gone, all) {
		return nil
	}
	h.Gone = all
	return s.writeHistory(ctx, h, version)
}

// union returns the items of both lists, sorted and without duplicates.
func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// removeHistory removes all versions except those in keep. If none remain, it also
// removes their list.
func (s *Store) removeHistory(ctx context.Context, keep []int) error {
	h, version, err := s.history(ctx)
	if err != nil {
		return err
	}
	var old []Version
	kept := History{Gone: h.Gone}
	for _, v := range h.Versions {
		if slices.Contains(keep, v.Serial) {
			kept.Versions = append(kept.Versions, v)
		} else {
			old = append(old, v)
		}
	}
	if len(kept.Versions) == 0 {
		err = s.remove(ctx, historyName)
	} else {
		err = s.writeHistory(ctx, kept, version)
	}
	for _, v := range old {
		err = errors.Join(err, s.remove(ctx, v.document()))
	}
	return err
}

func (s *Store) writeHistory(ctx context.Context, h History, was string) error {
	text, err := json.MarshalIndent(h, "", "    ")
	if err != nil {
		return err
	}
	_, err = s.save(ctx, historyName, append(text, '\n'), was)
	return err
}
