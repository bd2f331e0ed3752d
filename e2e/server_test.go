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

// databasePassword is in the URL of each script's database, although the server does not
// ask for it.
const databasePassword = "password-of-the-database"

// database is the PostgreSQL server of a script; nil: the script has none.
type database struct{ server *postgrestest.Server }

type databaseKey struct{}

// ownDatabase gives a script a place for a server. At the end it kills the processes
// whose numbers the script has written to files NAME.pid, because a worker waits for ever
// for a server that does not come back.
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
// stops it, and another start starts the same server again. The condition [postgres] is
// true where PostgreSQL is installed.
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
