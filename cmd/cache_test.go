package cmd

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"bootstrap/artifact"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/records"
)

func TestCacheHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"cache":       {"cache", "--help"},
		"cache-list":  {"cache", "list", "--help"},
		"cache-prune": {"cache", "prune", "--help"},
	} {
		code, out, errs := run(t, args...)
		if code != 0 || errs != "" {
			t.Fatalf("exit code %d, %s", code, errs)
		}
		golden.Assert(t, out, "help/"+name+".txt")
	}
}

// cacheHome returns a home with a compiled package of a VM and two of CPIs, one of which
// is installed.
func cacheHome(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	s := artifact.Open(artifact.Config{Dir: filepath.Join(home, ".bosh")})
	defer s.Close()
	var archive bytes.Buffer
	w := gzip.NewWriter(&archive)
	w.Write(bytes.Repeat([]byte("x"), 5000))
	w.Close()
	_, err := s.KeepCompiled(context.Background(), artifact.NewCompiled{
		Keys:  []artifact.CompiledKey{artifact.CompiledKey{Name: "ruby", Fingerprint: "f1", Stemcell: "os/1"}},
		Fetch: func(w io.Writer) error { _, err := w.Write(archive.Bytes()); return err },
	})
	compiled := filepath.Join(home, ".bosh", "cache", "compiled")
	installed := filepath.Join(home, ".bosh", "the-installation", "packages")
	err = errors.Join(err, os.MkdirAll(installed, 0o700),
		os.MkdirAll(filepath.Join(compiled, "golang-0123", "packages", "golang"), 0o700),
		os.MkdirAll(filepath.Join(home, ".bosh", "cache", "ruby", "ruby-89ab"), 0o700),
		os.WriteFile(filepath.Join(home, ".bosh", "cache", "ruby", "ruby-89ab", "sums"), []byte("12345"), 0o600),
		os.MkdirAll(filepath.Join(compiled, "cpi-4567", "packages", "cpi"), 0o700),
		os.Symlink(filepath.Join(compiled, "cpi-4567", "packages", "cpi"), filepath.Join(installed, "cpi")))
	if err != nil {
		t.Fatal(err)
	}
	return home
}

func cacheRun(t *testing.T, home string, args ...string) (code int, out string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Main(append([]string{"cache"}, args...), strings.NewReader(""), &stdout, &stderr, []string{"HOME=" + home})
	return code, stdout.String() + stderr.String()
}

func mustSay(t *testing.T, out string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("does not say %q:\n%s", w, out)
		}
	}
}

func TestCacheListAndPrune(t *testing.T) {
	home := cacheHome(t)
	code, out := cacheRun(t, home, "list")
	if code != 0 {
		t.Fatal(code, out)
	}
	mustSay(t, out, "compiled package  ruby/f1 (os/1)", "CPI package", "golang", "the-installation", "compiled Ruby     ruby-89ab", "5 B")

	code, out = cacheRun(t, home, "prune", "--older-than", "1d")
	if code != 0 || !strings.HasPrefix(out, "Nothing to remove: ") {
		t.Errorf("exit code %d, %s", code, out)
	}
	code, out = cacheRun(t, home, "prune", "--all", "--dry-run")
	mustSay(t, out, "Would remove compiled package ruby/f1 (os/1) (", "Would remove CPI package golang", "Would remove compiled Ruby ruby-89ab (5 B)", "Would remove 3 of these")
	if code != 0 || strings.Contains(out, "CPI package cpi") {
		t.Errorf("exit code %d, %s", code, out)
	}
	code, out = cacheRun(t, home, "prune", "--all")
	mustSay(t, out, "Removed compiled package ruby/f1 (os/1)", "Removed CPI package golang", "Removed compiled Ruby ruby-89ab (5 B)", "Removed 3 of these")
	if code != 0 {
		t.Error(code)
	}
	code, out = cacheRun(t, home, "list")
	mustSay(t, out, "cpi", "the-installation")
	if code != 0 || strings.Contains(out, "ruby") || strings.Contains(out, "golang") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

func TestCacheAsJSON(t *testing.T) {
	home := cacheHome(t)
	_, out := cacheRun(t, home, "list", "--json")
	kinds := map[string]records.Cached{}
	for line := range strings.Lines(out) {
		var item records.Cached
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		kinds[item.Type+" "+item.Name] = item
	}
	if item := kinds["compiled package ruby/f1 (os/1)"]; item.Size == 0 || item.LastUse == nil || time.Since(*item.LastUse) > time.Hour {
		t.Errorf("%+v of:\n%s", item, out)
	}
	if item := kinds["CPI package cpi"]; len(item.UsedBy) != 1 {
		t.Errorf("%+v of:\n%s", item, out)
	}
	_, out = cacheRun(t, home, "prune", "--all", "--json", "--dry-run")
	mustSay(t, out, `"removed":false`)
	_, out = cacheRun(t, home, "prune", "--all", "--json")
	mustSay(t, out, `"removed":true`)
}

func TestCachePruneWaitsForNobody(t *testing.T) {
	home := cacheHome(t)
	s := artifact.Open(artifact.Config{Dir: filepath.Join(home, ".bosh")})
	defer s.Close()
	if _, ok, err := s.Compiled(context.Background(), artifact.CompiledKey{}); ok || err != nil {
		t.Fatal(ok, err)
	}
	code, out := cacheRun(t, home, "prune", "--all")
	mustSay(t, out, "another run of bootstrap is using it", "Exit code 75")
	if code != exit.Locked {
		t.Error(code)
	}
	if code, out = cacheRun(t, home, "prune", "--all", "--dry-run"); code != 0 {
		t.Error(code, out)
	}
	code, out = cacheRun(t, home, "list")
	mustSay(t, out, "ruby", "golang")
	if code != 0 {
		t.Error(code)
	}
}

func TestCacheUsage(t *testing.T) {
	home := t.TempDir()
	for _, args := range [][]string{{"prune"}, {"prune", "--all", "--older-than", "1d"}, {"prune", "--older-than", "soon"}, {"list", "x"}} {
		if code, out := cacheRun(t, home, args...); code != exit.Usage {
			t.Errorf("%v: exit code %d, %s", args, code, out)
		}
	}
	if code, out := cacheRun(t, home, "list"); code != 0 || !strings.Contains(out, "0 B") {
		t.Errorf("of an empty home: %d, %s", code, out)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("list made %v, %v", entries, err)
	}
}
