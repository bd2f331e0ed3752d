package templates

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"bootstrap/templates/cruby"

	"go.uber.org/goleak"
)

// program is the child process' program, which is built when a test first needs it, with
// the cache of all tests.
type program struct {
	dir   string
	build func() error
}

func newProgram() *program {
	p := &program{}
	p.build = sync.OnceValue(func() error {
		if _, err := cruby.Embedded(); err != nil {
			return err
		}
		var err error
		if p.dir, err = os.MkdirTemp("", "templates-test-"); err != nil {
			return err
		}
		return build(p.path())
	})
	return p
}

// build builds the program with more flags.
func build(path string, flags ...string) error {
	cmd := exec.CommandContext(context.Background(), "go", slices.Concat([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", path}, flags, []string{"./testdata/engine"})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

func (p *program) path() string { return filepath.Join(p.dir, "engine.exe") }

func (p *program) cache() string { return filepath.Join(p.dir, "cache") }

var self = newProgram()

func TestMain(m *testing.M) {
	// The clock of the package regexp2 ends a second after the last match.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2.runClock"), goleak.Cleanup(func(code int) {
		if self.dir != "" {
			_ = os.RemoveAll(self.dir)
		}
		os.Exit(code)
	}))
}

// native returns the Ruby of this machine.
func native(t testing.TB) Config {
	t.Helper()
	path, err := exec.LookPath("ruby")
	if err != nil {
		t.Skip("no ruby")
	}
	return Config{Ruby: path}
}

// embedded returns the Ruby in the program.
func embedded(t testing.TB) Config {
	t.Helper()
	if err := self.build(); err == cruby.ErrNoImage {
		t.Skip("no image")
	} else if err != nil {
		t.Fatal(err)
	}
	return Config{Self: self.path(), Cache: self.cache()}
}

// whole skips a test in a short run if its templates need functions of Ruby for which the
// program has no machine code: compiling all of Ruby takes ten seconds.
func whole(t testing.TB, cfg Config) {
	t.Helper()
	if testing.Short() && cfg.embedded() {
		t.Skip("compiles the whole Ruby")
	}
}

// each runs a test with both Rubies.
func each(t *testing.T, test func(*testing.T, Config)) {
	t.Helper()
	for name, config := range map[string]func(testing.TB) Config{"native": native, "embedded": embedded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, config(t))
		})
	}
}
