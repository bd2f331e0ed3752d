// Package registry serves the settings of agents over HTTP: a CPI of API
// version 1 puts them, and the agent of an old stemcell gets them, both at
// /instances/<id>/settings.
package registry

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"sync"
)

// maxSettings is the limit for a body, in bytes; CPIs put some kilobytes.
const maxSettings = 4 << 20

// Registry keeps the settings of each instance in memory. They contain secrets
// and are never logged.
type Registry struct {
	user, password [sha256.Size]byte
	openGet        bool
	path           *regexp.Regexp

	mu       sync.Mutex
	settings map[string]string
}

// New makes an empty Registry. Requests must have both credentials, with one exception:
// if openGet is true, a GET to Tunnel needs none, because some agents have no credentials
// for it.
func New(username, password string, openGet bool) *Registry {
	return &Registry{
		user:     sha256.Sum256([]byte(username)),
		password: sha256.Sum256([]byte(password)),
		openGet:  openGet,
		path:     regexp.MustCompile(`^/instances/([^/]+)/settings$`),
		settings: map[string]string{},
	}
}

// Local returns the handler for the CPI on this machine: all methods need
// credentials.
func (r *Registry) Local() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		id, ok := r.route(w, req, http.MethodGet, http.MethodPut, http.MethodDelete)
		if !ok || !r.authorized(w, req) {
			return
		}
		switch req.Method {
		case http.MethodGet:
			r.get(w, id)
		case http.MethodPut:
			r.put(w, req, id)
		case http.MethodDelete:
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.settings, id)
		}
	})
}

// Tunnel returns the handler for the VM at the other end of the tunnel. This VM can only
// read.
func (r *Registry) Tunnel() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		id, ok := r.route(w, req, http.MethodGet)
		if !ok || !r.openGet && !r.authorized(w, req) {
			return
		}
		r.get(w, id)
	})
}

// route answers requests that are not for settings or have another method.
func (r *Registry) route(w http.ResponseWriter, req *http.Request, methods ...string) (id string, ok bool) {
	match := r.path.FindStringSubmatch(req.URL.Path)
	if match == nil {
		reply(w, http.StatusNotFound, "", "not_found")
		return "", false
	}
	for _, m := range methods {
		if req.Method == m {
			return match[1], true
		}
	}
	reply(w, http.StatusNotFound, "", "not_found")
	return "", false
}

// authorized compares digests, so that its duration reveals nothing about the
// credentials, not even their lengths.
func (r *Registry) authorized(w http.ResponseWriter, req *http.Request) bool {
	user, password, given := req.BasicAuth()
	u, p := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))
	if given && subtle.ConstantTimeCompare(u[:], r.user[:])&subtle.ConstantTimeCompare(p[:], r.password[:]) == 1 {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="Bosh Registry"`)
	w.WriteHeader(http.StatusUnauthorized)
	return false
}

func (r *Registry) get(w http.ResponseWriter, id string) {
	r.mu.Lock()
	settings, ok := r.settings[id]
	r.mu.Unlock()
	if !ok {
		reply(w, http.StatusNotFound, "", "not_found")
		return
	}
	reply(w, http.StatusOK, settings, "ok")
}

// put stores the body; the status says whether the body is new or replaces another one.
func (r *Registry) put(w http.ResponseWriter, req *http.Request, id string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxSettings))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		reply(w, http.StatusRequestEntityTooLarge, "", "error")
		return
	case err != nil:
		reply(w, http.StatusBadRequest, "", "error")
		return
	}
	r.mu.Lock()
	_, known := r.settings[id]
	r.settings[id] = string(body)
	r.mu.Unlock()
	if !known {
		w.WriteHeader(http.StatusCreated)
	}
}

func reply(w http.ResponseWriter, status int, settings, word string) {
	body, err := json.Marshal(struct {
		Settings string `json:"settings"`
		Status   string `json:"status"`
	}{settings, word})
	if err != nil { // two strings always encode
		status, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
