package agenttest

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// store is a blobstore whose URLs are signed: it accepts requests with its header.
type store struct {
	base string

	mu    sync.Mutex
	blobs map[string][]byte
}

const storeHeader, storeToken = "X-Token", "signed"

func newStore(t testing.TB, address string) *store {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &store{base: "http://" + l.Addr().String(), blobs: map[string][]byte{}}
	server := httptest.NewUnstartedServer(s)
	_ = server.Listener.Close()
	server.Listener = l
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return s
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, found := s.blobs[r.URL.Path]
	switch {
	case r.Header.Get(storeHeader) != storeToken:
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodPut:
		s.blobs[r.URL.Path], _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
	case !found:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = w.Write(content)
	}
}

func (s *store) put(path string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs[path] = content
}

func (s *store) get(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blobs[path]
}

// signed sends the messages of a Director whose blobstore signs URLs, which no client of
// this project sends: the blobs are fetched from and put to a store.
func (s *suite) signed(t *testing.T) {
	if s.target.Listen == "" {
		t.Skip("the agent reaches no server of this test")
	}
	at := newStore(t, s.target.Listen)
	headers := map[string]string{storeHeader: storeToken}
	call := func(into any, method string, argument map[string]any) error {
		t.Helper()
		value, err := s.c.Call(t.Context(), method, argument)
		if err == nil && into != nil {
			err = json.Unmarshal(value, into)
		}
		return err
	}

	source := pack(t, map[string]string{"packaging": "echo compiled > \"$BOSH_INSTALL_TARGET/signed\"\n"})
	at.put("/source", source)
	var compiled struct {
		Result struct {
			SHA1 string `json:"sha1"`
		} `json:"result"`
	}
	request := map[string]any{
		"package_get_signed_url": at.base + "/source", "upload_signed_url": at.base + "/compiled", "blobstore_headers": headers,
		"digest": sha256Of(source), "name": "signed", "version": "signed-v1", "deps": map[string]any{},
	}
	if err := call(&compiled, "compile_package_with_signed_url", request); err != nil {
		t.Fatal(err)
	}
	if files := unpack(t, at.get("/compiled")); files["signed"] != "compiled\n" {
		t.Errorf("the compiled package contains %q", files)
	}
	if short, long, ok := strings.Cut(compiled.Result.SHA1, ";sha512:"); !ok || len(short) != 40 || len(long) != 128 {
		t.Errorf("the digest of the compiled package is %q", compiled.Result.SHA1)
	}

	// A package of a spec may be at a signed URL, too.
	apply := func(version, url string) error {
		t.Helper()
		var spec map[string]any
		text, err := json.Marshal(s.empty("hash-" + version))
		if err == nil {
			err = json.Unmarshal(text, &spec)
		}
		if err != nil {
			t.Fatal(err)
		}
		spec["packages"] = map[string]any{"signed": map[string]any{
			"name": "signed", "version": version, "sha1": compiled.Result.SHA1, "signed_url": url, "blobstore_headers": headers,
		}}
		return call(nil, "apply", spec)
	}
	if err := apply("signed-v1", at.base+"/compiled"); err != nil {
		t.Error(err)
	}
	refused(t, apply("signed-v2", at.base+"/missing"), "Failed to download blob: Error executing GET, response was 404")

	var logs struct {
		SHA1 string `json:"sha1"`
	}
	logRequest := map[string]any{"signed_url": at.base + "/logs", "log_type": "job", "filters": []string{}, "blobstore_headers": headers}
	if err := call(&logs, "fetch_logs_with_signed_url", logRequest); err != nil {
		t.Error(err)
	} else if len(unpack(t, at.get("/logs"))) == 0 || !strings.Contains(logs.SHA1, ";sha512:") {
		t.Errorf("there are no logs, or they have the digest %q", logs.SHA1)
	}
	logRequest["blobstore_headers"] = map[string]string{}
	refused(t, call(nil, "fetch_logs_with_signed_url", logRequest), "response was 403")

	const version = 1 << 40 // higher than that of other parts
	records := fmt.Appendf(nil, `{"version":%d,"records":[["192.0.2.7","signed.example"]]}`, version)
	at.put("/dns", records)
	dns := map[string]any{"signed_url": at.base + "/dns", "multi_digest": sha256Of(records), "version": version, "blobstore_headers": headers}
	var answer string
	if err := call(&answer, "sync_dns_with_signed_url", dns); err != nil || answer != "synced" {
		t.Errorf("got %q, %v", answer, err)
	}
	dns["signed_url"] = at.base + "/missing"
	if err := call(&answer, "sync_dns_with_signed_url", dns); err != nil || answer != "synced" {
		t.Errorf("the same version again: got %q, %v", answer, err)
	}
	dns["version"] = version + 1
	refused(t, call(nil, "sync_dns_with_signed_url", dns), "fetching new DNS records")
}
