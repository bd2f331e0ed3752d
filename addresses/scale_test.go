package addresses_test

import (
	"path/filepath"
	"testing"

	"bootstrap/addresses"
	"bootstrap/addresses/addressestest"
	"bootstrap/internal/postgrestest"
	"bootstrap/network"
)

// holding opens a ledger that has the reservations.
func holding(b *testing.B, address string, held []network.Reservation) *addresses.Ledger {
	b.Helper()
	l := open(b, address)
	if _, err := l.Adopt(b.Context(), held); err != nil {
		b.Fatal(err)
	}
	return l
}

func BenchmarkScaleOnSQLite(b *testing.B) {
	addressestest.Scale(b, func(b *testing.B, held []network.Reservation) *addresses.Ledger {
		return holding(b, filepath.Join(b.TempDir(), "addresses.db"), held)
	})
}

func BenchmarkScaleOnPostgreSQL(b *testing.B) {
	server := postgrestest.Start(b)
	addressestest.Scale(b, func(b *testing.B, held []network.Reservation) *addresses.Ledger {
		return holding(b, server.Schema(b), held)
	})
}
