//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v3"

	"bootstrap/internal/postgrestest"
)

// TestPostgresReplica deploys examples/postgres: a primary and a replica that follows it,
// as both say themselves. A row of the primary is read on the replica, also after a change
// of a property and with other VMs, for which the replica does not copy the data again. A
// client that reads from any of them is always served.
func TestPostgresReplica(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	if !postgrestest.Installed() {
		t.Skip("PostgreSQL is not installed; .ci/install does that")
	}
	if os.Getuid() == 0 && !namespaces() {
		t.Skip("PostgreSQL does not run as root, and local VMs have no other user without namespaces")
	}
	t.Parallel()
	c := newCluster(t, "postgres")
	c.must("deploy", "--yes")
	if _, err := c.command("plan"); err != nil {
		t.Fatalf("there is something to do after the deploy: %v", err)
	}
	db := postgresOf(c)
	copied := db.copied()
	db.write(1)
	db.follows(1)

	reading := startClient(t, []string{postgresPrimary, postgresReplica}, func(server string) error {
		_, err := db.ask(server, "SELECT count(*)::text FROM rows")
		return err
	})
	c.change("postgres.yml", "work_mem: 4MB", "work_mem: 8MB")
	out := c.must("deploy", "--yes")
	if !strings.Contains(out, "postgres: serves all the time: not more than 1 of 2 instances down") {
		t.Errorf("the plan does not say that one of both serves:\n%s", out)
	}
	for _, server := range []string{postgresPrimary, postgresReplica} {
		if got, err := db.ask(server, "SHOW work_mem"); got != "8MB" {
			t.Errorf("%s has the work_mem %q: %v", server, got, err)
		}
	}
	db.write(2)
	db.follows(2)

	c.must("recreate", "--yes", "--instance", "postgres/1")
	db.write(3)
	db.follows(3)
	c.must("recreate", "--yes", "--instance", "postgres/0")
	db.write(4)
	db.follows(4)
	asked, failed := reading()
	t.Logf("%d requests during the changes", asked)
	if asked < 50 || len(failed) > 0 {
		t.Errorf("%d of %d requests had no answer: %v", len(failed), asked, failed)
	}
	if got := db.copied(); got != copied {
		t.Errorf("the replica has another copy of the data: %s, before %s", got, copied)
	}
}

// The addresses of examples/postgres.
const (
	postgresPrimary = "127.52.0.2"
	postgresReplica = "127.52.0.3"
)

// primary is the deployed primary, which has a replica.
type primary struct {
	*cluster
	password string
}

func postgresOf(c *cluster) *primary {
	c.t.Helper()
	var secrets struct {
		Password string `yaml:"postgres_password"`
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "creds.yml"))
	if err == nil {
		err = yaml.Unmarshal(text, &secrets)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return &primary{cluster: c, password: secrets.Password}
}

// ask returns the text that a query for one value has as its answer; empty: it has none.
func (p *primary) ask(server, query string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://admin:%s@%s:5432/postgres?sslmode=disable", p.password, server))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return "", err
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(list, " "), err
}

// write adds a row to the table on the primary.
func (p *primary) write(row int) {
	p.t.Helper()
	for _, statement := range []string{"CREATE TABLE IF NOT EXISTS rows (n int)", fmt.Sprintf("INSERT INTO rows VALUES (%d)", row)} {
		if _, err := p.ask(postgresPrimary, statement); err != nil {
			p.t.Fatal(err)
		}
	}
}

// follows waits until the replica has the rows up to the given one, and checks that it
// follows the primary as both say.
func (p *primary) follows(row int) {
	p.t.Helper()
	var want []string
	for n := range row {
		want = append(want, fmt.Sprint(n+1))
	}
	for _, q := range []struct{ server, query, want string }{
		{postgresReplica, "SELECT n::text FROM rows ORDER BY n", strings.Join(want, " ")},
		{postgresReplica, "SELECT sender_host || ' ' || status || ' ' || pg_is_in_recovery() FROM pg_stat_wal_receiver", postgresPrimary + " streaming true"},
		{postgresPrimary, "SELECT application_name || ' ' || state || ' ' || pg_is_in_recovery() FROM pg_stat_replication", "postgres-1 streaming false"},
	} {
		eventually(p.t, func() error {
			got, err := p.ask(q.server, q.query)
			if err == nil && got != q.want {
				err = fmt.Errorf("%s: %s: %q, want %q", q.server, q.query, got, q.want)
			}
			return err
		})
	}
}

// copied returns what tells copies of the primary's data from each other: the manifest
// that pg_basebackup writes has times.
func (p *primary) copied() string {
	p.t.Helper()
	return p.must("ssh", "--instance", "postgres/1", "--", "sha256sum", "/var/vcap/store/postgres/data/backup_manifest")
}
