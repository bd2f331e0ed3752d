package templates

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ends waits for the end of a child process.
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

// renders reports whether a new engine can use the cache.
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
	t.Parallel()
	cfg := embedded(t)
	cfg.Cache = filepath.Join(t.TempDir(), "cache")
	renders(t, cfg)
	// wazero does not check this byte, because it is not part of the code.
	damage(t, cfg.Cache, func(size int64) int64 { return size - 1 })

	killed := exec.Command(cfg.Self, "plugin", "templates", "--cache", cfg.Cache)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = killed.Process.Kill() })
	ends(t, killed)

	var group sync.WaitGroup
	for range 2 {
		group.Go(func() { renders(t, cfg) })
	}
	group.Wait()
	before := tree(t, cfg.Cache)
	if len(before) != 5 {
		t.Fatalf("the cache has %v", before)
	}
	renders(t, cfg)
	for name, made := range tree(t, cfg.Cache) {
		if made != before[name] {
			t.Errorf("%s was made again", name)
		}
	}
}

// damage changes a byte of the machine code in a cache.
func damage(t *testing.T, cache string, at func(size int64) int64) {
	t.Helper()
	code, err := filepath.Glob(filepath.Join(cache, "*", "wazero-*", "*"))
	if err != nil || len(code) != 1 {
		t.Fatal(code, err)
	}
	data, err := os.ReadFile(code[0])
	if err != nil {
		t.Fatal(err)
	}
	data[at(int64(len(data)))] ^= 0xff
	if err := os.WriteFile(code[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedCode changes a byte in the middle of the machine code, which wazero's
// checksum covers.
func TestDamagedCode(t *testing.T) {
	t.Parallel()
	cfg := embedded(t)
	cfg.Cache = filepath.Join(t.TempDir(), "cache")
	renders(t, cfg)
	before := tree(t, cfg.Cache)
	damage(t, cfg.Cache, func(size int64) int64 { return size / 2 })
	renders(t, cfg)
	again := tree(t, cfg.Cache)
	if len(again) != len(before) {
		t.Errorf("the cache has %v", again)
	}
	renders(t, cfg)
	for name, made := range tree(t, cfg.Cache) {
		if made != again[name] {
			t.Errorf("%s was made again", name)
		}
	}
}

// TestOtherMachine starts a program whose machine code cannot be used: it compiles Ruby,
// reports that once, and keeps the result.
func TestOtherMachine(t *testing.T) {
	t.Parallel()
	cfg := embedded(t)
	whole(t, cfg)
	dir := t.TempDir()
	native, err := filepath.Abs("cruby/native/" + runtime.GOARCH + "/code.tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad")
	put(t, bad, "no archive")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {native: bad}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "overlay"), string(overlay))
	cfg.Self, cfg.Cache = filepath.Join(dir, "engine.exe"), filepath.Join(dir, "cache")
	if err := build(cfg.Self, "-overlay", filepath.Join(dir, "overlay")); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int32
	cfg.Compiling = func(bool) { calls.Add(1) }
	renders(t, cfg)
	renders(t, cfg)
	if calls.Load() != 1 {
		t.Errorf("it calls %d times that it compiles", calls.Load())
	}
}

// TestRareFunctions renders templates that need functions without machine code: all of
// Ruby is compiled, and the job begins again.
func TestRareFunctions(t *testing.T) {
	t.Parallel()
	cfg := embedded(t)
	whole(t, cfg)
	var calls atomic.Int32
	cfg.Compiling = func(bool) { calls.Add(1) }
	const rare = `<% require "ripper" %><%= begin; Ripper.sexp("a = 1").flatten.first(3).inspect; rescue Exception; "rescued"; end %>`
	first := newJob(t, "first", map[string]string{"f": rare + ` <%= name %>`})
	second := newJob(t, "second", map[string]string{
		"1": `<% class ::String; def shout; upcase + "!"; end; end %><%= name.shout %>`,
		"2": `<%= name.shout %> ` + rare,
		"3": `<%= name.shout %> <%= Ripper.lex("1").length %>`,
	})
	third := newJob(t, "third", map[string]string{"f": `<%= name %> <%= name.respond_to?(:shout) %>`})
	for name, jobs := range map[string][]Job{"at once": {first, second, third}, "later": {third, second, first}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := start(t, cfg).Render(t.Context(), jobs, dir); err != nil {
				t.Fatal(err)
			}
			const sexp = "[:program, :assign, :var_field]"
			for path, want := range map[string]string{
				"first/f": sexp + " first", "second/1": "SECOND!", "second/2": "SECOND! " + sexp, "second/3": "SECOND! 1", "third/f": "third false",
			} {
				if got := read(t, dir, path); got != want {
					t.Errorf("%s: got %q, want %q", path, got, want)
				}
			}
		})
	}
	if calls.Load() > 1 {
		t.Errorf("it calls %d times that it compiles", calls.Load())
	}
	t.Run("what is printed", func(t *testing.T) {
		cmd := exec.Command(cfg.Self, "plugin", "templates", "--cache", cfg.Cache)
		var in, log bytes.Buffer
		facts := newJob(t, "job", nil)
		for i, text := range []string{`<% $stderr.puts "one" %>`, `<% $stderr.puts "two" %>` + rare + `<% $stderr.puts "three" %>`, `<% $stderr.puts "four"; exit! 3 %>`} {
			req := request{File: "f", Template: []byte(text)}
			if i == 0 {
				req.Context = facts.facts("id")
			}
			line, err := json.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			in.Write(append(line, '\n'))
		}
		out := answers(t, cmd, &in, &log)
		if want := "one\ntwo\nthree\nfour\n"; log.String() != want {
			t.Errorf("printed %q, want %q: %s", log.String(), want, out)
		}
		if cmd.ProcessState.ExitCode() != 3 {
			t.Errorf("it ended with %v: %s", cmd.ProcessState, out)
		}
	})
}

// answers starts a Ruby and sends it requests, each after the answer to the one before.
func answers(t *testing.T, cmd *exec.Cmd, requests *bytes.Buffer, log io.Writer) string {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), `{"state":`) {
			continue
		}
		line, err := requests.ReadBytes('\n')
		if err != nil {
			break
		}
		if _, err := in.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	ends(t, cmd)
	return all.String()
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
	// This has the effect of one processor.
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
		lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(line string) bool { return strings.HasPrefix(line, `{"state":`) })
		if len(lines) == 0 || len(lines) > 2 || !strings.HasPrefix(lines[0], `{"ruby":`) {
			t.Errorf("%q: got %s", line, out)
		}
	}
}
