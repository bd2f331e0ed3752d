//go:build !windows

package cpi

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"bootstrap/registry"
)

// registryServer is a registry server for one test.
type registryServer struct{ server *httptest.Server }

func newRegistry(t *testing.T) *registryServer {
	r := &registryServer{server: httptest.NewServer(registry.New("registry", "hunter2", true).Local())}
	t.Cleanup(r.server.Close)
	return r
}

func (r *registryServer) configure(cfg map[string]any) {
	host, port, _ := net.SplitHostPort(r.server.Listener.Addr().String())
	cfg["registry"] = map[string]any{"host": host, "port": port, "username": "registry", "password": "hunter2"}
}

// of returns the settings of a VM; nil: there are none.
func (r *registryServer) of(t *testing.T, cid string) (settings map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL+"/instances/"+cid+"/settings", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("registry", "hunter2")
	resp, err := r.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var reply struct{ Settings string }
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &reply)
	}
	if err != nil {
		t.Fatal(err)
	}
	if reply.Settings != "" {
		if err := json.Unmarshal([]byte(reply.Settings), &settings); err != nil {
			t.Fatal(err)
		}
	}
	return settings
}
