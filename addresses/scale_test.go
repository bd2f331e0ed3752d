package addresses_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go4.org/netipx"

	"bootstrap/addresses"
	"bootstrap/addresses/addressestest"
	"bootstrap/network"
)

// holding opens a ledger that has the reservations.
func holding(b *testing.B, address string, held []network.Reservation) *addresses.Ledger {
	b.Helper()
	l := open(b, address)
	if strings.HasPrefix(address, "postgres://") {
		copyIn(b, address, held)
		return l
	}
	if _, err := l.Adopt(b.Context(), held); err != nil {
		b.Fatal(err)
	}
	return l
}

// copyIn writes reservations to a PostgreSQL ledger with one COPY.
func copyIn(b *testing.B, address string, held []network.Reservation) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), address)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	var rows [][]any
	for i, r := range held {
		first, last, gap, family := r.Block.Addr(), netipx.PrefixLastIP(r.Block), 1, 4
		if i+1 < len(held) && held[i+1].Block.Addr() == last.Next() {
			gap = 0
		}
		if first.Is6() {
			family = 6
		}
		rows = append(rows, []any{r.Scope, addresses.ScopeKey(r.Scope), family, first, last, r.Block, gap, r.Owner.Deployment, r.Owner.Name, r.Owner.Instance, r.Network, string(r.Kind), r.VM, time.Now(), r.Run})
	}
	names := []string{"scope", "scope_key", "family", "first", "last", "block", "gap_after", "deployment", "deployment_name", "instance", "network", "kind", "vm", "since", "run"}
	if _, err := conn.CopyFrom(b.Context(), pgx.Identifier{"bootstrap_addresses"}, names, pgx.CopyFromRows(rows)); err != nil {
		b.Fatal(err)
	}
	if _, err := conn.Exec(b.Context(), "ANALYZE bootstrap_addresses"); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkScaleOnSQLite(b *testing.B) {
	addressestest.Scale(b, func(b *testing.B, held []network.Reservation) *addresses.Ledger {
		return holding(b, filepath.Join(b.TempDir(), "addresses.db"), held)
	})
}

func BenchmarkScaleOnPostgreSQL(b *testing.B) {
	addressestest.Scale(b, func(b *testing.B, held []network.Reservation) *addresses.Ledger {
		return holding(b, schema(b), held)
	})
}

// BenchmarkFull measures each operation on a ledger with 60,000 reservations of a /16.
// best is the shortest time, because other programs may slow down the rest.
func BenchmarkFull(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) { full(b, filepath.Join(b.TempDir(), "addresses.db")) })
	b.Run("PostgreSQL", func(b *testing.B) { full(b, schema(b)) })
}

func full(b *testing.B, address string) {
	const held = 60_000
	c := task{Name: "d", Range: netip.MustParsePrefix("10.0.0.0/16")}
	var all []network.Reservation
	addr := c.Range.Addr().Next()
	for i := range held {
		addr = addr.Next()
		all = append(all, network.Reservation{Block: netip.PrefixFrom(addr, 32), Owner: network.Owner{Deployment: fmt.Sprint(i), Name: fmt.Sprint(i), Instance: "g/0"}, Network: "a", Kind: network.Automatic, VM: "vm"})
	}
	l := holding(b, address, all)
	best := func(name string, prepare, do func() error) {
		b.Run(name, func(b *testing.B) {
			least := time.Hour
			for b.Loop() {
				if err := prepare(); err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				if err := do(); err != nil {
					b.Fatal(err)
				}
				least = min(least, time.Since(began))
			}
			b.ReportMetric(float64(least.Microseconds())/1000, "best-ms")
		})
	}
	nothing := func() error { return nil }
	wish := []network.Instance{c.instance(0, "")}
	best("reserve", func() error {
		_, err := l.ReleaseDeployment(b.Context(), c.owner(0).Deployment)
		return err
	}, func() error {
		_, err := l.Reserve(b.Context(), "run", c.networks(), wish)
		return err
	})
	best("decide", nothing, func() error {
		_, err := l.Decide(b.Context(), c.networks(), wish)
		return err
	})
	best("list", nothing, func() error {
		list, err := l.List(b.Context(), addresses.Filter{})
		if len(list) < held {
			return fmt.Errorf("%d of %d: %w", len(list), held, err)
		}
		return err
	})
	best("open", nothing, func() error {
		other, err := addresses.Open(b.Context(), address, time.Now)
		if err != nil {
			return err
		}
		return other.Close()
	})
}
