package cpi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/wait"

	"bootstrap/cpi"
	"bootstrap/local/network"
)

// kind is a kind of objects of the CPI. Each kind has a folder in the root folder, where
// each object has a folder named by its CID. An object exists if its folder has its
// record, which is written last and removed first. A folder without a record was left by
// a killed call.
type kind struct {
	folder string
	prefix string // prefix of CIDs
	record string
	name   string
	absent string // type of the error for a missing object
}

func stemcells() kind {
	return kind{"stemcells", "sc-", "stemcell.json", "stemcell", cpi.TypeStemcellNotFound}
}
func vms() kind   { return kind{"vms", "vm-", "vm.json", "VM", cpi.TypeVMNotFound} }
func disks() kind { return kind{"disks", "disk-", "disk.json", "disk", cpi.TypeDiskNotFound} }
func snapshots() kind {
	return kind{"snapshots", "snap-", "snapshot.json", "snapshot", cpi.TypeCloudError}
}

func kinds() []kind { return []kind{stemcells(), vms(), disks(), snapshots()} }

// lockWait is how long a call waits for others. The slowest one, delete_vm, may have to
// kill processes that do not end.
const lockWait = 5 * time.Minute

// root is the locked root folder of all objects.
type root struct {
	dir  string
	self string // this program
	lock *lockfile.Lock
}

// openRoot makes the folder if it does not exist, and waits until no other call uses it.
func openRoot(ctx context.Context, dir, self string) (*root, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, fmt.Errorf("other calls held its lock for %s", lockWait))
	defer cancel()
	for {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("cannot make the CPI's folder: %w", err)
		}
		lock, err := lockfile.Try(filepath.Join(dir, "lock"))
		switch {
		case errors.Is(err, fs.ErrNotExist): // a call that deleted the last object has removed it
			continue
		case err != nil:
			return nil, fmt.Errorf("cannot lock %s: %w", dir, err)
		case lock == nil:
			if err := wait.For(ctx, 5*time.Millisecond); err != nil {
				return nil, fmt.Errorf("cannot lock %s: %w", dir, err)
			}
			continue
		}
		// Agents identify their processes by this path, so it must have only one
		// spelling.
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			lock.Close()
			return nil, fmt.Errorf("cannot use the CPI's folder: %w", err)
		}
		return &root{dir: real, self: self, lock: lock}, nil
	}
}

// close unlocks the folder, and removes it if it is empty.
func (r *root) close() {
	for _, k := range kinds() {
		_ = os.Remove(filepath.Join(r.dir, k.folder)) // it fails if the folder is not empty
	}
	_ = os.Remove(filepath.Join(r.dir, attachedFolder))
	_ = network.Tidy(r.networks())
	_ = os.Remove(filepath.Join(r.dir, imagesFolder))
	entries, err := os.ReadDir(r.dir)
	if err == nil && len(entries) == 2 && entries[0].Name() == "lock" && entries[1].Name() == usersFile {
		_ = os.Remove(filepath.Join(r.dir, usersFile))
		entries = entries[:1]
	}
	if err == nil && len(entries) == 1 && entries[0].Name() == "lock" {
		r.lock.Remove()
		_ = os.Remove(r.dir)
		return
	}
	r.lock.Close()
}

// sweep removes the rest of killed calls. All earlier calls have ended, because each call
// holds the lock while it runs. sweep continues after an error, which is about objects
// that this call does not use: the next call tries again.
func (r *root) sweep(ctx context.Context) error {
	var left []error
	for _, k := range kinds() {
		entries, err := os.ReadDir(filepath.Join(r.dir, k.folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			left = append(left, fmt.Errorf("cannot list the %ss: %w", k.name, err))
		}
		for _, entry := range entries {
			dir := r.path(k, entry.Name())
			if _, err := os.Lstat(filepath.Join(dir, k.record)); !isCID(k, entry.Name()) || !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err := r.discard(ctx, k, dir); err != nil {
				left = append(left, fmt.Errorf("cannot remove the rest of the %s '%s' after a killed call: %w", k.name, entry.Name(), err))
			}
		}
	}
	return errors.Join(append(left, r.sweepAttached(ctx), r.sweepImages())...)
}

func isCID(k kind, cid string) bool {
	random, ok := strings.CutPrefix(cid, k.prefix)
	return ok && len(random) == 16 && strings.Trim(random, "0123456789abcdef") == ""
}

func (r *root) path(k kind, cid string) string { return filepath.Join(r.dir, k.folder, cid) }

// create makes the folder of a new thing.
func (r *root) create(k kind) (cid, dir string, err error) {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // rand.Read never fails
	cid = k.prefix + hex.EncodeToString(random)
	dir = r.path(k, cid)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", fmt.Errorf("cannot make the %s: %w", k.name, err)
	}
	return cid, dir, nil
}

// save writes the record of an object. From its first record on, the object exists.
func (r *root) save(k kind, cid string, record any) error {
	dir := r.path(k, cid)
	err := writeJSON(filepath.Join(dir, k.record), record)
	if err == nil {
		err = atomicfile.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("cannot save the %s: %w", k.name, err)
	}
	return nil
}

// has reports whether a thing exists.
func (r *root) has(k kind, cid string) (bool, error) {
	if !isCID(k, cid) {
		return false, nil
	}
	_, err := os.Stat(filepath.Join(r.path(k, cid), k.record))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// load reads the record of an object. If it does not exist, the error has the kind's
// type.
func (r *root) load(k kind, cid string, record any) error {
	found, err := r.has(k, cid)
	if err == nil && !found {
		return fail(k.absent, "%s '%s' does not exist", k.name, cid)
	}
	if err == nil {
		err = readJSON(filepath.Join(r.path(k, cid), k.record), record)
	}
	if err != nil {
		return fmt.Errorf("cannot read the %s %s: %w", k.name, cid, err)
	}
	return nil
}

// list returns the CIDs of all things of the kind.
func (r *root) list(k kind) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(r.dir, k.folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list the %ss: %w", k.name, err)
	}
	var cids []string
	for _, entry := range entries {
		if found, err := r.has(k, entry.Name()); err != nil {
			return nil, fmt.Errorf("cannot list the %ss: %w", k.name, err)
		} else if found {
			cids = append(cids, entry.Name())
		}
	}
	return cids, nil
}

// remove removes an object, its record first, so that no incomplete object exists.
func (r *root) remove(ctx context.Context, k kind, cid string) error {
	dir := r.path(k, cid)
	err := os.Remove(filepath.Join(dir, k.record))
	if err == nil {
		err = r.discard(ctx, k, dir)
	}
	if err != nil {
		return fmt.Errorf("cannot delete the %s %s: %w", k.name, cid, err)
	}
	return nil
}

// discard removes the folder of an object without a record.
func (r *root) discard(ctx context.Context, k kind, dir string) error {
	if k == vms() {
		if err := endVM(ctx, dir); err != nil {
			return err
		}
		if err := r.takeBackAll(ctx, filepath.Base(dir)); err != nil {
			return err
		}
	}
	return r.removeTree(ctx, dir)
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeJSON writes a file atomically, mode 0600. It flushes the content to the disk;
// the next SyncDir flushes the name.
func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(path, append(text, '\n'))
}
