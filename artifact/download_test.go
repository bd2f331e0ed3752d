package artifact

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/artifact/tartest"
)

func remote(url string, data []byte) Source {
	return Source{Kind: KindStemcell, URL: url, Digest: sha1Of(data)}
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// content answers as a file server does, with ranges.
func content(w http.ResponseWriter, r *http.Request, etag string, data []byte) {
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	http.ServeContent(w, r, "x.tgz", time.Unix(1_000_000_000, 0), bytes.NewReader(data))
}

// breakOff sends n bytes of the body and closes the connection.
func breakOff(w http.ResponseWriter, r *http.Request, etag string, data []byte, n int) {
	content(&cutting{w, n}, r, etag, data)
}

type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) < c.left {
		c.left -= len(p)
		return c.ResponseWriter.Write(p)
	}
	c.ResponseWriter.Write(p[:c.left])
	c.ResponseWriter.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func TestDownload(t *testing.T) {
	t.Parallel()
	data := tartest.Body(3 << 20)
	other := bytes.Repeat([]byte("x"), len(data))
	for name, c := range interrupted(data, other) {
		t.Run(name, func(t *testing.T) { t.Parallel(); c.run(t, data) })
	}
	for name, c := range answered(data, other) {
		t.Run(name, func(t *testing.T) { t.Parallel(); c.run(t, data) })
	}
}

// downloadCase defines the server's answers to the first, second and later requests.
type downloadCase struct {
	handler  func(n int, w http.ResponseWriter, r *http.Request)
	requests int
	fails    []string
}

// interrupted returns downloads that continue after an interruption.
func interrupted(data, other []byte) map[string]downloadCase {
	return map[string]downloadCase{
		"plain": {func(n int, w http.ResponseWriter, r *http.Request) { content(w, r, `"1"`, data) }, 1, nil},
		"cut thrice, resumed": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 4 {
				content(w, r, `"1"`, data)
				return
			}
			breakOff(w, r, `"1"`, data, 800_000)
		}, 4, nil},
		"cut, then ranges ignored": {func(n int, w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			if n == 1 {
				breakOff(w, r, `"1"`, data, 1_000_000)
				return
			}
			content(w, r, `"1"`, data)
		}, 2, nil},
		"cut, then another file": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				breakOff(w, r, `"1"`, other, 1_000_000)
				return
			}
			content(w, r, `"2"`, data)
		}, 2, nil},
		"cut, then another file and no sign of it": {func(n int, w http.ResponseWriter, r *http.Request) {
			r.Header.Del("If-Range")
			if n == 1 {
				breakOff(w, r, ``, other, 1_000_000)
				return
			}
			content(w, r, ``, data)
		}, 3, nil},
		"the wrong part": {func(n int, w http.ResponseWriter, r *http.Request) {
			switch n {
			case 1:
				breakOff(w, r, `"1"`, data, 1_000_000)
			case 2:
				r.Header.Set("Range", "bytes=7-")
				content(w, r, `"1"`, data)
			default:
				content(w, r, `"1"`, data)
			}
		}, 3, nil},
	}
}

// answered returns downloads with other answers.
func answered(data, other []byte) map[string]downloadCase {
	return map[string]downloadCase{
		"weak etag": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				breakOff(w, r, `W/"1"`, data, 1_000_000)
				return
			}
			if r.Header.Get("Range") == "" || strings.HasPrefix(r.Header.Get("If-Range"), "W/") {
				http.Error(w, "weak", http.StatusBadRequest)
				return
			}
			content(w, r, `W/"1"`, data)
		}, 2, nil},
		"busy at first": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n < 3 {
				w.Header().Set("Retry-After", "100000")
				http.Error(w, "later", http.StatusServiceUnavailable)
				return
			}
			content(w, r, "", data)
		}, 3, nil},
		"wrong once": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				content(w, r, "", other)
				return
			}
			content(w, r, "", data)
		}, 2, nil},
		"chunked": {func(n int, w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			w.Write(data)
		}, 1, nil},
		"chunked and cut": {func(n int, w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			if n == 1 {
				w.Write(data[:1_500_000])
				panic(http.ErrAbortHandler)
			}
			w.Write(data)
		}, 2, nil},
		"always wrong":  {func(n int, w http.ResponseWriter, r *http.Request) { content(w, r, "", other) }, 2, []string{"its digest is " + sha1Of(other), "not " + sha1Of(data)}},
		"404":           {func(n int, w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, 1, []string{"404 Not Found"}},
		"403":           {func(n int, w http.ResponseWriter, r *http.Request) { http.Error(w, "", http.StatusForbidden) }, 1, []string{"403 Forbidden", "password"}},
		"500 for ever":  {func(n int, w http.ResponseWriter, r *http.Request) { http.Error(w, "", 500) }, 5, []string{"500", "tried 5 times"}},
		"always cut":    {func(n int, w http.ResponseWriter, r *http.Request) { breakOff(w, r, "", data, 10) }, 5, []string{"tried 5 times", "ended after"}},
		"404 page, 200": {func(n int, w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>not found</html>") }, 2, []string{"its digest is"}},
		"round": {func(n int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, 10, []string{"more than 10 times"}},
	}
}

func (c downloadCase) run(t *testing.T, data []byte) {
	var requests atomic.Int32
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) { c.handler(int(requests.Add(1)), w, r) })
	s := testStore(t)
	src := remote(strings.Replace(srv.URL, "http://", "http://me:secret@", 1)+"/x.tgz?signature=hidden", data)
	var last, total int64
	f, err := s.Fetch(context.Background(), src, func(d, t int64) { last, total = d, t })
	if got := int(requests.Load()); got != c.requests {
		t.Errorf("%d requests, want %d", got, c.requests)
	}
	if c.fails != nil {
		tartest.MustFail(t, err, append(c.fails, "cannot download "+srv.URL+"/x.tgz?…")...)
		for _, secret := range []string{"secret", "hidden", "me:"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error says %q: %v", secret, err)
			}
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.Path)
	if err != nil || !bytes.Equal(got, data) || !f.Remote || f.Cached {
		t.Errorf("%+v: %d bytes, %v", f, len(got), err)
	}
	if info, _ := os.Stat(f.Path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
	if last != int64(len(data)) || total != last && total != 0 {
		t.Errorf("progress ended with %d of %d", last, total)
	}
	if f = fetch(t, s, src); !f.Cached || int(requests.Load()) != c.requests {
		t.Error("downloaded again")
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir.Downloads(), "*.part*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestDownloadResumesInTheNextRun(t *testing.T) {
	t.Parallel()
	data := tartest.Body(2 << 20)
	var from atomic.Value
	broken := atomic.Bool{}
	broken.Store(true)
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from.Store(r.Header.Get("Range"))
		if !broken.Load() {
			content(w, r, `"1"`, data)
		} else if r.Header.Get("Range") != "" {
			http.Error(w, "down", http.StatusBadGateway)
		} else {
			breakOff(w, r, `"1"`, data, 1_000_000)
		}
	})
	s := testStore(t)
	_, err := s.Fetch(context.Background(), remote(srv.URL, data), nil)
	tartest.MustFail(t, err, "502")
	broken.Store(false)
	f := fetch(t, Open(Config{Dir: string(s.dir)}), remote(srv.URL, data))
	if got, _ := os.ReadFile(f.Path); !bytes.Equal(got, data) || from.Load() != "bytes=1000000-" {
		t.Errorf("asked for %q, got %d bytes", from.Load(), len(got))
	}
}

func TestDownloadPartIsComplete(t *testing.T) {
	t.Parallel()
	data := tartest.Body(1 << 20)
	for name, part := range map[string][]byte{"whole": data, "too long": append(bytes.Clone(data), 1), "garbage": []byte("zzz"), "whole but wrong": bytes.Repeat([]byte{1}, len(data))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serve(t, func(w http.ResponseWriter, r *http.Request) { content(w, r, `"1"`, data) })
			s := testStore(t)
			tartest.Write(t, part, s.dir.Downloads(), "sha1-"+sha1Of(data)+".part")
			f := fetch(t, s, remote(srv.URL, data))
			if got, _ := os.ReadFile(f.Path); !bytes.Equal(got, data) {
				t.Errorf("got %d bytes", len(got))
			}
		})
	}
}

func TestDownloadSilence(t *testing.T) {
	t.Parallel()
	data := tartest.Body(1 << 20)
	var n atomic.Int32
	end := make(chan struct{})
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			w.Write(data[:1000])
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-end:
			}
			return
		}
		content(w, r, "", data)
	})
	defer close(end)
	s := testStore(t)
	s.client.Retry.Pace.Silence = time.Second
	fetch(t, s, remote(srv.URL, data))
	if n.Load() < 2 {
		t.Error("the silent server was not given up")
	}
}

func TestDownloadEndsWithContext(t *testing.T) {
	t.Parallel()
	data := tartest.Body(1 << 20)
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("enough")
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		cancel(stop)
		<-r.Context().Done()
	})
	if _, err := testStore(t).Fetch(ctx, remote(srv.URL, data), nil); !errors.Is(err, stop) {
		t.Errorf("Fetch: %v", err)
	}
}

func TestDownloadOverTLS(t *testing.T) {
	t.Parallel()
	data := tartest.Body(1 << 20)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { content(w, r, "", data) }))
	srv.Config.ErrorLog = nil
	defer srv.Close()
	s := testStore(t)
	_, err := s.Fetch(context.Background(), remote(srv.URL, data), nil)
	tartest.MustFail(t, err, "certificate")
	if strings.Contains(err.Error(), "tried") {
		t.Errorf("an unknown certificate was tried again: %v", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	s.client.Network.TLS = &tls.Config{RootCAs: pool}
	fetch(t, s, remote(srv.URL, data))
}

func TestRedirectKeepsSecrets(t *testing.T) {
	t.Parallel()
	data := tartest.Body(1000)
	var heard http.Header
	second := serve(t, func(w http.ResponseWriter, r *http.Request) {
		heard = r.Header.Clone()
		content(w, r, "", data)
	})
	var sameHost atomic.Bool
	first := serve(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "me" || password != "secret" {
			http.Error(w, "who", http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/a" {
			http.Redirect(w, r, "/b", http.StatusFound)
			return
		}
		sameHost.Store(true)
		http.Redirect(w, r, strings.Replace(second.URL, "127.0.0.1", "localhost", 1)+"/c", http.StatusFound)
	})
	fetch(t, testStore(t), remote(strings.Replace(first.URL, "http://", "http://me:secret@", 1)+"/a?token=hidden", data))
	if !sameHost.Load() || heard == nil {
		t.Fatal("not redirected twice")
	}
	if heard.Get("Authorization") != "" || heard.Get("Referer") != "" || heard.Get("Cookie") != "" {
		t.Errorf("the other host heard %v", heard)
	}
}

func TestDownloadRefuses(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("0", 40)
	for name, c := range map[string]struct {
		url, digest string
		words       []string
	}{
		"no digest":       {"http://me:secret@example.com/x?key=hidden", "", []string{"http://example.com/x?…", "needs a digest"}},
		"no digest https": {"https://example.com/x", "", []string{"needs a digest"}},
		"bad digest":      {"https://example.com/x", "abc", []string{"cannot read digest"}},
		"no host":         {"http://", good, []string{"not a valid URL"}},
		"no url":          {"http://me:secret@exa mple/%", good, []string{"not a valid URL"}},
		"other scheme":    {"ftp://example.com/x", good, []string{`scheme "ftp"`}},
		"nothing":         {"", "", []string{"url is empty"}},
		"not there":       {"file:///no/such/file.tgz", "", []string{"there is no file /no/such/file.tgz"}},
		"not embedded":    {"embedded:nothing", "", []string{"embedded:nothing does not exist; there are embedded:cpi and embedded:os"}},
		"device":          {"file:///dev/null", "", []string{"neither a file nor a folder"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := testStore(t).Fetch(context.Background(), Source{Kind: KindRelease, Name: "web", URL: c.url, Digest: c.digest}, nil)
			tartest.MustFail(t, err, append(c.words, `release "web"`)...)
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hidden") {
				t.Errorf("the error holds a secret: %v", err)
			}
		})
	}
}

func TestDownloadRepairsCache(t *testing.T) {
	t.Parallel()
	data := tartest.Body(1 << 20)
	var n atomic.Int32
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) { n.Add(1); content(w, r, "", data) })
	s := testStore(t)
	src := remote(srv.URL, data)
	f := fetch(t, s, src)
	for name, c := range map[string]struct {
		damage func() error
		loads  int32
	}{
		"gone":         {func() error { return os.Remove(f.Path) }, 1},
		"cut":          {func() error { return os.Truncate(f.Path, 100) }, 1},
		"changed":      {func() error { return flip(f.Path) }, 1},
		"records gone": {func() error { return os.RemoveAll(s.dir.Path()) }, 0},
		"touched":      {func() error { return os.Chtimes(f.Path, time.Now(), time.Unix(5, 0)) }, 0},
	} {
		before := n.Load()
		if err := c.damage(); err != nil {
			t.Fatal(name, err)
		}
		f := fetch(t, s, src)
		if got, _ := os.ReadFile(f.Path); !bytes.Equal(got, data) || n.Load()-before != c.loads || f.Cached != (c.loads == 0) {
			t.Errorf("%s: %d bytes, %d downloads, cached %v", name, len(got), n.Load()-before, f.Cached)
		}
	}
}

// A file that create-env has downloaded is used if its digest is right.
func TestDownloadTakesOver(t *testing.T) {
	t.Parallel()
	data := tartest.Body(1000)
	var n atomic.Int32
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) { n.Add(1); content(w, r, "", data) })
	for name, there := range map[string][]byte{"right": data, "wrong": []byte("x")} {
		s := testStore(t)
		src := remote(srv.URL, data)
		theirs := tartest.Write(t, there, s.dir.Downloads(), sha1Of([]byte(src.URL))+"-"+src.Digest)
		n.Store(0)
		f := fetch(t, s, src)
		if got, _ := os.ReadFile(f.Path); !bytes.Equal(got, data) || (n.Load() == 0) != (name == "right") {
			t.Errorf("%s: %d downloads, %d bytes", name, n.Load(), len(got))
		}
		if kept, _ := os.ReadFile(theirs); !bytes.Equal(kept, there) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestDownloadOnceForMany(t *testing.T) {
	t.Parallel()
	data := tartest.Body(4 << 20)
	var n atomic.Int32
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) { n.Add(1); content(w, r, "", data) })
	shared := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := Open(Config{Dir: shared}).Fetch(context.Background(), remote(srv.URL, data), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n.Load() != 1 {
		t.Errorf("downloaded %d times", n.Load())
	}
}

func TestLocalPaths(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := tartest.Write(t, []byte("x"), home, "a b.tgz")
	s := Open(Config{Dir: t.TempDir(), Getenv: func(k string) string { return map[string]string{"HOME": home}[k] }})
	for _, url := range []string{"file://" + path, path, "file://~/a b.tgz", "~/a b.tgz"} {
		f, err := s.Fetch(context.Background(), Source{URL: url}, nil)
		if err != nil || f.Path != path || f.Remote || f.Folder {
			t.Errorf("%s is %+v, %v", url, f, err)
		}
	}
	if f, err := s.Fetch(context.Background(), Source{URL: "file://~"}, nil); err != nil || !f.Folder {
		t.Errorf("a folder is %+v, %v", f, err)
	}
	_, err := s.Fetch(context.Background(), Source{URL: home, Digest: strings.Repeat("0", 40)}, nil)
	tartest.MustFail(t, err, "folder, which has no digest")
	_, err = Open(Config{Dir: t.TempDir(), Getenv: func(string) string { return "" }}).Fetch(context.Background(), Source{URL: "~/x"}, nil)
	tartest.MustFail(t, err, "HOME is not set")
}
