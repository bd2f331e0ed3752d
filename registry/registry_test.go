package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

type answer struct {
	status int
	body   string
	header http.Header
}

// ask sends one request over a real connection; user "" sends no credentials.
func ask(t testing.TB, server *httptest.Server, method, path, user, password, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Opaque = path // the path as it is, and not cleaned
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, string(data), resp.Header}
}

const (
	notFound = `{"settings":"","status":"not_found"}`
	path     = "/instances/vm-1/settings"
)

func serve(t testing.TB, h http.Handler) *httptest.Server {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

func TestReplies(t *testing.T) {
	t.Parallel()
	r := New("registry", "se:cret", true)
	servers := map[string]*httptest.Server{"local": serve(t, r.Local()), "tunnel": serve(t, r.Tunnel())}
	settings := `{"agent_id":"a <b>","x":"é\n"}`
	quoted, _ := json.Marshal(settings)
	ok := `{"settings":` + string(quoted) + `,"status":"ok"}`
	for i, tc := range []struct {
		server, method, path, user, password, body string
		status                                     int
		want                                       string
	}{
		{"local", "GET", path, "registry", "se:cret", "", 404, notFound},
		{"tunnel", "GET", path, "", "", "", 404, notFound},
		{"local", "DELETE", path, "registry", "se:cret", "", 200, ""},
		{"local", "PUT", path, "registry", "se:cret", "old", 201, ""},
		{"local", "PUT", path, "registry", "se:cret", settings, 200, ""},
		{"local", "GET", path, "registry", "se:cret", "", 200, ok},
		{"tunnel", "GET", path, "", "", "", 200, ok},
		{"tunnel", "GET", path, "registry", "wrong", "", 200, ok},
		{"local", "GET", path, "", "", "", 401, ""},
		{"local", "GET", path, "registry", "se:cre", "", 401, ""},
		{"local", "GET", path, "registry", "se:cret2", "", 401, ""},
		{"local", "GET", path, "Registry", "se:cret", "", 401, ""},
		{"local", "PUT", path, "registry", "", "evil", 401, ""},
		{"local", "DELETE", path, "x", "se:cret", "", 401, ""},
		{"tunnel", "PUT", path, "registry", "se:cret", "evil", 404, notFound},
		{"tunnel", "DELETE", path, "registry", "se:cret", "", 404, notFound},
		{"local", "POST", path, "registry", "se:cret", "evil", 404, notFound},
		{"local", "PATCH", path, "registry", "se:cret", "evil", 404, notFound},
		{"local", "GET", "/", "registry", "se:cret", "", 404, notFound},
		{"local", "GET", "/instances/vm-1/settings/", "registry", "se:cret", "", 404, notFound},
		{"local", "GET", "/instances/vm-1/settingsx", "registry", "se:cret", "", 404, notFound},
		{"local", "GET", "/x/instances/vm-1/settings", "registry", "se:cret", "", 404, notFound},
		{"local", "GET", "//instances/vm-1/settings", "registry", "se:cret", "", 404, notFound},
		{"local", "GET", "/instances//settings", "registry", "se:cret", "", 404, notFound},
		{"local", "GET", "/instances/a/../vm-1/settings", "registry", "se:cret", "", 404, notFound},
		{"local", "PUT", "/instances/a/b/settings", "registry", "se:cret", "evil", 404, notFound},
		{"local", "GET", "/instances/vm-2/settings", "registry", "se:cret", "", 404, notFound},
		{"local", "GET", path + "?x=/instances/vm-2/settings", "registry", "se:cret", "", 200, ok},
		{"tunnel", "GET", path, "", "", "", 200, ok},
		{"local", "DELETE", path, "registry", "se:cret", "", 200, ""},
		{"tunnel", "GET", path, "", "", "", 404, notFound},
	} {
		got := ask(t, servers[tc.server], tc.method, tc.path, tc.user, tc.password, tc.body)
		if got.status != tc.status || got.body != tc.want {
			t.Errorf("%d: %s %s %s as %q: got %d %q, want %d %q", i, tc.server, tc.method, tc.path, tc.user, got.status, got.body, tc.status, tc.want)
		}
		if auth := got.header.Get("WWW-Authenticate"); (auth == `Basic realm="Bosh Registry"`) != (tc.status == 401) {
			t.Errorf("%d: WWW-Authenticate: %q", i, auth)
		}
	}
}

func TestTunnelWithCredentials(t *testing.T) {
	t.Parallel()
	r := New("registry", "secret", false)
	server := serve(t, r.Tunnel())
	if got := ask(t, server, "GET", path, "", "", ""); got.status != 401 {
		t.Errorf("without credentials: %+v", got)
	}
	if got := ask(t, server, "GET", path, "registry", "secret", ""); got.status != 404 {
		t.Errorf("with credentials: %+v", got)
	}
}

// A registry without credentials refuses all requests, and so does any registry if the
// header is malformed.
func TestCredentialsAreAlwaysWanted(t *testing.T) {
	t.Parallel()
	server := serve(t, New("u", "p", true).Local())
	for _, header := range []string{"", "Basic", "Basic ", "Basic !!!", "Basic Og==", "Bearer dTpw", "dTpw", "Basic dTpwcA=="} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+path, strings.NewReader("evil"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", header)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %s", header, resp.Status)
		}
	}
}

func TestBodyTooLarge(t *testing.T) {
	t.Parallel()
	r := New("u", "p", true)
	server := serve(t, r.Local())
	got := ask(t, server, "PUT", path, "u", "p", strings.Repeat("x", maxSettings+1))
	if got.status != http.StatusRequestEntityTooLarge || got.body != `{"settings":"","status":"error"}` {
		t.Errorf("got %d %q", got.status, got.body)
	}
	if got := ask(t, server, "GET", path, "u", "p", ""); got.status != 404 {
		t.Errorf("part of it was kept: %d", got.status)
	}
	if got := ask(t, server, "PUT", path, "u", "p", strings.Repeat("x", maxSettings)); got.status != 201 {
		t.Errorf("the largest: %d", got.status)
	}
}

// A body that breaks off is not stored.
func TestBodyBreaksOff(t *testing.T) {
	t.Parallel()
	r := New("u", "p", true)
	req := httptest.NewRequest(http.MethodPut, path, io.MultiReader(strings.NewReader("half"), brokenReader{}))
	req.SetBasicAuth("u", "p")
	w := httptest.NewRecorder()
	r.Local().ServeHTTP(w, req)
	if w.Code != http.StatusBadRequest || w.Body.String() != `{"settings":"","status":"error"}` || len(r.settings) != 0 {
		t.Errorf("got %d %q, stored %d", w.Code, w.Body, len(r.settings))
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	r := New("u", "p", true)
	local, tunnel := serve(t, r.Local()), serve(t, r.Tunnel())
	var wg sync.WaitGroup
	for vm := range 8 {
		wg.Go(func() {
			path := fmt.Sprintf("/instances/vm-%d/settings", vm%4)
			for i := range 20 {
				ask(t, local, "PUT", path, "u", "p", fmt.Sprint(i))
				ask(t, tunnel, "GET", path, "", "", "")
				if i%5 == 0 {
					ask(t, local, "DELETE", path, "u", "p", "")
				}
			}
		})
	}
	wg.Wait()
}

// Only PUT with credentials and an exact path stores settings, and what is
// stored is returned unchanged.
func FuzzRegistry(f *testing.F) {
	f.Add("PUT", "/instances/vm-1/settings", "{}", true)
	f.Add("GET", "/instances/vm-1/settings", "", false)
	f.Add("DELETE", "/instances/%2e%2e/settings", "", true)
	f.Add("PUT", "/instances/a%2fb/settings", "\xff\x00", true)
	f.Add("PUT", "//instances/../settings", "x", true)
	f.Fuzz(func(t *testing.T, method, target, body string, authorized bool) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip()
		}
		r := New("u", "p", true)
		for _, h := range []http.Handler{r.Local(), r.Tunnel()} {
			before := len(r.settings)
			req := &http.Request{Method: method, URL: u, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
			if authorized {
				req.SetBasicAuth("u", "p")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if stored := len(r.settings) > before; stored && (method != http.MethodPut || !authorized || w.Code != http.StatusCreated) {
				t.Fatalf("%s %q stores, answer %d", method, target, w.Code)
			}
			if w.Code != http.StatusOK && w.Code != http.StatusCreated && w.Code != http.StatusUnauthorized && w.Body.String() != notFound {
				t.Fatalf("%s %q: %d %q", method, target, w.Code, w.Body)
			}
		}
		for id, settings := range r.settings {
			if settings != body || strings.Contains(id, "/") || id == "" {
				t.Fatalf("%q holds %q", id, settings)
			}
		}
	})
}
