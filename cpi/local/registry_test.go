//go:build !windows

package local

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// registryServer keeps settings as the registry does, behind credentials.
type registryServer struct {
	mu       sync.Mutex
	settings map[string]string
	server   *httptest.Server
}

func newRegistry(t *testing.T) *registryServer {
	r := &registryServer{settings: map[string]string{}}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *registryServer) configure(cfg map[string]any) {
	host, port, _ := net.SplitHostPort(r.server.Listener.Addr().String())
	cfg["registry"] = map[string]any{"host": host, "port": port, "username": "registry", "password": "hunter2"}
}

func (r *registryServer) of(cid string) (value map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = json.Unmarshal([]byte(r.settings[cid]), &value)
	return value
}

func (r *registryServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cid, ok := strings.CutSuffix(strings.TrimPrefix(req.URL.Path, "/instances/"), "/settings")
	if user, password, _ := req.BasicAuth(); user != "registry" || password != "hunter2" || !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch req.Method {
	case http.MethodPut:
		text, _ := io.ReadAll(req.Body)
		r.settings[cid] = string(text)
		w.WriteHeader(http.StatusCreated)
	case http.MethodDelete:
		delete(r.settings, cid)
	default:
		text, found := r.settings[cid]
		if !found {
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"settings": text, "status": "ok"})
	}
}
