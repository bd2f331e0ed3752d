package addresses

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/wait"
	"bootstrap/network"
)

// applicationID is the number in the header of SQLite files that are ledgers:
// "bsAL".
const applicationID = 0x6273414c

// sqlite is the dialect of a ledger in a file. It uses a rollback journal, not a
// write-ahead log: that log's index is shared memory, which does not work between
// machines if the home is on a network file system, and without the log an unused
// ledger is a single file that can be copied. With synchronous=EXTRA a commit survives
// a power failure.
type sqlite struct {
	path string
	file fs.FileInfo // the file that the ledger was opened with
}

func openSQLite(ctx context.Context, path string, before func(string)) (*store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d := &sqlite{path: path}
	if d.file, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if to, err := os.Readlink(path); err == nil {
			return nil, &Error{Ledger: path, Kind: Gone, Detail: fmt.Sprintf("it is a symbolic link to %s, which does not exist", to), Err: fs.ErrNotExist}
		}
		if err := createSQLite(ctx, path, before); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			kind, detail := d.explain(err)
			return nil, &Error{Ledger: path, Kind: kind, Detail: "it cannot be created: " + detail, Err: err}
		}
		d.file, err = os.Stat(path)
	}
	switch {
	case err != nil:
		kind, detail := d.explain(err)
		return nil, &Error{Ledger: path, Kind: kind, Detail: detail, Err: err}
	case !d.file.Mode().IsRegular():
		return nil, &Error{Ledger: path, Kind: Failed, Detail: "it is not a file; give the path of a file"}
	case d.file.Size() == 0:
		return nil, &Error{Ledger: path, Kind: Corrupt, Detail: "the file is empty"}
	}
	db, err := sql.Open("sqlite", sqliteURL(path, "rw"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	s := &store{db: db, dialect: d, place: path, patience: patience, before: before}
	if err := s.transact(ctx, false, func(t records) error { return d.check(t.(*transaction)) }); err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

// sqliteURL returns the path as a URL for SQLite, so that it may contain any character.
func sqliteURL(path, mode string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/...
	}
	query := url.Values{"mode": {mode}, "_pragma": {
		"busy_timeout(100)", "journal_mode(delete)", "synchronous(extra)", "trusted_schema(off)", "cell_size_check(on)", "temp_store(memory)",
	}}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

// createSQLite creates an empty ledger: it writes a temporary file, and links it to the
// path when the file is complete. So the file at the path is always complete, and two
// programs that create it at the same time use the same file.
func createSQLite(ctx context.Context, path string, before func(string)) error {
	dir := filepath.Dir(path)
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	removeAbandoned(path)
	temp, err := os.CreateTemp(dir, filepath.Base(path)+".new-*") // with mode 0600
	if err != nil {
		return err
	}
	temp.Close()
	defer os.Remove(temp.Name())
	atomicfile.GiveToFolderOwner(temp.Name())
	if err := writeEmpty(ctx, temp.Name(), before); err != nil {
		return err
	}
	before("link")
	err = os.Link(temp.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil { // the file system has no links
		if _, err := os.Lstat(path); err == nil {
			return nil
		}
		err = os.Rename(temp.Name(), path)
	}
	atomicfile.SyncDir(dir)
	return err
}

// removeAbandoned removes files of runs that were killed while they created the ledger.
func removeAbandoned(path string) {
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.new-*"))
	for _, name := range left {
		info, err := os.Stat(name)
		if err == nil && strings.HasPrefix(filepath.Base(name), filepath.Base(path)+".new-") && time.Since(info.ModTime()) > time.Hour {
			os.Remove(name)
		}
	}
}

func writeEmpty(ctx context.Context, path string, before func(string)) error {
	db, err := sql.Open("sqlite", sqliteURL(path, "rw"))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, statement := range []string{
		"BEGIN IMMEDIATE",
		`CREATE TABLE reservations (
			scope TEXT NOT NULL,
			family INTEGER NOT NULL CHECK (family IN (4, 6)),
			first BLOB NOT NULL CHECK (length(first) = 16),
			last BLOB NOT NULL CHECK (length(last) = 16 AND first <= last),
			gap_after INTEGER NOT NULL CHECK (gap_after IN (0, 1)),
			deployment TEXT NOT NULL,
			deployment_name TEXT NOT NULL,
			instance TEXT NOT NULL,
			network TEXT NOT NULL,
			kind TEXT NOT NULL,
			vm TEXT NOT NULL,
			since INTEGER NOT NULL,
			run TEXT NOT NULL,
			sum INTEGER NOT NULL,
			PRIMARY KEY (scope, family, first)
		) STRICT, WITHOUT ROWID`,
		"CREATE INDEX reservations_by_gap ON reservations (scope, family, last) WHERE gap_after = 1",
		"CREATE INDEX reservations_by_owner ON reservations (deployment, instance)",
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", Format),
		"COMMIT",
	} {
		before(statement)
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return db.Close()
}

// check returns an error unless the file is an intact ledger that this version can use.
func (d *sqlite) check(t *transaction) error {
	id, err := t.number("PRAGMA application_id")
	if err != nil {
		return err
	}
	if id != applicationID {
		return &Error{Ledger: d.path, Kind: Corrupt, Detail: "it is a database of another program, or damaged"}
	}
	defects, err := d.defects(t)
	if err == nil && len(defects) > 0 {
		err = t.damaged(errors.New(defects[0]))
	}
	if err != nil {
		return err
	}
	return t.each(func(network.Reservation) {}, "")
}

func (d *sqlite) begin(t *transaction) error {
	if t.write {
		return t.exec("BEGIN IMMEDIATE")
	}
	return t.exec("BEGIN")
}

// commit waits for readers.
func (d *sqlite) commit(t *transaction) error {
	for {
		err := t.exec("COMMIT")
		if err == nil {
			return d.same()
		}
		if !d.again(err) || wait.For(t.ctx, 5*time.Millisecond) != nil {
			return err
		}
	}
}

func (d *sqlite) ready(t *transaction) error {
	if err := d.same(); err != nil {
		return err
	}
	found, err := t.number("PRAGMA user_version")
	if err == nil && found != Format {
		kind, detail := Newer, fmt.Sprintf("it has the format %d of a newer version of bootstrap, and this version knows the format %d", found, Format)
		if found < Format {
			kind, detail = Corrupt, "it is a database of another program, or damaged"
		}
		err = &Error{Ledger: d.path, Kind: kind, Detail: detail}
	}
	return err
}

// same reports whether the path still leads to the file that was opened: SQLite would
// write to a removed file.
func (d *sqlite) same() error {
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Ledger: d.path, Kind: Gone, Detail: "the file was removed while this run used it", Err: err}
	case err == nil && !os.SameFile(info, d.file):
		return &Error{Ledger: d.path, Kind: Gone, Detail: "the file was replaced by another one while this run used it"}
	}
	return err
}

func (d *sqlite) prepares() bool      { return true }
func (d *sqlite) excludes() bool      { return false }
func (d *sqlite) table() string       { return "reservations" }
func (d *sqlite) placeholder() string { return "?" }

func (d *sqlite) address(addr netip.Addr) any {
	bytes := addr.As16()
	return bytes[:]
}

func (d *sqlite) time(t time.Time) any {
	if t.IsZero() {
		return int64(0)
	}
	return t.UnixMilli()
}

func (d *sqlite) extra() []string { return []string{"sum"} }

// extras is a checksum of the record: SQLite does not notice a byte that changes
// in the middle of an address.
func (d *sqlite) extras(r network.Reservation) []any {
	data := make([]byte, 0, 256)
	first := r.Block.Addr().As16()
	data = append(append(data, first[:]...), byte(r.Block.Bits()), byte(family(r.Block.Addr())))
	data = binary.BigEndian.AppendUint64(data, uint64(d.time(r.Since).(int64)))
	for _, text := range []string{r.Scope, r.Owner.Deployment, r.Owner.Name, r.Owner.Instance, r.Network, string(r.Kind), r.VM, r.Run} {
		data = binary.BigEndian.AppendUint32(data, uint32(len(text)))
		data = append(data, text...)
	}
	return []any{int64(crc32.ChecksumIEEE(data))}
}

func (d *sqlite) verify(r network.Reservation, extras []any) error {
	if extras[0] != d.extras(r)[0] {
		return fmt.Errorf("the record of %s does not have its checksum: the file is damaged, or another program changed it", r.Block)
	}
	return nil
}

func (d *sqlite) defects(t *transaction) ([]string, error) {
	rows, err := t.rows("PRAGMA integrity_check(10)")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var defects []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		if text != "ok" {
			defects = append(defects, strings.ReplaceAll(strings.TrimSpace(text), "\n", ", "))
		}
	}
	return defects, rows.Err()
}

// code returns the primary result code of SQLite, or 0.
func code(err error) int {
	var e *driver.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

func (d *sqlite) again(err error) bool {
	return code(err) == sqlite3.SQLITE_BUSY || code(err) == sqlite3.SQLITE_LOCKED
}

func (d *sqlite) explain(err error) (Kind, string) {
	var extended *driver.Error
	if errors.As(err, &extended) && extended.Code() == sqlite3.SQLITE_READONLY_DBMOVED {
		return Gone, "the file was removed or replaced while this run used it"
	}
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return Busy, "another program has locked the file"
	case sqlite3.SQLITE_READONLY:
		return ReadOnly, "the file cannot be written"
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return Denied, "the file, or a journal beside it, cannot be opened"
	case sqlite3.SQLITE_FULL:
		return Full, "there is no room in the file system"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT:
		return Corrupt, "the file is damaged: " + err.Error()
	case sqlite3.SQLITE_IOERR:
		return Failed, "reading or writing the file failed: " + err.Error() + "; check its file system, and run the same command again"
	}
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err // the message contains the path already
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return Full, "there is no room in the file system"
	case errors.Is(err, syscall.EROFS):
		return ReadOnly, "the file system is read-only"
	case errors.Is(err, fs.ErrPermission):
		return Denied, err.Error()
	}
	return Failed, err.Error()
}
