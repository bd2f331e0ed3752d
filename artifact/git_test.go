package artifact

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A release from git reads no file outside of its checkout.
func TestCheckoutReadsNothingOutside(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	outside := t.TempDir()
	writeFolder(t, outside, releaseFiles())
	for link, word := range map[string]string{
		"":                           "",
		"jobs/web/templates/ctl.erb": "jobs/web/templates/ctl.erb",
		"jobs/web":                   "jobs/web in the repository is a link",
		"packages":                   "packages in the repository is a link",
		"config/final.yml":           "config/final.yml",
	} {
		repo := t.TempDir()
		writeFolder(t, repo, releaseFiles())
		if link != "" {
			if err := os.RemoveAll(filepath.Join(repo, link)); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(outside, link), filepath.Join(repo, link)); err != nil {
				t.Skip(err)
			}
		}
		run := func(args ...string) string {
			out, err := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"}, args...)...).Output()
			if err != nil {
				t.Fatal(args, err)
			}
			return strings.TrimSpace(string(out))
		}
		run("init", "-q")
		run("add", "-f", ".")
		run("commit", "-q", "-m", "x")
		s := testStore(t)
		f, err := s.Fetch(context.Background(), Source{Kind: KindRelease, Name: "web", URL: "git+file://" + repo + "@" + run("rev-parse", "HEAD")}, nil)
		if err == nil {
			_, err = s.Release(context.Background(), f, nil)
		}
		if (err != nil) != (link != "") || err != nil && !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v", link, err)
		}
		if link == "" {
			pruneCheckout(t, s)
		}
	}
}

// pruneCheckout finds the only checkout in the cache, and removes it.
func pruneCheckout(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.dir.Path(gitFolder, "0123.removed"), 0o700); err != nil {
		t.Fatal(err)
	}
	done, err := s.Alone()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	gone, err := s.Prune(time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range gone {
		found = found || e.Kind == EntryCheckout && len(e.Name) == 40 && e.Size > 0
	}
	left, err := os.ReadDir(s.dir.Path(gitFolder))
	if err != nil || len(left) > 0 || !found {
		t.Error(gone, left, err)
	}
}
