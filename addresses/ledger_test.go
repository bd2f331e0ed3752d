package addresses_test

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bootstrap/addresses"
	"bootstrap/addresses/addressestest"
	"bootstrap/internal/postgrestest"
	"bootstrap/network"
)

// testOrPlay is a test, or one run of TestProperties.
type testOrPlay interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
}

// open opens the ledger; the end of the test closes it.
func open(t testOrPlay, address string) *addresses.Ledger {
	t.Helper()
	l, err := addresses.Open(t.Context(), address, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if defects, err := l.Check(context.Background()); err != nil || len(defects) > 0 {
			t.Errorf("%q, %v", defects, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// file returns the path for a new ledger. It is in memory if the machine has such a
// folder: tests that kill processes do not need a disk.
func file(t testOrPlay) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "addresses")
	if err != nil {
		dir, err = os.MkdirTemp("", "addresses")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "addresses.db")
}

// shared is a PostgreSQL server that is started when the first test needs it.
var shared struct {
	once   sync.Once
	server *postgrestest.Server
	err    error
}

// schema returns the address of an empty schema on that server. Without
// PostgreSQL it skips the test.
func schema(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = postgrestest.New() })
	if errors.Is(shared.err, postgrestest.ErrMissing) {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server.Schema(t)
}

func TestCasesInMemory(t *testing.T) {
	t.Parallel()
	addressestest.Run(t, true, func(t *testing.T) *addresses.Ledger {
		l, err := addresses.Memory(nil, nil, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
}

func TestCasesOnSQLite(t *testing.T) {
	t.Parallel()
	addressestest.Run(t, false, func(t *testing.T) *addresses.Ledger {
		return open(t, file(t))
	})
}

func TestCasesOnPostgreSQL(t *testing.T) {
	t.Parallel()
	schema(t) // It skips the test without PostgreSQL.
	addressestest.Run(t, false, func(t *testing.T) *addresses.Ledger { return open(t, schema(t)) })
}

func TestFileMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home", ".bosh", "addresses.db")
	open(t, path)
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if len(left) != 1 {
		t.Error(left)
	}
}

func TestPropertiesInMemory(t *testing.T) {
	addressestest.Properties(t, true, math.MaxInt, func(t *rapid.T) *addresses.Ledger {
		l, err := addresses.Memory(nil, nil, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
}

func TestPropertiesOnSQLite(t *testing.T) {
	addressestest.Properties(t, false, math.MaxInt, func(t *rapid.T) *addresses.Ledger {
		return open(t, file(t))
	})
}

func TestPropertiesOnPostgreSQL(t *testing.T) {
	schema(t) // It skips the test without PostgreSQL.
	addressestest.Properties(t, false, 8, func(play *rapid.T) *addresses.Ledger { return open(play, schema(t)) })
}

// The gaps of a whole query are too small; the lowest free block comes after them.
func TestManyGapsThatAreTooSmall(t *testing.T) {
	t.Parallel()
	test := func(open func(t *testing.T) *addresses.Ledger) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct{ subnet, want string }{
				{"10.0.0.0/16", "10.0.18.208/28"},
				{"2001:db8::/32", "2001:db8::12d0/124"},
			} {
				l := open(t)
				r := netip.MustParsePrefix(c.subnet)
				wanted := netip.MustParsePrefix(c.want)
				var held []network.Reservation
				for block := netip.PrefixFrom(r.Addr(), wanted.Bits()); block != wanted; {
					addr := block.Addr()
					for range 5 {
						addr = addr.Next()
					}
					held = append(held, network.Reservation{Block: netip.PrefixFrom(addr, addr.BitLen()), Owner: small().owner(len(held)), Network: "a", Kind: network.Automatic})
					for block.Contains(addr) {
						addr = addr.Next()
					}
					block = netip.PrefixFrom(addr, wanted.Bits())
				}
				if len(held) < 300 {
					t.Fatal(len(held))
				}
				if _, err := l.Adopt(t.Context(), held); err != nil {
					t.Fatal(err)
				}
				networks := []network.Network{{Name: "a", Type: network.Manual, Subnets: []network.Subnet{{Range: r, Prefix: wanted.Bits()}}}}
				outcomes, err := l.Reserve(t.Context(), "run", networks, []network.Instance{small().instance(1000, "")})
				if err != nil {
					t.Fatal(err)
				}
				if got := outcomes[0].Changes[0].Reservation.Block; got != wanted {
					t.Errorf("got %s, want %s", got, wanted)
				}
			}
		}
	}
	t.Run("memory", test(func(t *testing.T) *addresses.Ledger {
		l, err := addresses.Memory(nil, nil, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}))
	t.Run("SQLite", test(func(t *testing.T) *addresses.Ledger { return open(t, file(t)) }))
	t.Run("PostgreSQL", test(func(t *testing.T) *addresses.Ledger { return open(t, schema(t)) }))
}
