// Package teamtest contains servers on which tests keep the state of a team.
package teamtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Web is an HTTP server with ETags and, if Locks is set, with locks. The zero value is
// ready to use.
type Web struct {
	// Locks enables LOCK and UNLOCK.
	Locks bool
	// Careless makes the server ignore the conditions of writes.
	Careless bool
	// Skew is how far its clock is ahead.
	Skew time.Duration
	// Before is called with each request before it is carried out; may be nil. If it
	// returns a status other than 0, that is the answer.
	Before func(*http.Request) int
	// After is like Before, for each request after it was carried out.
	After func(*http.Request) int

	mu        sync.Mutex
	documents map[string]document
	number    int
	locks     map[string][]byte // the holder by path
}

type document struct {
	data    []byte
	etag    string
	written time.Time
}

// Documents returns the stored documents by path, without the first slash.
func (w *Web) Documents() map[string][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string][]byte{}
	for path, d := range w.documents {
		all[path] = d.data
	}
	return all
}

// Snapshot returns a function that brings the stored documents, with their ETags, back to
// what they are now.
func (w *Web) Snapshot() (restore func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	documents := maps.Clone(w.documents)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.documents = maps.Clone(documents)
	}
}

// Put replaces the document with that path, whatever its version is.
func (w *Web) Put(path string, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(path, data)
}

func (w *Web) put(path string, data []byte) (etag string) {
	w.number++
	digest := sha256.Sum256(fmt.Append(nil, w.number, data))
	d := document{data: data, etag: `"` + hex.EncodeToString(digest[:8]) + `"`, written: time.Now()}
	if w.documents == nil {
		w.documents = map[string]document{}
	}
	w.documents[path] = d
	return d.etag
}

// Remove removes the document with that path.
func (w *Web) Remove(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.documents, path)
}

// Names returns the sorted paths of the stored documents.
func (w *Web) Names() []string { return slices.Sorted(maps.Keys(w.Documents())) }

func (w *Web) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if w.Before != nil {
		if status := w.Before(r); status != 0 {
			out.WriteHeader(status)
			return
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		out.WriteHeader(http.StatusBadRequest)
		return
	}
	status, header, data := w.answer(r, body)
	if w.After != nil {
		if other := w.After(r); other != 0 {
			out.WriteHeader(other)
			return
		}
	}
	maps.Copy(out.Header(), header)
	out.Header().Set("Date", time.Now().Add(w.Skew).UTC().Format(http.TimeFormat))
	out.WriteHeader(status)
	_, _ = out.Write(data)
}

func (w *Web) answer(r *http.Request, body []byte) (status int, header http.Header, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/")
	d, exists := w.documents[path]
	header = http.Header{}
	switch r.Method {
	case http.MethodGet:
		if !exists {
			return http.StatusNotFound, header, nil
		}
		header.Set("ETag", d.etag)
		header.Set("Last-Modified", d.written.Add(w.Skew).UTC().Format(http.TimeFormat))
		return http.StatusOK, header, d.data
	case http.MethodPut:
		none, match := r.Header.Get("If-None-Match"), r.Header.Get("If-Match")
		if !w.Careless && (none == "*" && exists || match != "" && (!exists || d.etag != match)) {
			return http.StatusPreconditionFailed, header, nil
		}
		header.Set("ETag", w.put(path, body))
		return http.StatusOK, header, nil
	case http.MethodDelete:
		delete(w.documents, path)
		return http.StatusNoContent, header, nil
	case "LOCK":
		switch {
		case !w.Locks:
			return http.StatusMethodNotAllowed, header, nil
		case w.locks[path] != nil:
			return http.StatusLocked, header, w.locks[path]
		}
		if w.locks == nil {
			w.locks = map[string][]byte{}
		}
		w.locks[path] = body
		return http.StatusOK, header, nil
	case "UNLOCK":
		if !w.Locks {
			return http.StatusMethodNotAllowed, header, nil
		}
		delete(w.locks, path)
		return http.StatusOK, header, nil
	}
	return http.StatusMethodNotAllowed, header, nil
}
