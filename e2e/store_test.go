package e2e

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"

	"bootstrap/state/team/teamtest"
)

// store {s3 | web | postgres} starts a server for the state of a team and sets STATE
// to its address. That of web is at hand: "store down" makes it fail, "store up" ends
// that.
func store(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: store {s3 | web | postgres | down | up}")
	}
	down, _ := ts.Value(storeDown).(*atomic.Bool)
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
		web.Before = func(*http.Request) int {
			if down.Load() {
				return http.StatusServiceUnavailable
			}
			return 0
		}
		server := httptest.NewServer(web)
		ts.Defer(server.Close)
		ts.Setenv("STATE", server.URL+"/prod")
	case "down", "up":
		down.Store(args[0] == "down")
	default:
		ts.Fatalf("there is no store %s", args[0])
	}
}

// storeDown is the key of the value that makes the store of a script fail.
type storeKey struct{}

var storeDown = storeKey{}
