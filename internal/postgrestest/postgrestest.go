// Package postgrestest runs a real PostgreSQL server for tests: with its own data
// folder, reached over a Unix socket, gone with the test.
package postgrestest

import (
	"context"
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
	programs string // its folder
	folder   string // data and socket
	cmd      *exec.Cmd
	stdin    interface{ Close() error }
	schemas  *atomic.Int64
}

// Start starts a server that ends with the test. Where PostgreSQL is not installed
// it skips the test.
func Start(t testing.TB) *Server {
	t.Helper()
	programs, err := find()
	if err != nil {
		t.Skipf("without PostgreSQL: %v", err)
	}
	folder, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{programs: programs, folder: folder, schemas: new(atomic.Int64)}
	t.Cleanup(func() {
		s.Stop(t)
		os.RemoveAll(folder)
	})
	if err := give(folder); err != nil {
		t.Fatal(err)
	}
	out, err := s.command("exec " + quote(filepath.Join(programs, "initdb")) + " -D data -U bootstrap -A trust -E UTF8 --locale=C --no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.Restart(t)
	return s
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
	return "", fmt.Errorf("no initdb and postgres below /usr/lib/postgresql or in PATH; Debian's package is postgresql")
}

// version returns the number in /usr/lib/postgresql/15/bin/postgres.
func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// quote makes one word of the text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// command is a script in the server's folder, as a user whom PostgreSQL accepts:
// root is none.
func (s *Server) command(script string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = s.folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + s.folder}
	asServer(cmd)
	return cmd
}

// serverUser returns the user whom the server runs as if this one is root.
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

// Restart starts a server that was stopped.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	// The server ends with this process, however that ends: its shell reads from a
	// pipe that is closed then.
	s.cmd = s.command(quote(filepath.Join(s.programs, "postgres")) + ` -D data -k "$PWD" -h '' -F -c max_connections=200 >>log 2>&1 </dev/null & server=$!; cat >/dev/null; kill -INT $server; wait $server`)
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdin = stdin
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
		t.Fatalf("the server did not start: %v\n%s", err, log)
	}
}

// Stop ends the server and all its connections.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
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
	s.Exec(t, "CREATE SCHEMA "+name)
	return s.URL() + "&search_path=" + name
}

// Exec runs statements as the server's owner.
func (s *Server) Exec(t testing.TB, statements string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statements); err != nil {
		t.Fatal(err)
	}
}
