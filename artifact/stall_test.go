package artifact

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/artifact/tartest"
)

// drip sends one byte every so often, and never ends.
func drip(w http.ResponseWriter, r *http.Request, data []byte, every time.Duration) {
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range data {
		w.Write(data[i : i+1])
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// A slow or silent server leads to an error that names it and the received part;
// when it works again, the download continues.
func TestDownloadStalls(t *testing.T) {
	t.Parallel()
	data := tartest.Body(1 << 20)
	for name, c := range map[string]struct {
		stall func(w http.ResponseWriter, r *http.Request)
		words []string
	}{
		"drip": {func(w http.ResponseWriter, r *http.Request) { drip(w, r, data, time.Millisecond) },
			[]string{"sent only", "bytes in"}},
		"silent in the middle": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			w.Write(data[:1000])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, []string{"sent nothing for", "the part of 1000 of 1048576 bytes is kept"}},
		"silent from the start": {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			[]string{"sent nothing for"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int32
			var good atomic.Bool
			srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if good.Load() {
					content(w, r, "", data)
					return
				}
				n.Add(1)
				// Without ranges each attempt begins again, so the number of
				// attempts must be limited.
				r.Header.Del("Range")
				c.stall(w, r)
			})
			s := testStore(t)
			patient := s.client.Retry.Pace
			if name == "drip" {
				s.client.Retry.Pace.Window, s.client.Retry.Pace.Floor = 50*time.Millisecond, 1<<20
			} else {
				s.client.Retry.Pace.Silence = 500 * time.Millisecond
			}
			_, err := s.Fetch(context.Background(), remote(srv.URL+"/x.tgz?token=hidden", data), nil)
			tartest.MustFail(t, err, append(c.words, srv.URL+"/x.tgz?…", "tried 3 times", "file://")...)
			if n.Load() != 3 || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%d tries: %v", n.Load(), err)
			}
			good.Store(true)
			s.client.Retry.Pace = patient
			fetch(t, s, remote(srv.URL+"/x.tgz?token=hidden", data))
		})
	}
}

// A file that is too large is refused by the announced size, or when the limit
// is reached. It is not requested again, and no part is kept.
func TestDownloadTooLarge(t *testing.T) {
	t.Parallel()
	data := tartest.Body(1 << 20)
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		words  []string
	}{
		"told":     {func(w http.ResponseWriter) { w.Header().Set("Content-Length", fmt.Sprint(len(data))) }, []string{"it has 1048576 bytes"}},
		"not told": {func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, []string{"larger than the limit of 524288 bytes"}},
		"partial": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 10-%d/%d", len(data)-1, len(data)))
			w.WriteHeader(http.StatusPartialContent)
		}, []string{"it has 1048576 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int32
			srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n.Add(1)
				c.answer(w)
				w.Write(data)
			})
			s := testStore(t)
			s.maxDownload = 1 << 19
			src := remote(srv.URL, data)
			if name == "partial" {
				tartest.Write(t, data[:10], s.dir.Downloads(), "sha1-"+src.Digest+".part")
			}
			_, err := s.Fetch(context.Background(), src, nil)
			tartest.MustFail(t, err, append(c.words, srv.URL)...)
			if n.Load() != 1 {
				t.Errorf("asked %d times", n.Load())
			}
			list, _ := os.ReadDir(s.dir.Downloads())
			for _, f := range list {
				if info, err := f.Info(); err == nil && info.Size() > 0 {
					t.Errorf("%s of %d bytes is left", f.Name(), info.Size())
				}
			}
		})
	}
}

// Endless headers or an endless body of an error response do not fill the memory.
func TestDownloadEndlessReplies(t *testing.T) {
	t.Parallel()
	data := tartest.Body(1000)
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		words  string
	}{
		"head": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20+1))
			w.Write(data)
		}, "headers exceeded"},
		"page": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			for r.Context().Err() == nil { // until the client closes the connection
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, "404 Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serve(t, c.answer)
			_, err := testStore(t).Fetch(context.Background(), remote(srv.URL, data), nil)
			tartest.MustFail(t, err, c.words)
		})
	}
}
