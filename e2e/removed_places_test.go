//go:build linux

package e2e

import (
	"context"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"bootstrap/internal/postgrestest"
	"bootstrap/state/team/teamtest"
)

// shelf is where a site of TestRemoved keeps the documents of its deployment.
type shelf interface {
	// names returns the names of the documents, sorted, without locks.
	names(t *testing.T) []string
	remove(t *testing.T, name string)
	// keep returns a function that brings all documents back to what they are now.
	keep(t *testing.T) (restore func(*testing.T))
}

// placeNames are the places of TestRemoved.
var placeNames = []string{"folder", "https", "s3", "postgres"}

// newPlace starts the server of a place. state is the value of --state, empty for a
// folder; env is the environment that commands need.
func newPlace(t *testing.T, kind, dir string) (_ shelf, state string, env []string) {
	t.Helper()
	switch kind {
	case "https":
		web := &teamtest.Web{}
		server := httptest.NewServer(web)
		t.Cleanup(server.Close)
		return &webPlace{web}, server.URL + "/lab", nil
	case "s3":
		folder := t.TempDir()
		url, stop, err := teamtest.StartS3(context.Background(), folder)
		if errors.Is(err, teamtest.ErrMissing) {
			t.Skip(err)
		}
		check(t, err)
		t.Cleanup(stop)
		keys := []string{"AWS_ACCESS_KEY_ID=" + teamtest.KeyID, "AWS_SECRET_ACCESS_KEY=" + teamtest.Secret}
		return &s3Place{folder}, "s3://" + teamtest.Bucket + "/lab?endpoint=" + url, keys
	case "postgres":
		server := postgrestest.Start(t)
		return &postgresPlace{server.URL()}, server.URL() + "&environment=lab", nil
	}
	return &folderPlace{dir}, "", nil
}

// isLock reports whether a document is a lock, which every command may write.
func isLock(name string) bool {
	base := filepath.Base(name)
	return base == "lock.json" || base == "lock" || strings.HasSuffix(base, ".lock")
}

// folderPlace is the folder of the manifest: the state or the record, its backups, and
// the vars store.
type folderPlace struct{ dir string }

func (p *folderPlace) names(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range filesBelow(p.dir) {
		name, err := filepath.Rel(p.dir, name)
		check(t, err)
		top, _, _ := strings.Cut(name, "/")
		if (strings.HasPrefix(top, "page-state") || top == "creds.yml") && !isLock(name) && !strings.Contains(name, "/logs/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p *folderPlace) remove(t *testing.T, name string) {
	t.Helper()
	check(t, os.Remove(filepath.Join(p.dir, name)))
	_ = os.Remove(filepath.Dir(filepath.Join(p.dir, name))) // if it is empty, as git does
}

func (p *folderPlace) keep(t *testing.T) func(*testing.T) {
	t.Helper()
	return keepFiles(t, p.dir, func(top string) bool { return strings.HasPrefix(top, "page-state") || top == "creds.yml" })
}

type webPlace struct{ web *teamtest.Web }

func (p *webPlace) names(*testing.T) (names []string) {
	for _, name := range p.web.Names() {
		if !isLock(name) {
			names = append(names, strings.TrimPrefix(name, "lab/"))
		}
	}
	return names
}

func (p *webPlace) remove(_ *testing.T, name string) { p.web.Remove("lab/" + name) }

func (p *webPlace) keep(*testing.T) func(*testing.T) {
	restore := p.web.Snapshot()
	return func(*testing.T) { restore() }
}

// s3Place is the folder of an S3 server.
type s3Place struct{ folder string }

func (p *s3Place) names(t *testing.T) (names []string) {
	t.Helper()
	dir := filepath.Join(p.folder, "buckets", teamtest.Bucket, "lab")
	for _, name := range filesBelow(dir) {
		if !isLock(name) {
			name, err := filepath.Rel(dir, name)
			check(t, err)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p *s3Place) remove(t *testing.T, name string) {
	t.Helper()
	check(t, os.Remove(filepath.Join(p.folder, "buckets", teamtest.Bucket, "lab", name)))
	check(t, os.RemoveAll(filepath.Join(p.folder, "attributes", teamtest.Bucket, "lab", name)))
}

func (p *s3Place) keep(t *testing.T) func(*testing.T) {
	t.Helper()
	all := func(string) bool { return true }
	// The server works in the folder of its buckets, which stays.
	documents, attributes := keepFiles(t, filepath.Join(p.folder, "buckets"), all), keepFiles(t, filepath.Join(p.folder, "attributes"), all)
	return func(t *testing.T) {
		t.Helper()
		documents(t)
		attributes(t)
	}
}

// postgresPlace is a database with one environment.
type postgresPlace struct{ url string }

func (p *postgresPlace) do(t *testing.T, query string, values ...any) (texts []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.url)
	check(t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), query, values...)
	check(t, err)
	texts, err = pgx.CollectRows(rows, pgx.RowTo[string])
	check(t, err)
	return texts
}

func (p *postgresPlace) names(t *testing.T) []string {
	t.Helper()
	names := p.do(t, `SELECT name FROM bootstrap_documents ORDER BY name`)
	return slices.DeleteFunc(names, isLock)
}

func (p *postgresPlace) remove(t *testing.T, name string) {
	t.Helper()
	p.do(t, `DELETE FROM bootstrap_documents WHERE name = $1 RETURNING name`, name)
}

func (p *postgresPlace) keep(t *testing.T) func(*testing.T) {
	t.Helper()
	p.do(t, `DROP TABLE IF EXISTS kept`)
	p.do(t, `CREATE TABLE kept AS SELECT * FROM bootstrap_documents`)
	return func(t *testing.T) {
		t.Helper()
		p.do(t, `DELETE FROM bootstrap_documents`)
		p.do(t, `INSERT INTO bootstrap_documents SELECT * FROM kept`)
	}
}

// keepFiles returns a function that brings the chosen entries of a folder back to what
// they are now.
func keepFiles(t *testing.T, dir string, chosen func(top string) bool) (restore func(*testing.T)) {
	t.Helper()
	kept := t.TempDir()
	list := func(t *testing.T, dir string) (names []string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if chosen(e.Name()) {
				names = append(names, filepath.Join(dir, e.Name()))
			}
		}
		return names
	}
	copyAll := func(t *testing.T, names []string, to string) {
		t.Helper()
		if len(names) == 0 {
			return
		}
		out, err := exec.CommandContext(t.Context(), "cp", slices.Concat([]string{"-a", "--"}, names, []string{to})...).CombinedOutput() // #nosec G204 -- of a test
		if err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
	}
	copyAll(t, list(t, dir), kept)
	return func(t *testing.T) {
		t.Helper()
		for _, name := range list(t, dir) {
			check(t, os.RemoveAll(name))
		}
		copyAll(t, list(t, kept), dir)
	}
}
