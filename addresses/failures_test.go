package addresses_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/addresses"
	"bootstrap/internal/postgrestest"
	"bootstrap/network"
)

// failure checks the kind of the error, and that its text contains the ledger and the
// words.
func failure(t *testing.T, err error, ledger string, kind addresses.Kind, words ...string) {
	t.Helper()
	var e *addresses.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("%v, want an error of the kind %q", err, kind)
	}
	for _, word := range append(words, ledger) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not contain %q: %v", word, err)
		}
	}
	t.Log(err)
}

func small() task { return task{Name: "d", Range: netip.MustParsePrefix("10.0.0.0/24")} }

// reserve reserves the address of an instance.
func reserve(t *testing.T, l *addresses.Ledger, instance int) error {
	t.Helper()
	c := small()
	_, err := l.Reserve(t.Context(), "run", c.networks(), []network.Instance{c.instance(instance, "")})
	return err
}

// execute executes a statement in an SQLite file.
func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "addresses.db")
		l := open(t, path)
		execute(t, path, "PRAGMA user_version = 2")
		failure(t, reserve(t, l, 0), path, addresses.Newer, "format 2")
		_, err := addresses.Open(t.Context(), path, time.Now)
		failure(t, err, path, addresses.Newer, "format 2", "newer version")
		execute(t, path, "PRAGMA user_version = 1")
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url := schema(t)
		l := open(t, url)
		postgrestest.Exec(t, url, "UPDATE bootstrap_address_format SET format = 2")
		failure(t, reserve(t, l, 0), "postgres://", addresses.Newer, "format 2", "newer version")
		_, err := addresses.Open(t.Context(), url, time.Now)
		failure(t, err, "postgres://", addresses.Newer, "format 2")
		postgrestest.Exec(t, url, "UPDATE bootstrap_address_format SET format = 1")
	})
}

func TestOtherFilesAreNoLedger(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "of another program")
	execute(t, path, "CREATE TABLE t (x)")
	_, err := addresses.Open(t.Context(), path, time.Now)
	failure(t, err, path, addresses.Corrupt, "another program")

	path = filepath.Join(dir, "text")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = addresses.Open(t.Context(), path, time.Now)
	failure(t, err, path, addresses.Corrupt)

	path = filepath.Join(dir, "empty")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = addresses.Open(t.Context(), path, time.Now)
	failure(t, err, path, addresses.Corrupt, "is empty")

	_, err = addresses.Open(t.Context(), dir, time.Now)
	failure(t, err, dir, addresses.Failed, "not a file")

	_, err = addresses.Open(t.Context(), filepath.Join(dir, "text", "addresses.db"), time.Now)
	failure(t, err, dir, addresses.Failed)

	if _, err = addresses.Open(t.Context(), "mysql://host/db", time.Now); err == nil || !strings.Contains(err.Error(), "mysql") {
		t.Error(err)
	}
}

// If a run is interrupted while it creates the ledger, the error says only that.
func TestInterruptedCreation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "addresses.db")
	if _, err := addresses.Open(ctx, path, time.Now); err != context.Canceled {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// The password is not part of a ledger's identity.
func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"/a.db", "/a.db", true},
		{"/a.db", "/b.db", false},
		{"postgres://u:one@h/d", "postgres://u:two@h/d", true},
		{"postgres://u@h/d?password=x", "postgres://u:x@h/d", true},
		{"postgres://u@h/d", "postgres://u@h/e", false},
		{"postgres://u@h/d?search_path=a", "postgres://u@h/d?search_path=b", false},
	} {
		if got := addresses.Same(c.a, c.b); got != c.want {
			t.Errorf("Same(%q, %q) is %v", c.a, c.b, got)
		}
	}
}

// A file name may contain any character.
func TestUnusualNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "what? 100%25 #1 'a' ü")
	l := open(t, path)
	if err := reserve(t, l, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// A damaged file is refused, or its damaged records count as no reservation.
func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "addresses.db")
	l := open(t, path)
	for i := range 60 {
		if err := reserve(t, l, i); err != nil {
			t.Fatal(err)
		}
	}
	want, err := l.List(t.Context(), addresses.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for i := range 300 {
		damaged := bytes.Clone(whole)
		at := random.IntN(len(damaged))
		switch i % 3 {
		case 0: // one bit
			damaged[at] ^= 1 << random.IntN(8)
		case 1: // one sector
			copy(damaged[at/512*512:], make([]byte, 512))
		case 2: // the end of the file
			damaged = damaged[:max(1, at)]
		}
		copied := filepath.Join(dir, fmt.Sprintf("copy-%d.db", i))
		if err := os.WriteFile(copied, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := contentsOf(t.Context(), copied)
		var e *addresses.Error
		switch {
		case err == nil && !slices.Equal(got, want):
			t.Fatalf("damage %d at %d changed the reservations", i, at)
		case err != nil && (!errors.As(err, &e) || e.Kind != addresses.Corrupt && e.Kind != addresses.Newer || !strings.Contains(err.Error(), copied)):
			t.Fatalf("damage %d at %d: %v", i, at, err)
		case err != nil:
			refused++
			if after, _ := os.ReadFile(copied); !bytes.Equal(after, damaged) {
				t.Errorf("damage %d at %d: the file that was refused was changed", i, at)
			}
			if refused == 1 {
				t.Log(err)
			}
		}
	}
	t.Logf("%d of 300 damaged files were refused, the others have all reservations", refused)
	if refused < 150 {
		t.Errorf("only %d damaged files were refused", refused)
	}
}

func contentsOf(ctx context.Context, path string) ([]network.Reservation, error) {
	l, err := addresses.Open(ctx, path, time.Now)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.List(ctx, addresses.Filter{})
}

func TestFileThatIsRemovedOrReplaced(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "addresses.db"), filepath.Join(dir, "other.db")
	for _, how := range []struct {
		word   string
		change func() error
	}{
		{"removed", func() error { return os.Rename(path, other) }},
		{"replaced", func() error { return errors.Join(os.Rename(path, other+"2"), os.Rename(other, path)) }},
	} {
		t.Run(how.word, func(t *testing.T) {
			l, err := addresses.Open(t.Context(), path, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := reserve(t, l, 0); err != nil {
				t.Fatal(err)
			}
			if err := how.change(); err != nil {
				t.Skipf("an open file cannot be renamed here: %v", err)
			}
			failure(t, reserve(t, l, 1), path, addresses.Gone, how.word)
			_, err = l.List(t.Context(), addresses.Filter{})
			failure(t, err, path, addresses.Gone, how.word)
			// The next test needs an intact ledger at the path.
			if how.word == "removed" {
				open(t, path)
			}
		})
	}
	// The file is removed during a transaction.
	l, err := addresses.OpenTraced(t.Context(), path, func(statement string) {
		if strings.HasPrefix(statement, "COMMIT") {
			_ = os.Rename(path, other+"3")
		}
	})
	if l != nil {
		defer l.Close()
	}
	if err == nil {
		err = reserve(t, l, 1)
	}
	failure(t, err, path, addresses.Gone)
}

// Another program has locked the ledger: a writer waits only for a limited time, and
// readers do not wait.
func TestLockedLedger(t *testing.T) {
	test := func(t *testing.T, driver, address, lock string) {
		l := open(t, address)
		db, err := sql.Open(driver, address)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		if _, err := db.Exec(lock); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		c := small()
		if _, err := l.Reserve(ctx, "run", c.networks(), []network.Instance{c.instance(0, "")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		l.SetPatience(300 * time.Millisecond)
		err = reserve(t, l, 0)
		failure(t, err, "", addresses.Busy, "others have used it", "run the same command again")
		l.SetPatience(time.Minute)
		if _, err := l.List(t.Context(), addresses.Filter{}); err != nil {
			t.Errorf("it cannot be read meanwhile: %v", err)
		}
		if _, err := db.Exec("ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if err := reserve(t, l, 0); err != nil {
			t.Error(err)
		}
	}
	t.Run("SQLite", func(t *testing.T) { test(t, "sqlite", file(t), "BEGIN IMMEDIATE") })
	t.Run("PostgreSQL", func(t *testing.T) {
		test(t, "pgx", schema(t), "BEGIN; UPDATE bootstrap_address_format SET format = 1")
	})
}

// inSmallFileSystem runs the test program, $1, in its own mount namespace, in which the
// folder $2 is a small file system. If $3 is given, the file system is mounted again
// with these options before the program runs for the second time.
const inSmallFileSystem = `set -eu
mount -t tmpfs -o size=200k,mode=700 none "$2"
"$1"
[ -z "$3" ] || { mount -o "$3" "$2"; ` + taskVariable + `="$4" "$1"; }
`

// inFolder runs one or two tasks on a ledger in a small file system.
func inFolder(t *testing.T, first, remount, second string) string {
	t.Helper()
	dir := t.TempDir()
	words := []string{"unshare", "-m"}
	if os.Getuid() != 0 {
		words = []string{"unshare", "-rm"}
	}
	if out, err := exec.Command(words[0], append(words[1:], "mount", "-t", "tmpfs", "none", dir)...).CombinedOutput(); err != nil {
		t.Skipf("without a file system of its own: %v %s", err, out)
	}
	c := small()
	c.Address = filepath.Join(dir, "addresses.db")
	text := func(do string) string {
		c.Do = do
		cmd := c.process(t)
		_, text, _ := strings.Cut(cmd.Env[len(cmd.Env)-1], "=")
		return text
	}
	cmd := exec.Command(words[0], append(words[1:], "sh", "-c", inSmallFileSystem, "sh", os.Args[0], dir, remount, text(second))...)
	cmd.Env = append(os.Environ(), taskVariable+"="+text(first))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestFullFileSystem(t *testing.T) {
	t.Log(inFolder(t, "fill", "", ""))
}

func TestReadOnlyFileSystem(t *testing.T) {
	t.Log(inFolder(t, "change", "remount,ro,bind", "change"))
}

// fill reserves addresses until the file system is full, checks that none is lost, and
// that it continues when there is free space.
func (c task) fill(ctx context.Context, l *addresses.Ledger) error {
	filler := c.Address + ".filler"
	if err := os.WriteFile(filler, make([]byte, 60<<10), 0o600); err != nil {
		return err
	}
	for made := 0; ; made++ {
		_, err := l.Adopt(ctx, []network.Reservation{{
			Block: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(made >> 8), byte(made)}), 32),
			Owner: c.owner(made), Network: "a", Kind: network.Automatic,
		}})
		if err == nil {
			continue
		}
		var e *addresses.Error
		if !errors.As(err, &e) || e.Kind != addresses.Full || made < 100 {
			return fmt.Errorf("after %d: %w", made, err)
		}
		fmt.Println(err)
		list, err := l.List(ctx, addresses.Filter{})
		if err != nil || len(list) != made {
			return fmt.Errorf("%d of %d are left: %w", len(list), made, err)
		}
		if defects, err := l.Check(ctx); err != nil || len(defects) > 0 {
			return fmt.Errorf("%q: %w", defects, err)
		}
		if err := os.Remove(filler); err != nil {
			return err
		}
		_, err = l.Reserve(ctx, "run", c.networks(), []network.Instance{c.instance(0, "")})
		return err
	}
}

// change reserves an address, or reports that it cannot.
func (c task) change(ctx context.Context, l *addresses.Ledger) error {
	list, err := l.List(ctx, addresses.Filter{})
	if err != nil {
		return err
	}
	_, err = l.Reserve(ctx, "run", c.networks(), []network.Instance{c.instance(len(list), "")})
	var e *addresses.Error
	if len(list) == 0 && err == nil || len(list) == 1 && errors.As(err, &e) && e.Kind == addresses.ReadOnly {
		fmt.Println(err)
		return nil
	}
	return fmt.Errorf("with %d reservations: %w", len(list), err)
}

// The server stops, also during a transaction, and starts again.
func TestServerThatStops(t *testing.T) {
	server := postgrestest.Start(t)
	stops := false
	l, err := addresses.OpenTraced(t.Context(), server.URL(), func(statement string) {
		if stops && strings.HasPrefix(statement, "INSERT") {
			server.Stop()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := reserve(t, l, 0); err != nil {
		t.Fatal(err)
	}
	stops = true
	failure(t, reserve(t, l, 1), "postgres://", addresses.Unreachable, "start the server")
	failure(t, reserve(t, l, 1), "postgres://", addresses.Unreachable)
	_, err = addresses.Open(t.Context(), server.URL(), time.Now)
	failure(t, err, "postgres://", addresses.Unreachable)
	stops = false
	server.Restart(t)
	list, err := l.List(t.Context(), addresses.Filter{})
	if err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if err := reserve(t, l, 1); err != nil {
		t.Error(err)
	}
}

// If a program does not take the lock, the exclusion constraint, which compares blocks,
// refuses its statement, and it repeats the transaction.
func TestConstraintOfTheServer(t *testing.T) {
	url := schema(t)
	inserted := false
	// Its first address is not the first one of any reservation.
	row := fmt.Sprintf(`INSERT INTO bootstrap_addresses VALUES ('', %d, 4, '10.0.0.0', '10.0.0.3', '10.0.0.0/30', 1, 'x', 'x', 'g/0', 'a', 'static', '', now(), 'run')`, addresses.ScopeKey(""))
	l, err := addresses.OpenTraced(t.Context(), url, func(statement string) {
		if !inserted && strings.HasPrefix(statement, "INSERT") {
			inserted = true
			postgrestest.Exec(t, url, row)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := reserve(t, l, 0); err != nil {
		t.Fatal(err)
	}
	list, err := l.List(t.Context(), addresses.Filter{Deployment: small().owner(0).Deployment})
	if err != nil || len(list) != 1 || list[0].Block.String() != "10.0.0.4/32" {
		t.Error(list, err)
	}
}

// A user with read access can only list; a user who may not connect gets the reason; no
// message contains the password.
func TestUsersOfTheServer(t *testing.T) {
	url := schema(t)
	l := open(t, url)
	if err := reserve(t, l, 0); err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(url, "search_path=")
	postgrestest.Exec(t, url, "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA "+name+" TO reader; GRANT SELECT ON bootstrap_addresses, bootstrap_address_format TO reader")
	reader := open(t, strings.Replace(url, "bootstrap@", "reader:s3cret@", 1))
	list, err := reader.List(t.Context(), addresses.Filter{})
	if err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	failure(t, reserve(t, reader, 1), "postgres://reader@", addresses.Denied, "permission denied")
	for _, address := range []string{
		strings.Replace(url, "bootstrap@", "nobody:s3cr%40et@", 1),
		strings.Replace(url, "/postgres?", "/other?password=s3cr%40et&", 1),
		"postgres://bob:s3cr@et@127.0.0.1:1/x",
		"postgres://bob:s3cr%zzet@127.0.0.1:1/x",
		"postgres://bob:s3cret@[::1/x",
		"postgres://bob:s3cret@127.0.0.1:port/x",
		"postgres://bob:s3cret@127.0.0.1:1/x?sslmode=s3cret",
	} {
		_, err := addresses.Open(t.Context(), address, time.Now)
		if err == nil || strings.Contains(err.Error(), "s3cr") || strings.Contains(err.Error(), "et@") || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "postgres://") {
			t.Errorf("%s: %v", address, err)
		}
		t.Log(err)
	}
}

func TestSecrets(t *testing.T) {
	for address, want := range map[string][]string{
		"postgres://bob@host/x":                      nil,
		"postgres://bob:@host/x?password=":           nil,
		"/home/bob:secret@host/addresses.db":         nil,
		"postgres://bob:a+b%40c@host/x":              {"a b@c", "a+b%40c", "a+b@c"},
		"postgres://bob:a%zzb@host/x":                {"a%zzb"},
		"postgres://host/x?sslpassword=a&Password=b": {"a", "b"},
	} {
		if got := addresses.Secrets(address); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
