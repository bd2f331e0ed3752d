//go:build unix

package packaging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childEnv makes the test binary run one script and end, so that a test can kill the
// process that runs the script.
const childEnv = "PACKAGING_TEST_SOURCE"

func TestMain(m *testing.M) {
	if source := os.Getenv(childEnv); source != "" {
		err := Run(context.Background(), Script{Name: "p", Source: source, Target: filepath.Join(source, "..", "target"), Temp: filepath.Join(source, "..")})
		fmt.Println(err)
		os.Exit(3)
	}
	goleak.VerifyTestMain(m)
}

// newScript creates a package with this packaging script.
func newScript(t *testing.T, text string) Script {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "with space")
	s := Script{
		Name: "pack", Version: "v1",
		Source: filepath.Join(dir, "compile", "source"), Target: filepath.Join(dir, "packages", "pack"),
		Packages: filepath.Join(dir, "packages"), Log: filepath.Join(dir, "log", "pack.log"), Temp: dir,
	}
	if err := os.MkdirAll(s.Source, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Source, "packaging"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEnvironment(t *testing.T) {
	t.Setenv("BOSH_SECRET_OF_PARENT", "x")
	t.Setenv("GEM_HOME", "/nowhere")
	s := newScript(t, `set -e
mkdir ../src
env > "$BOSH_INSTALL_TARGET/env"
touch "$HOME/h" "$TMPDIR/t"
pwd > "$BOSH_INSTALL_TARGET/pwd"
if read -r line; then exit 9; fi`)
	s.Env = []string{"https_proxy=http://proxy", "LANG=C", "BOSH_PACKAGE_NAME=wrong"}
	if err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(read(t, filepath.Join(s.Target, "env"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[name] = value
	}
	want := map[string]string{
		"PATH": DefaultPath(), "LANG": "C", "https_proxy": "http://proxy",
		"BOSH_COMPILE_TARGET": s.Source, "BOSH_INSTALL_TARGET": s.Target, "BOSH_PACKAGES_DIR": s.Packages,
		"BOSH_PACKAGE_NAME": "pack", "BOSH_PACKAGE_VERSION": "v1",
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	for name := range got {
		known := []string{"HOME", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_", "__CF_USER_TEXT_ENCODING"}
		if _, ok := want[name]; !ok && !slices.Contains(known, name) {
			t.Errorf("the script sees %s", name)
		}
	}
	if home := got["HOME"]; !strings.HasPrefix(home, s.Temp) {
		t.Errorf("HOME is %s", home)
	}
	if _, err := os.Stat(got["HOME"]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("HOME was left: %v", err)
	}
	if wd := strings.TrimSpace(read(t, filepath.Join(s.Target, "pwd"))); wd != s.Source {
		t.Errorf("working directory %s, want %s", wd, s.Source)
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	s := newScript(t, `for i in $(seq 1 100); do echo "line $i"; done
printf 'progress 1\rprogress 2\n'
printf 'red \033[31mtext\033[0m \377\n' >&2
set +x
exit 7`)
	if err := os.MkdirAll(filepath.Dir(s.Log), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Log, []byte("of an older run"), 0o644); err != nil {
		t.Fatal(err)
	}
	var failed *Error
	err := Run(t.Context(), s)
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	if failed.ExitStatus != 7 || failed.Package != "pack" || failed.Log != s.Log {
		t.Errorf("got %+v", failed)
	}
	if n := len(failed.Tail); n != tailLines {
		t.Errorf("%d lines, want %d", n, tailLines)
	}
	for _, want := range []string{"progress 2", "red text \uFFFD"} {
		if !slices.Contains(failed.Tail, want) {
			t.Errorf("%q is not in %q", want, failed.Tail)
		}
	}
	for _, want := range []string{"package 'pack'", "status 7", s.Log, "\n  | progress 2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	log := read(t, s.Log)
	for _, want := range []string{"line 1\n", "line 100\n", "+ set +x\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if strings.Contains(log, "older run") {
		t.Error("the log has the output of an older run")
	}
	if info, _ := os.Stat(s.Log); info.Mode().Perm() != 0o600 {
		t.Errorf("log has mode %v", info.Mode())
	}
}

func TestMissingScript(t *testing.T) {
	t.Parallel()
	s := newScript(t, "")
	if err := os.Remove(filepath.Join(s.Source, "packaging")); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), `it has no file "packaging"`) {
		t.Errorf("got %v", err)
	}
	s.Optional = true
	if err := Run(t.Context(), s); err != nil {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(s.Source, "packaging"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("got %v", err)
	}
}

func TestUnusable(t *testing.T) {
	t.Parallel()
	empty := newScript(t, "true")
	empty.Path = t.TempDir()
	nameless := newScript(t, "true")
	nameless.Name = ""
	blocked := newScript(t, "true")
	blocked.Target = filepath.Join(blocked.Source, "packaging")
	for want, s := range map[string]Script{
		"bash is missing": empty, "must be given": nameless, "not a directory": blocked,
	} {
		if err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestReadOnlyLeftovers(t *testing.T) {
	t.Parallel()
	s := newScript(t, `mkdir -p "$HOME/go/pkg/mod/x/y" && touch "$HOME/go/pkg/mod/x/y/f" && chmod -R a-w "$HOME/go"`)
	if err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(s.Temp, "packaging-*"))
	if len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

func TestNoLog(t *testing.T) {
	t.Parallel()
	s := newScript(t, "echo once; exit 1")
	s.Log = ""
	var failed *Error
	if err := Run(t.Context(), s); !errors.As(err, &failed) || !slices.Contains(failed.Tail, "once") {
		t.Errorf("got %v", err)
	}
}

// holder returns a script whose grandchild keeps a FIFO open. The channel up is closed
// when the grandchild runs, and gone when it has ended.
func holder(t *testing.T, after string) (s Script, up chan string, gone chan error) {
	t.Helper()
	s = newScript(t, "(echo up; exec sleep 600) > ../fifo & "+after)
	fifo := filepath.Join(s.Source, "..", "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	up, gone = make(chan string, 1), make(chan error, 1)
	go func() {
		f, err := os.Open(fifo)
		if err != nil {
			gone <- err
			return
		}
		defer f.Close()
		buf := make([]byte, 3)
		_, _ = io.ReadFull(f, buf)
		up <- string(buf)
		_, err = io.ReadAll(f)
		gone <- err
	}()
	return s, up, gone
}

func await[T any](t *testing.T, c chan T, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing happened", what)
	}
}

func TestCancelKillsTheGroup(t *testing.T) {
	t.Parallel()
	s, up, gone := holder(t, "sleep 600")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, s) }()
	await(t, up, "start")
	cause := errors.New("stopped by the test")
	cancel(cause)
	err := <-done
	var failed *Error
	if !errors.As(err, &failed) || !errors.Is(err, cause) || failed.ExitStatus != -1 {
		t.Errorf("got %v", err)
	}
	await(t, gone, "end of the grandchild")
	if err := Run(ctx, s); !errors.Is(err, cause) {
		t.Errorf("run with an ended context: %v", err)
	}
}

func TestEndKillsTheGroup(t *testing.T) {
	t.Parallel()
	s, up, gone := holder(t, "while [ ! -e ../end ]; do sleep 0.01; done")
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), s) }()
	await(t, up, "start")
	if err := os.WriteFile(filepath.Join(s.Source, "..", "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	await(t, gone, "end of the grandchild")
}

func TestDeathOfTheCallerKillsTheGroup(t *testing.T) {
	t.Parallel()
	s, up, gone := holder(t, "sleep 600")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), childEnv+"="+s.Source)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, up, "start")
	_ = child.Process.Kill()
	_ = child.Wait()
	await(t, gone, "end of the grandchild")
}

func TestSuicideOfTheScript(t *testing.T) {
	t.Parallel()
	s := newScript(t, "kill -s TERM $$; sleep 1")
	var failed *Error
	if err := Run(t.Context(), s); !errors.As(err, &failed) || failed.ExitStatus != -1 || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("got %v", err)
	}
	// The guard is killed with the group, and nothing may wait for it.
	s = newScript(t, "kill -s KILL 0; sleep 1")
	if err := Run(t.Context(), s); !errors.As(err, &failed) || failed.ExitStatus != -1 {
		t.Errorf("got %v", err)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 3*tailBytes)
	tests := map[string]struct {
		text string
		want []string
	}{
		"empty":       {"", nil},
		"blank":       {"\n \r\n\n", nil},
		"no line end": {"a\nb", []string{"a", "b"}},
		"crlf":        {"a\r\nb\r\n", []string{"a", "b"}},
		"one long":    {long, []string{strings.Repeat("ä", tailWidth) + "…"}},
		"last two":    {"1\n2\n3\n", []string{"2", "3"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := os.Create(filepath.Join(t.TempDir(), "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteString(test.text); err != nil {
				t.Fatal(err)
			}
			got, err := tail(f, 2)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func BenchmarkRun(b *testing.B) {
	dir := b.TempDir()
	s := Script{Name: "p", Source: dir, Target: filepath.Join(dir, "target"), Temp: dir}
	if err := os.WriteFile(filepath.Join(dir, "packaging"), []byte("true"), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := Run(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
}
