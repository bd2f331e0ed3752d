// Package postgrestest runs a real PostgreSQL server for tests: with its own data
// folder, reached over a Unix socket, gone with the test.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"bootstrap/internal/wait"
)

// Server is a server that a test started.
type Server struct {
	programs string // the folder of PostgreSQL's programs
	folder   string // data and socket
	cmd      *exec.Cmd
	stdin    interface{ Close() error }
	schemas  atomic.Int64
}

// Start starts a server that ends with the test. If PostgreSQL is not installed, Start
// skips the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := New()
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// ErrMissing is the error of New if PostgreSQL is not installed.
var ErrMissing = errors.New("without PostgreSQL: no initdb and postgres below /usr/lib/postgresql or in PATH; Debian's package is postgresql")

// New starts a server for several tests. The caller closes it.
func New() (*Server, error) {
	programs, err := find()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{programs: programs, folder: folder}
	if err := give(folder); err != nil {
		s.Close()
		return nil, err
	}
	out, err := s.command("exec " + quote(filepath.Join(programs, "initdb")) + " -D data -U bootstrap -A trust -E UTF8 --locale=C --no-sync").CombinedOutput()
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := s.start(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the server and removes its data.
func (s *Server) Close() {
	s.Stop()
	os.RemoveAll(s.folder)
}

// find returns the folder with the programs of the newest installed version.
func find() (string, error) {
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.SortFunc(candidates, func(a, b string) int { return version(b) - version(a) })
	if path, err := exec.LookPath("postgres"); err == nil {
		candidates = append(candidates, path)
	}
	for _, path := range candidates {
		dir := filepath.Dir(path)
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", ErrMissing
}

// version returns the number in /usr/lib/postgresql/15/bin/postgres.
func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// quote quotes the text as one word for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// command returns a command that runs a script in the server's folder, as a user that
// PostgreSQL accepts: it does not accept root.
func (s *Server) command(script string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = s.folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + s.folder}
	asServer(cmd)
	return cmd
}

// serverUser returns the user as whom the server runs if this process is root.
func serverUser() (uid, gid int) {
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ = strconv.Atoi(u.Uid)
			gid, _ = strconv.Atoi(u.Gid)
			return uid, gid
		}
	}
	return 65534, 65534
}

// Installed reports whether New finds PostgreSQL.
func Installed() bool {
	_, err := find()
	return err == nil
}

// Again starts a server that was stopped.
func (s *Server) Again() error { return s.start() }

// Restart starts a server that was stopped.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// start starts the server, and returns when it can be used.
func (s *Server) start() error {
	// The server ends with this process, whatever the reason for its end: the server's
	// shell reads from a pipe, which is closed then.
	s.cmd = s.command(quote(filepath.Join(s.programs, "postgres")) + ` -D data -k "$PWD" -h '' -F -c max_connections=200 >>log 2>&1 </dev/null & server=$!; cat >/dev/null; kill -INT $server; wait $server`)
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	s.stdin = stdin
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err = wait.Poll(ctx, 20*time.Millisecond, func() (bool, error) {
		conn, err := pgx.Connect(ctx, s.URL())
		if err != nil {
			return false, nil
		}
		return true, conn.Close(ctx)
	})
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.folder, "log"))
		return fmt.Errorf("the server did not start: %w\n%s", err, log)
	}
	return nil
}

// Stop ends the server and all its connections.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	s.stdin.Close()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// URL returns the address of the server's first database.
func (s *Server) URL() string {
	return "postgres://bootstrap@/postgres?" + url.Values{"host": {s.folder}}.Encode()
}

// Schema returns the address of a new, empty schema in that database.
func (s *Server) Schema(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("s%d", s.schemas.Add(1))
	Exec(t, s.URL(), "CREATE SCHEMA "+name)
	return s.URL() + "&search_path=" + name
}

// Database returns the address of a new, empty database.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.create(t, "template1")
}

// Copy returns the address of a new database that is a copy of another one. Nobody may
// use the other one during the call.
func (s *Server) Copy(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return s.create(t, strings.TrimPrefix(u.Path, "/"))
}

func (s *Server) create(t testing.TB, from string) string {
	t.Helper()
	name := fmt.Sprintf("d%d", s.schemas.Add(1))
	Exec(t, s.URL(), "CREATE DATABASE "+name+" TEMPLATE "+from)
	return "postgres://bootstrap@/" + name + "?" + url.Values{"host": {s.folder}}.Encode()
}

// Exec runs statements on a database.
func Exec(t testing.TB, url, statements string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statements); err != nil {
		t.Fatal(err)
	}
}
