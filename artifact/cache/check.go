package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"bootstrap/artifact/archive"
	"bootstrap/internal/digest"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/regular"
)

// Lock keeps other goroutines and processes from loading the same file.
func (d Dir) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(d.Path("locks"), 0o700); err != nil {
		return nil, err
	}
	l := lockfile.New(d.Path("locks", name+".lock"))
	if _, err := l.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", l.Path(), err)
	}
	return func() { l.Unlock() }, nil
}

// Known reports whether a file was verified before and has not changed since.
func (d Dir) Known(path string, want digest.Digest) bool {
	id := IdentifyPath(path)
	rec := d.Recall(path, id)
	return id.Regular && rec.Satisfies(want) == nil
}

// Verified reports whether path is the wanted file. It reads the file unless an earlier
// result is recorded.
func (d Dir) Verified(ctx context.Context, path string, want digest.Digest, p archive.Progress) (bool, error) {
	digests, err := d.Check(ctx, path, want, p)
	return digests != nil, err
}

// Check returns the digests of path, or nil if path is not the wanted file. It reads the
// file unless the digests are recorded.
func (d Dir) Check(ctx context.Context, path string, want digest.Digest, p archive.Progress) (map[string]string, error) {
	if id := IdentifyPath(path); id.Regular {
		if rec := d.Recall(path, id); rec.Satisfies(want) == nil {
			Touch(d.RecordPath(path))
			return rec.Digests, nil
		}
	}
	f, rec, err := d.Open(path)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	if !rec.Identity.Regular {
		return nil, nil
	}
	sum := digest.NewSums("sha256", want.Algorithm)
	if err := archive.Drain(&archive.Input{Ctx: ctx, R: f, Total: rec.Identity.Size, Progress: p, Each: sum}); err != nil {
		return nil, context.Cause(ctx)
	}
	digests := sum.Hex()
	if want.Check(digests[want.Algorithm]) != nil {
		return nil, nil
	}
	return digests, d.Learn(f, rec, func(rec *Record) { rec.Know(digests) })
}

// Open opens a file and returns its record.
func (d Dir) Open(path string) (*os.File, Record, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, Record{}, fmt.Errorf("cannot open %s: %w", path, archive.Cause(err))
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, Record{}, err
	}
	return f, d.Recall(path, Identify(info)), nil
}

// Learn stores the record of a file that was read, unless the file has changed since.
func (d Dir) Learn(f *os.File, rec Record, add func(*Record)) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	id := Identify(info)
	if id != rec.Identity {
		return fmt.Errorf("%s changed while it was read", f.Name())
	}
	if !id.Settled(time.Now()) && !strings.HasPrefix(rec.Path, string(d)) {
		return nil
	}
	add(&rec)
	return d.Remember(rec)
}

// Satisfies returns errUnread if the record lacks the wanted digest, and a *digest.Error
// if the digests differ.
func (rec *Record) Satisfies(want digest.Digest) error {
	if want.Algorithm == "" {
		return nil
	}
	got, known := rec.Digests[want.Algorithm]
	if !known {
		return errUnread
	}
	return want.Check(got)
}

var errUnread = errors.New("the file was not read yet")

// Know adds digests.
func (rec *Record) Know(digests map[string]string) {
	all := map[string]string{}
	for _, m := range []map[string]string{rec.Digests, digests} {
		for a, d := range m {
			all[a] = d
		}
	}
	rec.Digests = all
}

// Touch sets the time of a file of the cache to now, as the time of its last use.
func Touch(file string) {
	now := time.Now()
	_ = os.Chtimes(file, now, now) // after an error, a prune may remove the file early, and nothing worse
}
