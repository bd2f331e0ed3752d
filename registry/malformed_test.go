package registry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gotest.tools/v3/golden"
)

// The golden file testdata/malformed.golden contains the response to each
// malformed request; go test -update writes it. None of these requests may store
// anything.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, c := range []struct {
		method, target, user, password, body string
	}{
		{"PUT", path, "", "", "{}"}, {"PUT", path, "u", "", "{}"}, {"PUT", path, "u", "wrong", "{}"}, {"PUT", path, "U", "p", "{}"},
		{"GET", path, "u", "p", ""}, {"HEAD", path, "u", "p", ""}, {"POST", path, "u", "p", "{}"}, {"PATCH", path, "u", "p", "{}"}, {"put", path, "u", "p", "{}"}, {"", path, "u", "p", "{}"},
		{"PUT", "/", "u", "p", "{}"}, {"PUT", "/instances", "u", "p", "{}"}, {"PUT", "/instances//settings", "u", "p", "{}"}, {"PUT", "/instances/vm-1", "u", "p", "{}"},
		{"PUT", "/instances/vm-1/settings/", "u", "p", "{}"}, {"PUT", "/instances/a/b/settings", "u", "p", "{}"}, {"PUT", "/instances/a%2fb/settings", "u", "p", "{}"},
		{"PUT", "//instances/vm-1/settings", "u", "p", "{}"}, {"PUT", "/x/../instances/vm-1/settings", "u", "p", "{}"}, {"PUT", "/instances/vm-1/settings%0a", "u", "p", "{}"},
		{"DELETE", "/instances/none/settings", "u", "p", ""}, {"PUT", path, "u", "p", strings.Repeat("x", maxSettings+1)},
	} {
		u, err := url.ParseRequestURI(c.target)
		if err != nil {
			t.Fatal(err)
		}
		for _, side := range []string{"local", "tunnel"} {
			r := New("u", "p", false)
			h := map[string]http.Handler{"local": r.Local(), "tunnel": r.Tunnel()}[side]
			req := httptest.NewRequest("GET", "/", strings.NewReader(c.body))
			req.Method, req.URL = c.method, u
			if c.user != "" {
				req.SetBasicAuth(c.user, c.password)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if len(r.settings) != 0 {
				t.Errorf("%s %s stores", c.method, c.target)
			}
			fmt.Fprintf(&got, "%s: %s %s as %s:%s, %d bytes\n  %s\n", side, c.method, c.target, c.user, c.password, len(c.body), strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Body)))
		}
	}
	golden.Assert(t, got.String(), "malformed.golden")
}
