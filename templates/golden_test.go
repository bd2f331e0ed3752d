package templates

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/golden"
)

// TestGolden renders templates that use every method of the context, and
// libraries of all kinds, with both Rubies.
func TestGolden(t *testing.T) {
	t.Parallel()
	each(t, testGolden)
}

func testGolden(t *testing.T, cfg Config) {
	names, err := filepath.Glob("testdata/golden/*.erb")
	if err != nil || len(names) == 0 {
		t.Fatal("no templates", err)
	}
	if testing.Short() && cfg.embedded() { // see the function whole
		names = slices.DeleteFunc(names, func(name string) bool { return filepath.Base(name) == "openssl.erb" })
	}
	files := map[string]string{}
	for _, name := range names {
		files[filepath.Base(name)] = read(t, name)
	}
	job := newJob(t, "job", files)
	job.Context, job.Properties = sample()
	dir := t.TempDir()
	if err := start(t, cfg).Render(t.Context(), []Job{job}, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		plain := strings.TrimSuffix(filepath.Base(name), ".erb")
		got, kept := read(t, dir, "job", plain), strings.TrimSuffix(name, ".erb")+".golden"
		if golden.FlagUpdate() && cfg.embedded() {
			if err := os.WriteFile(kept, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want := strings.Split(read(t, kept), "\n")
		for i, line := range strings.Split(got, "\n") {
			if i >= len(want) || line != want[i] {
				t.Errorf("%s, line %d: got\n%s\nwant\n%s", name, i+1, line, strings.Join(want[min(i, len(want)):min(i+1, len(want))], ""))
			}
		}
	}
}
