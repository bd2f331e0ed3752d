//go:build unix

package artifact

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"bootstrap/artifact/tartest"
)

// child is the test binary in a child process: it fetches ARTIFACT_URL into ARTIFACT_DIR
// and reads it. ARTIFACT_CHILD selects a variant. It can also measure: ARTIFACT_CHILD=run
// /usr/bin/time -v ./artifact.test.
func child() int {
	mode := os.Getenv("ARTIFACT_CHILD")
	if mode == "full disk" {
		signal.Ignore(syscall.SIGXFSZ)
		limit := syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			fmt.Println(err)
			return 3
		}
	}
	progress := func(done, total int64) {
		if mode == "hang" && done > total/2 {
			fmt.Println("half")
			select {}
		}
	}
	s := Open(Config{Dir: os.Getenv("ARTIFACT_DIR")})
	src := Source{Name: "web", URL: os.Getenv("ARTIFACT_URL"), Digest: os.Getenv("ARTIFACT_DIGEST")}
	f, err := s.Fetch(context.Background(), src, progress)
	if mode == "stemcell" && err == nil {
		st, err := s.Stemcell(context.Background(), f, progress)
		if to := os.Getenv("ARTIFACT_TO"); err == nil && to != "" {
			_, err = st.Extract(context.Background(), to, progress)
		}
		fmt.Println(st, err)
		return 0
	}
	var r *Release
	if err == nil {
		r, err = s.Release(context.Background(), f, progress)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(r.Name, r.Version)
	return 0
}

func childCommand(t *testing.T, mode, dir string, src Source) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ARTIFACT_CHILD="+mode, "ARTIFACT_DIR="+dir, "ARTIFACT_URL="+src.URL, "ARTIFACT_DIGEST="+src.Digest)
	cmd.Stderr = os.Stderr
	return cmd
}

// killHalfway starts a child, waits until half of the file has arrived, and
// kills it.
func killHalfway(t *testing.T, dir string, src Source) {
	t.Helper()
	cmd := childCommand(t, "hang", dir, src)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if line != "half\n" {
		t.Fatalf("the child said %q", line)
	}
}

func TestKilledWhileReading(t *testing.T) {
	t.Parallel()
	data := largeRelease(t, 2<<20)
	path := tartest.Write(t, data, t.TempDir(), "web.tgz")
	s := testStore(t)
	src := local("web", path, sha1Of(data))
	killHalfway(t, string(s.dir), src)
	if left, _ := filepath.Glob(s.dir.Path("tmp", "*", "*.tgz")); len(left) == 0 {
		t.Fatal("the child had not begun to write")
	}
	if r := readRelease(t, s, src); len(r.Packages) != 2 {
		t.Errorf("release is %+v", r)
	}
	if left, _ := os.ReadDir(s.dir.Path("tmp")); len(left) != 0 {
		t.Errorf("left in tmp: %v", left)
	}
}

func TestKilledWhileDownloading(t *testing.T) {
	t.Parallel()
	data := largeRelease(t, 2<<20)
	var asked atomic.Value
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Header.Get("Range"))
		content(w, r, `"1"`, data)
	})
	s := testStore(t)
	src := local("web", "", sha1Of(data))
	src.URL = srv.URL + "/web.tgz"
	killHalfway(t, string(s.dir), src)
	if r := readRelease(t, s, src); len(r.Packages) != 2 {
		t.Errorf("release is %+v", r)
	}
	if got, _ := asked.Load().(string); !strings.HasPrefix(got, "bytes=") || got == "bytes=0-" {
		t.Errorf("asked for %q after the kill", got)
	}
}

func TestProcessesSideBySide(t *testing.T) {
	t.Parallel()
	data := largeRelease(t, 2<<20)
	var n atomic.Int32
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) { n.Add(1); content(w, r, `"1"`, data) })
	dir := t.TempDir()
	src := Source{URL: srv.URL + "/web.tgz", Digest: sha1Of(data)}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			out, err := childCommand(t, "run", dir, src).Output()
			if err != nil || string(out) != "web 1.10\n" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if n.Load() != 1 {
		t.Errorf("downloaded %d times", n.Load())
	}
}

// No file in the child can grow beyond 1 MiB, as on a full disk.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	data := largeRelease(t, 2<<20)
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) { content(w, r, `"1"`, data) })
	path := tartest.Write(t, data, t.TempDir(), "web.tgz")
	for _, url := range []string{srv.URL + "/web.tgz", "file://" + path} {
		s := testStore(t)
		src := local("web", "", sha1Of(data))
		src.URL = url
		out, err := childCommand(t, "full disk", string(s.dir), src).Output()
		if err == nil || !bytes.Contains(out, []byte("file too large")) || bytes.Contains(out, []byte("tried")) {
			t.Errorf("%s: %v: %s", url, err, out)
		}
		if left, _ := os.ReadDir(s.dir.Path("tmp")); len(left) != 0 {
			t.Errorf("left in tmp: %v", left)
		}
		readRelease(t, s, src)
	}
}

// A read-only file system leads to an ordinary error.
func TestReadOnlyCache(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	data := releaseArchive(t)
	dir := t.TempDir()
	os.Chmod(dir, 0o500)
	s := Open(Config{Dir: filepath.Join(dir, "bosh")})
	_, err := s.Release(context.Background(), fetch(t, s, local("web", tartest.Write(t, data, t.TempDir(), "web.tgz"), "")), nil)
	tartest.MustFail(t, err, "permission denied", dir)
}
