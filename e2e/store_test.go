//go:build unix

package e2e

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"bootstrap/internal/postgrestest"
	"bootstrap/state/team/teamtest"
)

// store {s3 | web | private | postgres} starts a server for the state of a team and sets
// STATE to its address, which contains a password for private and postgres. For web, the
// script controls the server: "store down" makes it fail, "store down-after N" makes it
// fail at the write of the state after N other writes, and "store up" ends that. "store
// has NAME" prints a document of it, "! store has NAME" expects that there is none,
// "store put NAME FILE" replaces one, like anybody who may write there, and "store empty"
// removes all.
func store(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 || neg && args[0] != "has" || len(args) != map[string]int{"down-after": 2, "has": 2, "put": 3}[args[0]] && len(args) != 1 {
		ts.Fatalf("usage: store {s3 | web | private | postgres | down | down-after N | up | has NAME | put NAME FILE | empty}")
	}
	down, _ := ts.Value(storeDown).(*downAfter)
	switch args[0] {
	case "s3", "web", "private", "postgres": // the address is the same for machines without keys
		ts.Setenv("BOOTSTRAP_STATE_KEY", storesKey)
	}
	switch args[0] {
	case "s3":
		url, stop, err := teamtest.StartS3(context.Background(), ts.MkAbs("s3"))
		if errors.Is(err, teamtest.ErrMissing) {
			ts.Logf("%v", err)
			ts.Setenv("STATE", "")
			return
		}
		ts.Check(err)
		ts.Defer(stop)
		ts.Setenv("AWS_ACCESS_KEY_ID", teamtest.KeyID)
		ts.Setenv("AWS_SECRET_ACCESS_KEY", teamtest.Secret)
		ts.Setenv("STATE", "s3://"+teamtest.Bucket+"/env/prod?endpoint="+url)
	case "web":
		web := &teamtest.Web{Locks: true}
		web.Before, down.web = down.before, web
		server := httptest.NewServer(web)
		ts.Defer(server.Close)
		ts.Setenv("STATE", server.URL+"/prod")
	case "private":
		web := &teamtest.Web{Locks: true}
		web.Before = func(r *http.Request) int {
			if name, password, _ := r.BasicAuth(); name != "ann" || password != teamPassword {
				return http.StatusUnauthorized
			}
			return down.before(r)
		}
		server := httptest.NewServer(web)
		ts.Defer(server.Close)
		ts.Setenv("STATE", strings.Replace(server.URL, "//", "//ann:"+teamSpelled+"@", 1)+"/prod")
	case "postgres":
		server, err := postgrestest.New()
		if errors.Is(err, postgrestest.ErrMissing) {
			ts.Setenv("STATE", "")
			return
		}
		ts.Check(err)
		ts.Defer(server.Close)
		// The server asks for no password, but the address contains one.
		ts.Setenv("STATE", strings.Replace(server.URL(), "bootstrap@", "bootstrap:"+teamSpelled+"@", 1)+"&environment=prod")
	case "empty":
		client := http.Client{Timeout: 10 * time.Second}
		defer client.CloseIdleConnections()
		for _, name := range down.web.Names() {
			request, err := http.NewRequest(http.MethodDelete, strings.TrimSuffix(ts.Getenv("STATE"), "prod")+name, nil)
			ts.Check(err)
			answer, err := client.Do(request)
			ts.Check(err)
			ts.Check(answer.Body.Close())
		}
	case "down":
		down.writes.Store(0)
		down.armed.Store(true)
		down.all.Store(true)
	case "down-after":
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		down.writes.Store(int64(n))
		down.armed.Store(true)
	case "up":
		down.armed.Store(false)
		down.all.Store(false)
	case "put":
		client := http.Client{Timeout: 10 * time.Second}
		defer client.CloseIdleConnections()
		request, err := http.NewRequest(http.MethodPut, ts.Getenv("STATE")+"/"+args[1], strings.NewReader(ts.ReadFile(args[2])))
		ts.Check(err)
		answer, err := client.Do(request)
		ts.Check(err)
		ts.Check(answer.Body.Close())
	case "has":
		client := http.Client{Timeout: 10 * time.Second}
		defer client.CloseIdleConnections()
		answer, err := client.Get(ts.Getenv("STATE") + "/" + args[1])
		ts.Check(err)
		defer answer.Body.Close()
		if neg && answer.StatusCode == http.StatusNotFound {
			return
		}
		if neg || answer.StatusCode != http.StatusOK {
			ts.Fatalf("the store answers %s for %s", answer.Status, args[1])
		}
		_, err = io.Copy(ts.Stdout(), answer.Body)
		ts.Check(err)
	default:
		ts.Fatalf("there is no store %s", args[0])
	}
}

// storesKey is the state key of the stores of scripts, unless these unset it.
const storesKey = "bootstrap-state-key-5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"

// downAfter makes a store fail.
type downAfter struct {
	armed, all atomic.Bool
	web        *teamtest.Web
	writes     atomic.Int64 // writes of the state that succeed before; all: every request fails
}

func (d *downAfter) before(r *http.Request) int {
	if !d.armed.Load() {
		return 0
	}
	if !d.all.Load() && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/state.json") && d.writes.Add(-1) < 0 {
		d.all.Store(true)
	}
	if d.all.Load() {
		return http.StatusServiceUnavailable
	}
	return 0
}

// storeKey is the key under which a script's environment has its store.
type storeKey struct{}

var storeDown = storeKey{}

// useStore keeps the state of the lab in a store: web, s3 or postgres; empty: in a file.
// If the server of a store cannot be started here, the state is in a file, too.
func (l *lab) useStore(kind string) error {
	switch kind {
	case "web":
		web := &teamtest.Web{}
		server := httptest.NewServer(web)
		l.ends = append(l.ends, server.Close)
		l.store, l.inStore = server.URL+"/lab", web.Names
	case "s3":
		folder, err := os.MkdirTemp("", "s3-") // not in the lab's folder, where every process counts as one of a VM
		if err != nil {
			return err
		}
		l.ends = append(l.ends, func() { _ = os.RemoveAll(folder) })
		url, stop, err := teamtest.StartS3(context.Background(), folder)
		if errors.Is(err, teamtest.ErrMissing) {
			return nil
		}
		if err != nil {
			return err
		}
		l.ends = append([]func(){stop}, l.ends...)
		l.env = append(l.env, "AWS_ACCESS_KEY_ID="+teamtest.KeyID, "AWS_SECRET_ACCESS_KEY="+teamtest.Secret)
		l.store = "s3://" + teamtest.Bucket + "/lab?endpoint=" + url
		l.inStore = func() []string { return filesBelow(filepath.Join(folder, "buckets", teamtest.Bucket)) }
	case "postgres":
		server, err := postgrestest.New()
		if errors.Is(err, postgrestest.ErrMissing) {
			return nil
		}
		if err != nil {
			return err
		}
		l.ends = append(l.ends, server.Close)
		l.store = server.URL() + "&environment=lab"
	}
	return nil
}

// filesBelow lists the files below a folder.
func filesBelow(folder string) (names []string) {
	_ = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			names = append(names, path)
		}
		return nil
	})
	return names
}
