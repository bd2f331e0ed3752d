package instance

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bootstrap/artifact"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
)

const earlyManifest = `name: early
releases:
- {name: web, url: %[1]s/web.tgz, sha1: "sha256:%[2]x"}
- {name: other, url: "%[1]s/((other)).tgz", sha1: "sha256:%[2]x"}
resource_pools:
- {name: default, network: default, stemcell: {url: %[1]s/stemcell.tgz, sha1: "sha256:%[3]x"}}
variables:
- {name: ca, type: certificate, options: {is_ca: true, common_name: ca}}
`

// Files that a manifest names without a variable are downloaded once, while the keys of
// its variables are generated. Nothing is reported before a file is requested. Downloads
// that nobody requests end with the run.
func TestEarlyDownloads(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	data := []byte("a release")
	asked, hold := make(chan string, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		if r.URL.Path == "/stemcell.tgz" {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
			return
		}
		_, _ = w.Write(data)
	}))
	defer server.Close()
	defer close(hold)
	next := func() string {
		select {
		case path := <-asked:
			return path
		case <-time.After(time.Minute):
			t.Error("nothing is asked for")
			return ""
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "m.yml")
	if err := os.WriteFile(path, fmt.Appendf(nil, earlyManifest, server.URL, sha256.Sum256(data), sha256.Sum256(nil)), 0o600); err != nil {
		t.Fatal(err)
	}
	var reported atomic.Int64
	env := NewEnv(Config{Home: filepath.Join(dir, "bosh"), Getenv: func(string) string { return "" }, Secret: func(...string) {}, Report: func(report.Event) { reported.Add(1) }})
	if err := env.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	target := New(env, Options{Manifest: path, Inputs: document.Options{Generate: document.Write, VarsStore: filepath.Join(dir, "creds.yml"), Vars: []string{"other=other"}}})
	if _, err := target.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "cloud_provider") {
		t.Fatalf("the manifest lacks more than releases: %v", err)
	}
	// Both are requested from the server before the run asks for them.
	if got := map[string]bool{next(): true, next(): true}; !got["/web.tgz"] || !got["/stemcell.tgz"] {
		t.Errorf("asked for %v", got)
	}
	before := reported.Load()
	src := artifact.Source{Kind: artifact.KindRelease, Name: "web", URL: server.URL + "/web.tgz", Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(data))}
	a := &Artifacts{Inputs: &Inputs{Request: target.Request}}
	file, err := a.download(t.Context(), src, "Downloading release 'web'")
	if err != nil || file.Cached || file.Name != "web" {
		t.Errorf("%+v, %v", file, err)
	}
	if reported.Load() == before {
		t.Error("the download reports nothing when it is asked for")
	}
	if file, err = a.download(context.Background(), src, "Downloading release 'web'"); err != nil || !file.Cached {
		t.Errorf("the second time: %+v, %v", file, err)
	}
	// A download ends with the run, even if the run was interrupted while waiting for it.
	interrupted, stop := context.WithCancelCause(t.Context())
	stop(errors.New("interrupted"))
	src = artifact.Source{Kind: artifact.KindStemcell, Name: "stemcell", URL: server.URL + "/stemcell.tgz", Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(nil))}
	if _, err := target.fetch(interrupted, src, nil); err == nil || err.Error() != "interrupted" {
		t.Errorf("a wait that is interrupted ends with %v", err)
	}
	target.Close()
	select {
	case path := <-asked:
		t.Errorf("asked for %s again", path)
	default:
	}
}
