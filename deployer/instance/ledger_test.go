//go:build unix

package instance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/state"
)

// Which ledger is used, and the errors if that is not clear. HOME is the folder of the
// test.
func TestWhichLedger(t *testing.T) {
	t.Parallel()
	const team = "postgres://user:secret@db.example.com/addresses"
	for name, c := range map[string]struct {
		flag     string // --database
		known    string // recorded on this machine
		old      []string
		recorded string // in the state
		files    []string
		address  string
		refused  string
		others   []string // earlier ledgers
		leaves   string   // part of the warning that the deployment changes its ledger
	}{
		"none":                  {address: "HOME/addresses.db"},
		"by a flag":             {flag: "HOME/other.db", address: "HOME/other.db"},
		"by this machine":       {known: "HOME/known.db", files: []string{"known.db"}, address: "HOME/known.db"},
		"recorded, and is gone": {known: "HOME/known.db", address: "HOME/known.db", refused: "it does not exist, although this deployment has addresses in it"},
		"a flag leaves another": {
			flag: "HOME/new.db", known: "HOME/known.db", files: []string{"known.db"},
			address: "HOME/new.db", others: []string{"HOME/known.db"}, leaves: "HOME/known.db",
		},
		"an older one":        {known: "HOME/known.db", old: []string{"HOME/old.db", "HOME/known.db"}, files: []string{"known.db", "old.db"}, address: "HOME/known.db", others: []string{"HOME/old.db"}},
		"a team's":            {known: team, recorded: "postgres://db.example.com/addresses", address: team},
		"a team's, not named": {recorded: "postgres://db.example.com/addresses", address: "HOME/addresses.db", refused: "name that with --database", others: []string{"postgres://db.example.com/addresses"}, leaves: "postgres://db.example.com/addresses"},
		"another machine's":   {recorded: "/nowhere/addresses.db", address: "HOME/addresses.db", others: []string{"/nowhere/addresses.db"}, leaves: "of another machine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Options{}, nil)
			here := func(path string) string { return strings.Replace(path, "HOME", w.dir, 1) }
			w.Env.Database, w.Known.Database = here(c.flag), here(c.known)
			for _, path := range c.old {
				w.Known.OldDatabases = append(w.Known.OldDatabases, here(path))
			}
			w.record(t, func(st *state.State) { st.Own.Ledger = c.recorded })
			for _, name := range c.files {
				if err := os.WriteFile(filepath.Join(w.dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := w.Addresses.LedgerAddress(); got != here(c.address) {
				t.Errorf("the ledger is %s, want %s", got, here(c.address))
			}
			err := w.Addresses.UnnamedLedger()
			if err == nil {
				err = w.Addresses.LostLedger()
			}
			refused(t, err, c.refused)
			var others []string
			for _, path := range c.others {
				others = append(others, here(path))
			}
			if got := w.Addresses.OldLedgers(); !slices.Equal(got, others) {
				t.Errorf("others are %q, want %q", got, others)
			}
			if text := w.Addresses.LeavesLedger(); (text == "") != (c.leaves == "") || !strings.Contains(text, here(c.leaves)) || strings.Contains(text, "secret") {
				t.Errorf("it warns %q, want %q", text, c.leaves)
			}
		})
	}
}

// After reserving, the ledger is recorded; the state gets no secrets.
func TestRememberLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{}, nil)
	w.Known.Database = filepath.Join(w.dir, "old.db")
	w.Env.Database = "postgres://user:secret@db.example.com/addresses?sslmode=disable"
	for range 2 { // The second time, nothing changes.
		if err := w.Addresses.RememberLedger(); err != nil {
			t.Fatal(err)
		}
		known, _ := w.Folder().Deployment()
		if known.Database != w.Env.Database || !slices.Equal(known.OldDatabases, []string{filepath.Join(w.dir, "old.db")}) {
			t.Errorf("this machine has %q, %q", known.Database, known.OldDatabases)
		}
		if got := w.State.Get().Own.Ledger; got != "postgres://db.example.com/addresses" {
			t.Errorf("the state has %q", got)
		}
	}
	if w.State.Get().Own.Serial != 2 { // newWorld has written the state once.
		t.Errorf("the state was written %d times", w.State.Get().Own.Serial)
	}
}
