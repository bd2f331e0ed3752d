//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"bootstrap/internal/postgrestest"
)

// databasePassword is in the URL of each script's database. The server asks for
// none.
const databasePassword = "password-of-the-database"

// database is the PostgreSQL server of a script; nil: it has none.
type database struct{ server *postgrestest.Server }

type databaseKey struct{}

// ownDatabase gives a script room for a server. At the end it kills the processes of
// which the script has left a number in a file NAME.pid: a worker waits for ever for a
// server that is gone.
func ownDatabase(env *testscript.Env) {
	own := &database{}
	env.Values[databaseKey{}] = own
	env.Defer(func() {
		paths, _ := filepath.Glob(filepath.Join(env.WorkDir, "*.pid"))
		for _, path := range paths {
			text, _ := os.ReadFile(path)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if own.server != nil {
			own.server.Close()
		}
	})
}

// postgres start starts a PostgreSQL server, with its URL in $DATABASE; postgres stop
// stops it, and start starts the same one again. The condition [postgres] is true
// where PostgreSQL is installed.
func postgres(ts *testscript.TestScript, neg bool, args []string) {
	own := ts.Value(databaseKey{}).(*database)
	switch what := strings.Join(args, " "); {
	case neg || what != "start" && what != "stop":
		ts.Fatalf("usage: postgres start|stop")
	case what == "stop":
		own.server.Stop()
	case own.server != nil:
		ts.Check(own.server.Again())
	default:
		server, err := postgrestest.New()
		ts.Check(err)
		own.server = server
		ts.Setenv("DATABASE", strings.Replace(server.URL(), "bootstrap@", "bootstrap:"+databasePassword+"@", 1))
	}
}
