// Package versions keeps versions of a deployment's documents: each is a snapshot that a
// run made at its end, under a number. An archive has them: a folder, or the store of a
// team. The documents have any form; callers say which resources they record.
package versions

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// Kept is the number of versions that a folder keeps. Versions that are the only record of
// something are kept in addition.
const Kept = 20

// The names of the documents of a version.
const (
	Snapshot = ""             // what the version is a version of: the states, and the record of several
	Manifest = "manifest.yml" // the applied manifest without its secrets
)

// Version describes a version.
type Version struct {
	Serial  int       `json:"serial"`
	Written time.Time `json:"written"` // UTC, by the clock of its writer
	By      string    `json:"by"`      // user@host; empty: unknown
	Command string    `json:"command"` // without the values of flags
	// Record is the serial number of the record in the snapshot; 0: it has none, or an earlier
	// program has written it.
	Record int `json:"record_serial,omitempty"`
	// Only lists resources of which a restore has made this version the only record.
	Only []string `json:"only_here,omitempty"`
	// Attached are the names of the documents besides the snapshot.
	Attached []string `json:"attached,omitempty"`
}

// List lists the versions of an archive.
type List struct {
	Versions []Version `json:"versions"` // newest first
	// Gone lists resources that were deleted, or whose record was removed with a command,
	// as "VM vm-1": versions may still record them. nil: nobody has recorded any.
	Gone []string `json:"gone,omitempty"`
	// Forgotten lists resources that exist, and whose only record a command has removed:
	// versions that record them are kept.
	Forgotten []string `json:"forgotten,omitempty"`
}

// Find returns the version with a number.
func (l List) Find(serial int) (Version, bool) {
	i := slices.IndexFunc(l.Versions, func(v Version) bool { return v.Serial == serial })
	if i < 0 {
		return Version{}, false
	}
	return l.Versions[i], true
}

// Newest returns the newest version; false: there is none.
func (l List) Newest() (Version, bool) {
	if len(l.Versions) == 0 {
		return Version{}, false
	}
	return l.Versions[0], true
}

// Archive is a place that keeps versions. A document that a killed run has written, and that
// the list does not name, is overwritten.
type Archive interface {
	List(ctx context.Context) (List, error)
	// SetList replaces the list that List has returned last.
	SetList(ctx context.Context, l List) error
	// Read returns a document of a version. The error wraps fs.ErrNotExist if there is none.
	Read(ctx context.Context, serial int, name string) ([]byte, error)
	Write(ctx context.Context, serial int, name string, data []byte) error
	// Remove removes a document. If there is none, that is no error.
	Remove(ctx context.Context, serial int, name string) error
	// Most is the number of versions that are kept.
	Most() int
}

// Documents are the documents of a version, by their names. None has a secret.
type Documents map[string][]byte

// Rules say what Keep does besides.
type Rules struct {
	// Present are resources that exist, and Gone those that do not exist any more, as far as
	// the caller knows.
	Present, Gone []string
	// Spare is the number of a version that is not removed although there are too many; 0:
	// none.
	Spare int
	// Records returns the resources that a snapshot records. A version that is the only
	// record of one that is not gone is not removed. nil: only the lists of versions tell.
	Records func(snapshot []byte) ([]string, error)
	// Leave reports whether Copy leaves out a version; nil: it copies all.
	Leave func(v Version, snapshot []byte) bool
}

// Keep adds a version to an archive, unless it has the number, and removes the oldest ones.
func Keep(ctx context.Context, a Archive, v Version, docs Documents, rules Rules) error {
	l, err := a.List(ctx)
	if err != nil {
		return err
	}
	was := l
	l.Gone = slices.DeleteFunc(union(l.Gone, rules.Gone), func(r string) bool { return slices.Contains(rules.Present, r) })
	if rules.Gone != nil && l.Gone == nil {
		l.Gone = []string{} // It is known that nothing is gone.
	}
	_, has := l.Find(v.Serial)
	if v.Attached = nil; !has {
		if l, err = add(ctx, a, l, v, docs); err != nil {
			return err
		}
	}
	old, err := surplus(ctx, a, l, rules)
	if err != nil {
		return err
	}
	if has && len(old) == 0 && slices.Equal(was.Gone, l.Gone) {
		return nil
	}
	l.Versions = slices.DeleteFunc(slices.Clone(l.Versions), func(v Version) bool {
		return slices.ContainsFunc(old, func(o Version) bool { return o.Serial == v.Serial })
	})
	if err := a.SetList(ctx, l); err != nil {
		return err
	}
	for _, v := range old {
		_ = remove(ctx, a, v) // The list does not have it any more.
	}
	return nil
}

// add writes documents of a version and adds it to a list, which it returns.
func add(ctx context.Context, a Archive, l List, v Version, docs Documents) (List, error) {
	for name, data := range docs {
		if data == nil {
			continue
		}
		if err := a.Write(ctx, v.Serial, name, data); err != nil {
			return l, err
		}
		if name != Snapshot {
			v.Attached = union(v.Attached, []string{name})
		}
	}
	l.Versions = append(slices.Clone(l.Versions), v)
	slices.SortStableFunc(l.Versions, func(a, b Version) int { return b.Serial - a.Serial })
	return l, nil
}

// surplus returns the versions that are too many.
func surplus(ctx context.Context, a Archive, l List, rules Rules) (old []Version, err error) {
	if len(l.Versions) <= a.Most() {
		return nil, nil
	}
	recorded := func(serial int) []string {
		data, err := a.Read(ctx, serial, Snapshot)
		if err != nil {
			return nil
		}
		list, _ := rules.Records(data)
		return list
	}
	known := slices.Concat(rules.Present, l.Gone)
	var only map[int][]string
	for _, v := range l.Versions[a.Most():] {
		if len(v.Only) > 0 || rules.Spare != 0 && v.Serial == rules.Spare {
			continue
		}
		// All versions are read only if this one records something unknown.
		if rules.Records != nil && slices.ContainsFunc(recorded(v.Serial), func(r string) bool { return !slices.Contains(known, r) }) {
			if only == nil {
				only = l.Only(rules.Present, recorded)
			}
			if len(only[v.Serial]) > 0 {
				continue
			}
		}
		old = append(old, v)
	}
	return old, ctx.Err()
}

// Only returns, by the numbers of versions, resources of which each is the only record: no
// later version and nothing that is present has them, and they are not gone.
func (l List) Only(present []string, recorded func(serial int) []string) map[int][]string {
	known := map[string]bool{}
	for _, r := range slices.Concat(present, l.Gone) {
		known[r] = true
	}
	only := map[int][]string{}
	for _, v := range l.Versions {
		for _, r := range recorded(v.Serial) {
			if !known[r] {
				only[v.Serial] = append(only[v.Serial], r)
			}
			known[r] = true
		}
	}
	return only
}

// SetOnly changes of which resources versions are the only record.
func SetOnly(ctx context.Context, a Archive, only map[int][]string) error {
	l, err := a.List(ctx)
	if err != nil {
		return err
	}
	changed := false
	for i := range l.Versions {
		v := &l.Versions[i]
		if list, found := only[v.Serial]; found && !slices.Equal(list, v.Only) {
			v.Only, changed = list, true
		}
	}
	if !changed {
		return nil
	}
	return a.SetList(ctx, l)
}

// AddGone adds resources that do not exist any more to the list of an archive with versions,
// which may record them. It is called early, because the run that deleted them may be killed
// before it keeps a version.
func AddGone(ctx context.Context, a Archive, gone []string) error {
	l, err := a.List(ctx)
	if err != nil || len(l.Versions) == 0 {
		return err
	}
	all := union(l.Gone, gone)
	if slices.Equal(l.Gone, all) {
		return nil
	}
	l.Gone = all
	return a.SetList(ctx, l)
}

// Clear removes all versions except those with the numbers in keep.
func Clear(ctx context.Context, a Archive, keep []int) error {
	l, err := a.List(ctx)
	if err != nil {
		return err
	}
	var old []Version
	left := List{Gone: l.Gone, Forgotten: l.Forgotten}
	for _, v := range l.Versions {
		if slices.Contains(keep, v.Serial) {
			left.Versions = append(left.Versions, v)
		} else {
			old = append(old, v)
		}
	}
	errs := []error{a.SetList(ctx, left)}
	for _, v := range old {
		errs = append(errs, remove(ctx, a, v))
	}
	return errors.Join(errs...)
}

func remove(ctx context.Context, a Archive, v Version) error {
	var errs []error
	for _, name := range append([]string{Snapshot}, v.Attached...) {
		errs = append(errs, a.Remove(ctx, v.Serial, name))
	}
	return errors.Join(errs...)
}

// Copy copies the versions of an archive with their documents to another one that lacks them,
// and the list of what is gone.
func Copy(ctx context.Context, from, to Archive, rules Rules) error {
	return transfer(ctx, from, to, rules, func(v Version, here *Version) (Version, Documents, error) {
		docs, err := ReadAll(ctx, from, v)
		if err != nil || rules.Leave != nil && rules.Leave(v, docs[Snapshot]) {
			return v, nil, err
		}
		if v.Attached = nil; here == nil {
			return v, docs, err
		}
		for _, name := range append([]string{Snapshot}, here.Attached...) {
			delete(docs, name)
		}
		return *here, docs, err
	})
}

// Pull is like Copy for a folder of this machine with copies of snapshots. Other documents
// are read where they are. A copy that is not the version of that number is replaced: same
// reports whether it is.
func Pull(ctx context.Context, from Archive, to Folder, same func(there, here Version) bool) error {
	return transfer(ctx, from, to, Rules{}, func(v Version, here *Version) (Version, Documents, error) {
		if v.Attached = nil; here != nil && same(v, *here) {
			v.Attached = here.Attached
			return v, Documents{}, nil
		}
		data, err := from.Read(ctx, v.Serial, Snapshot)
		return v, Documents{Snapshot: data}, err
	})
}

// transfer copies versions. choose returns how the other archive describes a version, of which
// it has here, and the documents that are written; nil: the version is left out.
func transfer(ctx context.Context, from, to Archive, rules Rules, choose func(v Version, here *Version) (Version, Documents, error)) error {
	l, err := from.List(ctx)
	if err != nil {
		return err
	}
	have, err := to.List(ctx)
	if err != nil {
		return err
	}
	for _, v := range slices.Backward(l.Versions) {
		var here *Version
		if found, has := have.Find(v.Serial); has {
			here = &found
		}
		v, docs, err := choose(v, here)
		if err != nil {
			return err
		}
		if docs == nil {
			continue
		}
		have.Versions = slices.DeleteFunc(slices.Clone(have.Versions), func(o Version) bool { return o.Serial == v.Serial })
		if have, err = add(ctx, to, have, v, docs); err != nil {
			return err
		}
	}
	if len(have.Versions) == 0 {
		return nil
	}
	gone := slices.DeleteFunc(union(have.Gone, union(l.Gone, rules.Gone)), func(r string) bool { return slices.Contains(rules.Present, r) })
	have.Gone = append([]string{}, gone...)
	return to.SetList(ctx, have)
}

// ReadAll returns the documents of a version.
func ReadAll(ctx context.Context, a Archive, v Version) (Documents, error) {
	docs := Documents{}
	for _, name := range append([]string{Snapshot}, v.Attached...) {
		data, err := a.Read(ctx, v.Serial, name)
		if err != nil && (name == Snapshot || !errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		if err == nil {
			docs[name] = data
		}
	}
	return docs, nil
}

// union returns the items of both lists, sorted and without duplicates.
func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}
