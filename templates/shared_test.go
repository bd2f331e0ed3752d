//go:build unix

package templates

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/process"
	"bootstrap/internal/wait"
)

// sharing returns a Shared, and a configuration for engines that use it. It checks at the
// end of the test that its folder is empty and its processes have ended.
func sharing(t *testing.T) (*Shared, Config) {
	t.Helper()
	cfg := embedded(t)
	folder, err := os.MkdirTemp("", "shared-") // the path of t.TempDir may be too long
	if err != nil {
		t.Fatal(err)
	}
	cfg.Env = []string{"HOME=" + folder} // the test finds its processes by this variable
	s := Share(t.Context(), cfg, folder)
	if s == nil {
		t.Fatal("nothing is shared")
	}
	cfg.Shared = strings.TrimPrefix(s.Entry(), SharedVariable+"=")
	t.Cleanup(func() {
		s.Close()
		if list, err := process.WithVariable(context.Background(), cfg.Env[0]); len(list) > 0 || err != nil {
			t.Errorf("the processes %v live on, %v", list, err)
		}
		if err := os.Remove(folder); err != nil {
			t.Error(err)
		}
	})
	return s, cfg
}

// engines returns the process ids of the Rubies that the Shared has started, and of those
// of engines with its configuration.
func engines(t *testing.T, s *Shared) []int {
	t.Helper()
	list, err := process.WithVariable(t.Context(), s.cfg.Env[0])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// renderOne renders a job with one template, and returns the text.
func renderOne(t *testing.T, e *Engine, text string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	err := e.Render(t.Context(), []Job{newJob(t, "job", map[string]string{"f": text})}, dir)
	if err != nil {
		return "", err
	}
	return read(t, dir, "job", "f"), nil
}

// TestShared has many engines that render at the same time with one process.
func TestShared(t *testing.T) {
	t.Parallel()
	s, cfg := sharing(t)
	if s.started != 0 {
		t.Error("an engine runs before it is needed")
	}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			e := start(t, cfg)
			if i%2 == 0 {
				e.Warm()
			}
			for j := range 2 {
				got, err := renderOne(t, e, fmt.Sprintf(`<%% $n = ($n || 0) + 1 %%><%%= [name, $n, %d + %d] %%>`, i, j))
				if want := fmt.Sprintf(`["job", 1, %d]`, i+j); err != nil || got != want {
					t.Errorf("got %q and %v, want %q", got, err, want)
				}
			}
			if e.cfg.Shared == "" || e.ruby != nil {
				t.Error("it has started its own Ruby")
			}
		})
	}
	all.Wait()
	if s.started != 1 {
		t.Errorf("%d engines were started", s.started)
	}
}

// TestSharedSpoilt checks that a template can only disturb its own job, and that this is
// reported as without sharing.
func TestSharedSpoilt(t *testing.T) {
	t.Parallel()
	s, cfg := sharing(t)
	fails := func(cfg Config, text, want string) {
		t.Helper()
		_, err := renderOne(t, start(t, cfg), text)
		var failed *Failures
		if !errors.As(err, &failed) || !strings.Contains(failed.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		cfg.Timeout = 0
		other := start(t, cfg)
		if got, err := renderOne(t, other, "<%= 1 + 1 %>"); got != "2" || err != nil || other.cfg.Shared == "" {
			t.Errorf("after %s: got %q and %v", want, got, err)
		}
	}
	fails(cfg, "<% exit! 3 %>", "the template ended Ruby (exit status 3)")
	fails(cfg, `<% a = "x" * (300 << 20); b = a * 4 %>`, "failed to allocate memory")
	list := engines(t, s)
	limited := cfg
	limited.Timeout = time.Second
	fails(limited, "<% loop {} %>", "it took longer than 1s and was stopped")
	// Only a signal ends that template.
	if len(list) != 1 {
		t.Fatalf("the engines are %v", list)
	}
	err := wait.Poll(t.Context(), 10*time.Millisecond, func() (bool, error) { return !slices.Contains(engines(t, s), list[0]), nil })
	if err != nil {
		t.Error(err)
	}
	fails(cfg, "<% exit! 4 %>", "the template ended Ruby (exit status 4)")
	if s.started != 2 {
		t.Errorf("%d engines were started", s.started)
	}
}

// TestSharedGone kills the shared Ruby, or the process that started it, while a job is
// rendered there.
func TestSharedGone(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *Shared, engine int){
		"the engine is killed": func(_ *Shared, engine int) { _ = syscall.Kill(engine, syscall.SIGKILL) },
		"it is closed":         func(s *Shared, _ int) { s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, cfg := sharing(t)
			ctx := t.Context()
			e := start(t, cfg)
			e.Warm()
			e.warm.Wait()
			list := engines(t, s)
			if len(list) != 1 {
				t.Fatalf("the engines are %v", list)
			}
			dir := t.TempDir()
			jobs := []Job{newJob(t, "first", map[string]string{"f": "<%= 1 %>"}), newJob(t, "second", map[string]string{"f": "<% 12_000_000.times {} %><%= 2 %>"})}
			before := process.Usages()[list[0]].CPU
			rendered := guard.Start(ctx, func() error { return e.Render(ctx, jobs, dir) })
			err := wait.Poll(ctx, 50*time.Millisecond, func() (bool, error) { // It reads the environment of all processes.
				return len(rendered) > 0 || process.Usages()[list[0]].CPU > before+100*time.Millisecond, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			end(s, list[0])
			if err := <-rendered; err != nil {
				t.Fatal(err)
			}
			if e.cfg.Shared != "" {
				t.Error("the job was not rendered again")
			}
			if got := read(t, dir, "first", "f") + read(t, dir, "second", "f"); got != "12" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestSharedElsewhere gives an engine sockets at which no Ruby answers.
func TestSharedElsewhere(t *testing.T) {
	t.Parallel()
	s, cfg := sharing(t)
	other := filepath.Join(s.dir, "none")
	for _, socket := range []string{other, s.dir, "relative"} {
		cfg.Shared = socket
		if got, err := renderOne(t, start(t, cfg), "<%= 1 %>"); got != "1" || err != nil {
			t.Errorf("%s: got %q and %v", socket, got, err)
		}
	}
	// A coordinator that is stopped does not answer.
	silent, err := net.Listen("unix", filepath.Join(s.dir, "silent"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	stopped := cfg
	stopped.Shared, stopped.patience = silent.Addr().String(), 10*time.Millisecond
	for _, warm := range []bool{false, true} {
		e := start(t, stopped)
		if warm {
			e.Warm()
		}
		if got, err := renderOne(t, e, "<%= 1 %>"); got != "1" || err != nil {
			t.Errorf("silent: got %q and %v", got, err)
		}
	}
	// Folders that other processes have left behind are removed: those of a coordinator, and
	// one in which its engine has created a socket since.
	var left []string
	for _, name := range []string{askName, "0"} {
		dir, err := os.MkdirTemp(filepath.Dir(s.dir), sharedPrefix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		left = append(left, dir)
	}
	second := Share(t.Context(), cfg, filepath.Dir(s.dir))
	defer second.Close()
	for _, dir := range left {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the folder is still there: %v", err)
		}
	}
	if _, err := os.Stat(s.dir); err != nil || s.started != 0 {
		t.Errorf("of another process that lives, it has started %d engines, and the folder is there: %v", s.started, err)
	}
	if Share(t.Context(), cfg, filepath.Join(s.dir, strings.Repeat("x", 100))) != nil {
		t.Error("a path that is too long is used")
	}
}
