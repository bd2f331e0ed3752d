package templates

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// ends waits for a child process.
func ends(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		<-done
		t.Error("the child process does not end")
	}
}

// renders reports whether a new engine works with that cache.
func renders(t *testing.T, cfg Config) {
	t.Helper()
	dir := t.TempDir()
	if err := start(t, cfg).Render(t.Context(), []Job{newJob(t, "job", map[string]string{"f": "<%= name %>"})}, dir); err != nil {
		t.Error(err)
	} else if got := read(t, dir, "job", "f"); got != "job" {
		t.Errorf("got %q", got)
	}
}

// TestCacheOfSeveral damages the cache, kills the child process that rebuilds
// it, and then starts two processes at once.
func TestCacheOfSeveral(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles Ruby, which takes as long as all other tests of make unit")
	}
	t.Parallel()
	cfg := embedded(t)
	renders(t, cfg)
	cache := filepath.Join(t.TempDir(), "cache")
	if err := os.CopyFS(cache, os.DirFS(cfg.Cache)); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{"": 0o700, "lock": 0o600} {
		if err := os.Chmod(filepath.Join(cache, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Cache = cache
	code, err := filepath.Glob(filepath.Join(cache, "*", "wazero-*", "*"))
	if err != nil || len(code) != 1 {
		t.Fatal(code, err)
	}
	f, err := os.OpenFile(code[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	// wazero ignores it, because it is not code.
	if _, err := f.WriteAt([]byte{0xff}, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	killed := exec.Command(cfg.Self, "plugin", "templates", "--cache", cfg.Cache)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { _ = killed.Process.Kill() })
	ends(t, killed)

	var group sync.WaitGroup
	for range 2 {
		group.Go(func() { renders(t, cfg) })
	}
	group.Wait()
	before := tree(t, cfg.Cache)
	if len(before) != 4 {
		t.Fatalf("the cache has %v", before)
	}
	renders(t, cfg)
	for name, made := range tree(t, cfg.Cache) {
		if made != before[name] {
			t.Errorf("%s was made again", name)
		}
	}
}

// tree returns the files below dir with their times, and checks the modes.
func tree(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	files := map[string]time.Time{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if !d.IsDir() {
			files[path] = info.ModTime()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return files
}

// TestParentGone closes the child's standard input while a template with an
// endless loop runs.
func TestParentGone(t *testing.T) {
	t.Parallel()
	cfg := embedded(t)
	cmd := exec.Command(cfg.Self, "plugin", "templates", "--cache", cfg.Cache)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	// As on a machine with one processor.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	job := newJob(t, "job", nil)
	line, err := json.Marshal(request{File: "f", Template: []byte("<% loop {} %>"), Context: job.facts("id")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(2*time.Second, func() { _ = in.Close() })
	ends(t, cmd)
	if strings.Count(out.String(), "\n") > 1 {
		t.Errorf("got %s", out.String())
	}
}

// TestServeGarbage sends input that is not a request.
func TestServeGarbage(t *testing.T) {
	t.Parallel()
	cfg := embedded(t)
	for _, line := range []string{"hello\n", "{}\n", `{"file":"x","template":"PA=="}` + "\n", `{"context":1}` + "\n", `{"context":{}}` + "\n", "\x00\xff\n"} {
		cmd := exec.Command(cfg.Self, "plugin", "templates", "--cache", cfg.Cache)
		cmd.Stdin = io.MultiReader(strings.NewReader(line))
		out, _ := cmd.Output()
		if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); len(lines) > 2 || !strings.HasPrefix(lines[0], `{"ruby":`) {
			t.Errorf("%q: got %s", line, out)
		}
	}
}
