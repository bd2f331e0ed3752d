package agent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/agent"
)

const blobID = "6f2ae9ba-3c46-4b3f-9c8a-0f6f9b1c7d55"

// blobs stores uploads under the last element of the path, as agents do.
type blobs struct {
	mu    sync.Mutex
	files map[string][]byte
	paths []string
	// answers instead of the server if it returns true; may be nil
	fail func(n int, w http.ResponseWriter, r *http.Request) bool
}

func (b *blobs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.paths = append(b.paths, r.Method+" "+r.RequestURI)
	n := len(b.paths)
	b.mu.Unlock()
	if user, pw, _ := r.BasicAuth(); user != "mbus" || pw != password {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if b.fail != nil && b.fail(n, w, r) {
		return
	}
	id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if r.Method == http.MethodPut {
		if r.ContentLength < 0 {
			http.Error(w, "no length", http.StatusInternalServerError)
			return
		}
		data, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.files[id] = data
		w.WriteHeader(http.StatusCreated)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.files[id]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = w.Write(data)
}

// asked returns the requests so far. A request that was interrupted may still be
// answered.
func (b *blobs) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.paths)
}

// stored returns a blob.
func (b *blobs) stored(id string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.files[id]
}

func newBlobs() *blobs { return &blobs{files: map[string][]byte{}} }

func blobFile(t testing.TB, size int) (path string, content []byte) {
	t.Helper()
	content = make([]byte, size)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "blob")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func digests(content []byte) (one, two, five string) {
	a, b, c := sha1.Sum(content), sha256.Sum256(content), sha512.Sum512(content)
	return hex.EncodeToString(a[:]), "sha256:" + hex.EncodeToString(b[:]), "sha512:" + hex.EncodeToString(c[:])
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	store := newBlobs()
	c := newClient(t, agent.Config{URL: serve(t, ca.good(t), store) + "/", CA: ca.pem})
	for _, size := range []int{0, 1, 1 << 20, 5<<20 + 3} {
		path, content := blobFile(t, size)
		var last, total int64
		progress := func(done, all int64) {
			if done <= last {
				t.Errorf("progress goes from %d to %d", last, done)
			}
			last, total = done, all
		}
		if err := c.PutBlob(t.Context(), blobID, path, progress); err != nil {
			t.Fatal(err)
		}
		if last != int64(size) || total != int64(size) {
			t.Errorf("progress ends at %d of %d, want %d", last, total, size)
		}
		one, two, five := digests(content)
		for _, digest := range []string{"", one, strings.ToUpper(one), two, five, one + ";" + two, "sha1:" + one, "md5:0123;" + two} {
			var got bytes.Buffer
			last = 0
			if err := c.GetBlobUpTo(t.Context(), agent.LogsLimit, blobID, &got, digest, progress); err != nil {
				t.Fatalf("%s: %v", digest, err)
			}
			if !bytes.Equal(got.Bytes(), content) || last != int64(size) {
				t.Errorf("got %d bytes, progress %d, want %d", got.Len(), last, size)
			}
		}
		for _, digest := range []string{strings.Repeat("0", 40), "sha256:" + strings.Repeat("0", 64), one + ";sha256:" + strings.Repeat("0", 64)} {
			var wrong *agent.DigestError
			if err := c.GetBlobUpTo(t.Context(), agent.LogsLimit, blobID, io.Discard, digest, nil); !errors.As(err, &wrong) || wrong.ID != blobID {
				t.Errorf("%s: got %v, want a digest error", digest, err)
			}
		}
	}
	sum := sha1.Sum([]byte(blobID))
	for _, path := range store.asked() {
		if want := fmt.Sprintf(" /blobs/%02x/%s", sum[0], blobID); !strings.HasSuffix(path, want) {
			t.Errorf("asked for %s, want %s", path, want)
		}
	}
}

func TestBlobRefusals(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	store := newBlobs()
	url := serve(t, ca.good(t), store)
	c := newClient(t, agent.Config{URL: url, CA: ca.pem})
	path, _ := blobFile(t, 1<<20)
	ctx := t.Context()
	for _, digest := range []string{"md5:0123", "nonsense", "sha256:12", "sha1:", ":"} {
		if err := c.GetBlobUpTo(ctx, agent.LogsLimit, blobID, io.Discard, digest, nil); err == nil || !strings.Contains(err.Error(), "digest") {
			t.Errorf("%q: got %v, want that it is no digest", digest, err)
		}
	}
	for _, id := range []string{"", ".", "..", "a/b", "/", "a\x00b"} {
		if err := c.PutBlob(ctx, id, path, nil); err == nil || !strings.Contains(err.Error(), "blob id") {
			t.Errorf("id %q: got %v", id, err)
		}
		if err := c.GetBlobUpTo(ctx, agent.LogsLimit, id, io.Discard, "", nil); err == nil || !strings.Contains(err.Error(), "blob id") {
			t.Errorf("id %q: got %v", id, err)
		}
	}
	if len(store.asked()) != 0 {
		t.Errorf("asked for %q", store.asked())
	}
	if err := c.GetBlobUpTo(ctx, agent.LogsLimit, blobID, io.Discard, "", nil); err == nil || !strings.Contains(err.Error(), "does not have it") {
		t.Errorf("got %v, want that the blob is missing", err)
	}
	if err := c.PutBlob(ctx, blobID, path+"x", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that the file is missing", err)
	}
	if err := c.PutBlob(ctx, blobID, filepath.Dir(path), nil); err == nil {
		t.Error("a folder is uploaded")
	}
	if n := len(store.asked()); n != 1 {
		t.Errorf("%d requests, want 1: none is worth repeating", n)
	}
	stranger := newClient(t, agent.Config{URL: strings.Replace(url, "mbus:", "mbus:x", 1), CA: ca.pem})
	for _, err := range []error{stranger.PutBlob(ctx, blobID, path, nil), stranger.GetBlobUpTo(ctx, agent.LogsLimit, blobID, io.Discard, "", nil)} {
		var silent *agent.UnreachableError
		if !errors.As(err, &silent) || silent.Last.Cause != agent.Unauthorized || !strings.Contains(err.Error(), "load the blob "+blobID+": the agent at 127.0.0.1:") {
			t.Errorf("got %v, want that the password is wrong", err)
		}
	}
	// Blobs are verified like messages.
	for _, wary := range []*agent.Client{
		newClient(t, agent.Config{URL: url, CA: newAuthority(t).pem}),
		newClient(t, agent.Config{URL: strings.Replace(url, "127.0.0.1", "localhost", 1), CA: ca.pem}),
	} {
		if err := wary.PutBlob(ctx, blobID, path, nil); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("got %v, want that the certificate is refused", err)
		}
		if err := wary.GetBlobUpTo(ctx, agent.LogsLimit, blobID, io.Discard, "", nil); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("got %v, want that the certificate is refused", err)
		}
	}
}

// Interrupted transfers are resumed, three times at most.
func TestBlobRetries(t *testing.T) {
	t.Parallel()
	path, content := blobFile(t, 3<<20)
	_, digest, _ := digests(content)
	breakOff := func(w http.ResponseWriter, r *http.Request, after int) {
		if r.Method == http.MethodPut {
			_, _ = io.CopyN(io.Discard, r.Body, int64(after))
		} else {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = w.Write(content[:after])
		}
		panic(http.ErrAbortHandler)
	}
	for _, test := range []struct {
		name string
		fail func(n int, w http.ResponseWriter, r *http.Request) bool
		ok   bool
		want int
	}{
		{"cut twice", func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n < 3 {
				breakOff(w, r, 1<<20*n-1)
			}
			return false
		}, true, 3},
		{"always cut", func(n int, w http.ResponseWriter, r *http.Request) bool { breakOff(w, r, 1<<20); return true }, false, 3},
		{"500 once", func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				http.Error(w, "Opening blob store file: no space", http.StatusInternalServerError)
			}
			return n == 1
		}, true, 2},
		{"500 always", func(n int, w http.ResponseWriter, r *http.Request) bool {
			http.Error(w, "Opening blob store file: no space "+password, http.StatusInternalServerError)
			return true
		}, false, 3},
		{"404", func(n int, w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(404); return true }, false, 1},
		{"200 for PUT", func(n int, w http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodPut
		}, false, 1},
	} {
		for _, method := range []string{"PUT", "GET"} {
			if method == "GET" && strings.HasSuffix(test.name, "PUT") {
				continue
			}
			t.Run(test.name+" "+method, func(t *testing.T) {
				t.Parallel()
				ca := newAuthority(t)
				store := newBlobs()
				store.fail = test.fail
				store.files[blobID] = content
				c := newClient(t, agent.Config{URL: serve(t, ca.good(t), store), CA: ca.pem})
				var got bytes.Buffer
				var err error
				if method == "PUT" {
					delete(store.files, blobID)
					err = c.PutBlob(t.Context(), blobID, path, nil)
				} else {
					err = c.GetBlobUpTo(t.Context(), agent.LogsLimit, blobID, &got, digest, nil)
				}
				if (err == nil) != test.ok || len(store.asked()) != test.want {
					t.Errorf("got %v after %d requests, want %d", err, len(store.asked()), test.want)
				}
				if err != nil && strings.Contains(err.Error(), password) {
					t.Errorf("%q holds the password", err)
				}
				if test.name == "500 always" && !strings.Contains(err.Error(), "no space") {
					t.Errorf("%q does not say why", err)
				}
				if test.ok && method == "GET" && !bytes.Equal(got.Bytes(), content) {
					t.Error("the parts do not make the whole")
				}
				if test.ok && method == "PUT" && !bytes.Equal(store.stored(blobID), content) {
					t.Error("the blob is not the file")
				}
			})
		}
	}
}

type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

// If the target of a download is full, the transfer is not repeated.
func TestBlobWriterFails(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	store := newBlobs()
	store.files[blobID] = make([]byte, 1<<20)
	c := newClient(t, agent.Config{URL: serve(t, ca.good(t), store), CA: ca.pem})
	err := c.GetBlobUpTo(t.Context(), agent.LogsLimit, blobID, &fullDisk{left: 1 << 18}, "", nil)
	if err == nil || !strings.HasSuffix(err.Error(), "no space left") || len(store.asked()) != 1 {
		t.Errorf("got %v after %d requests", err, len(store.asked()))
	}
}

// A transfer may take any time while bytes move. If no bytes move, it ends after a minute
// or two and is not repeated.
func TestBlobSilence(t *testing.T) {
	t.Parallel()
	path, content := blobFile(t, 1<<20)
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		for _, dead := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s dead %v", method, dead), func(t *testing.T) {
				t.Parallel()
				pause := 50 * time.Second
				if dead {
					pause = 70 * time.Second
				}
				var tries atomic.Int32
				slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					tries.Add(1)
					for i := range 8 {
						wait := time.NewTimer(pause)
						select {
						case <-wait.C:
						case <-r.Context().Done():
						}
						wait.Stop()
						if r.Context().Err() != nil {
							return
						}
						part := len(content) / 8
						if r.Method == http.MethodPut {
							if _, err := io.CopyN(io.Discard, r.Body, int64(part)); err != nil {
								return
							}
							continue
						}
						if _, err := w.Write(content[i*part : (i+1)*part]); err != nil {
							return
						}
						_ = http.NewResponseController(w).Flush()
					}
					if r.Method == http.MethodPut {
						w.WriteHeader(http.StatusCreated)
					}
				})
				inBubble(t, good(t), slow, func(t *testing.T, cfg agent.Config) {
					c := newClient(t, cfg)
					start := time.Now()
					var err error
					var got bytes.Buffer
					if method == http.MethodPut {
						err = c.PutBlob(t.Context(), blobID, path, nil)
					} else {
						err = c.GetBlobUpTo(t.Context(), agent.LogsLimit, blobID, &got, "", nil)
					}
					took := time.Since(start)
					time.Sleep(time.Hour) // until the last handler has returned
					if !dead {
						if err != nil || (method == http.MethodGet && !bytes.Equal(got.Bytes(), content)) {
							t.Errorf("after %s got %v", took, err)
						}
						return
					}
					if err == nil || !strings.Contains(err.Error(), "the agent or the network hangs") || tries.Load() != 1 || took > 2*time.Minute {
						t.Errorf("after %s and %d tries got %v", took, tries.Load(), err)
					}
				})
			})
		}
	}
}

func TestBlobCancelled(t *testing.T) {
	t.Parallel()
	hung := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	path, _ := blobFile(t, 1000)
	inBubble(t, good(t), hung, func(t *testing.T, cfg agent.Config) {
		c := newClient(t, cfg)
		reason := errors.New("interrupted")
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { return c.PutBlob(ctx, blobID, path, nil) },
			func(ctx context.Context) error {
				return c.GetBlobUpTo(ctx, agent.LogsLimit, blobID, io.Discard, "", nil)
			},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(reason) })
			start := time.Now()
			if err := call(ctx); !errors.Is(err, reason) || time.Since(start) != time.Second {
				t.Errorf("after %s got %v", time.Since(start), err)
			}
		}
	})
}

func BenchmarkPutBlob(b *testing.B) {
	ca := newAuthority(b)
	address := serve(b, ca.good(b), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
	}))
	c := newClient(b, agent.Config{URL: address, CA: ca.pem})
	path, content := blobFile(b, 64<<20)
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		if err := c.PutBlob(b.Context(), blobID, path, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetBlob(b *testing.B) {
	ca := newAuthority(b)
	_, content := blobFile(b, 64<<20)
	_, digest, _ := digests(content)
	store := newBlobs()
	store.files[blobID] = content
	c := newClient(b, agent.Config{URL: serve(b, ca.good(b), store), CA: ca.pem})
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		store.paths = nil
		if err := c.GetBlobUpTo(b.Context(), agent.LogsLimit, blobID, io.Discard, digest, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func TestHasBlob(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	store := newBlobs()
	_, large := blobFile(t, 4<<20)
	store.files["empty"], store.files["large"] = nil, large
	broken := 1
	store.fail = func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n == broken {
			w.WriteHeader(http.StatusBadGateway)
		}
		return n == broken
	}
	c := newClient(t, agent.Config{URL: serve(t, ca.good(t), store), CA: ca.pem})
	for id, want := range map[string]bool{"empty": true, "large": true, "none": false} {
		if has, err := c.HasBlob(t.Context(), id); err != nil || has != want {
			t.Errorf("%s: %v, %v", id, has, err)
		}
	}
	if _, err := c.HasBlob(t.Context(), "../agent"); err == nil || !strings.Contains(err.Error(), "cannot use") {
		t.Error(err)
	}
	ca2 := newAuthority(t)
	stranger := newClient(t, agent.Config{URL: serve(t, ca2.good(t), store), CA: ca.pem})
	var silent *agent.UnreachableError
	if has, err := stranger.HasBlob(t.Context(), "large"); has || !errors.As(err, &silent) {
		t.Error(has, err)
	}
}
