//go:build unix

package e2e

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// screen contains everything that a terminal has shown.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	tty  *os.File
	done chan struct{} // closed when the terminal has ended
}

func (s *screen) read() {
	defer close(s.done)
	piece := make([]byte, 4096)
	for {
		n, err := s.tty.Read(piece)
		s.mu.Lock()
		s.text.Write(piece[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A user edits secrets in vim on a terminal and has typed some text when each of these
// events happens: the typed text is kept, encrypted, and no plain text remains.
func TestSecretsEdit(t *testing.T) {
	if _, err := exec.LookPath("vim"); err != nil {
		t.Skip("there is no vim")
	}
	t.Parallel()
	bin, _ := program(t)
	for name, c := range map[string]struct {
		do   func(s *screen, pid int)
		end  string // the keys that end vim after the event
		code int
		kept bool // true: encrypted beside the store; false: in the store
	}{
		"Ctrl-C":             {do: func(s *screen, _ int) { s.keys("\x03\x03") }, end: "\x1b:wq\r"},
		"Ctrl-C of a child":  {do: func(s *screen, _ int) { s.inChild("\x03") }, end: "\r\x1b:wq\r"},
		"Ctrl-\\ of a child": {do: func(s *screen, _ int) { s.inChild("\x1c\x03") }, end: "\r\x1b:wq\r"},
		"SIGINT":             {do: func(_ *screen, pid int) { _ = syscall.Kill(pid, syscall.SIGINT) }, end: "\x1b:wq\r"},
		"SIGQUIT":            {do: func(_ *screen, pid int) { _ = syscall.Kill(pid, syscall.SIGQUIT) }, end: "\x1b:wq\r"},
		"SIGTERM":            {do: func(_ *screen, pid int) { _ = syscall.Kill(pid, syscall.SIGTERM) }, code: 130, kept: true},
		"SIGABRT":            {do: func(_ *screen, pid int) { _ = syscall.Kill(pid, syscall.SIGABRT) }, code: 130, kept: true},
		"a closed terminal":  {do: func(s *screen, _ int) { s.tty.Close() }, code: 130, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEditing(t, bin)
			s, cmd := e.edit(t)
			secret := "s3cr3t-" + strconv.Itoa(cmd.Process.Pid)
			s.keys("Gotyped: " + secret) // vim opens a line below the last one, for the text
			if c.kept {
				s.keys("\x1b:w\r")
				e.until(t, s, "written", func() bool { return e.onScreen(s, "written") })
			} else {
				e.until(t, s, "typed", func() bool { return e.onScreen(s, secret) })
			}
			c.do(s, cmd.Process.Pid)
			err := waited(cmd, s, c.end)
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("it ended with %d, want %d: %v\n%s", code, c.code, err, s)
			}
			s.tty.Close()
			<-s.done
			store := "creds.yml.age"
			if c.kept {
				store = "creds.yml.edited.age"
			}
			if text := e.run(t, "secrets", "decrypt", store, "--path", "/typed"); text != secret+"\n" {
				t.Errorf("%s has %q", store, text)
			}
			if c.kept && strings.Contains(e.run(t, "secrets", "decrypt", "creds.yml.age"), "typed") {
				t.Error("the store was changed")
			}
			e.nowhere(t, secret)
		})
	}
}

// If a text cannot be kept beside the store, it is kept elsewhere.
func TestSecretsEditFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil || os.Getuid() == 0 {
		t.Skip("needs an unprivileged user, whom a folder without write permission stops")
	}
	bin, _ := program(t)
	e := newEditing(t, bin)
	if err := os.Chmod(e.dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(e.dir, 0o700) })
	cmd := e.command("secrets", "edit", "creds.yml.age")
	cmd.Env = append(cmd.Env, "EDITOR=echo 'typed: s3cr3t-typed' >>")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "your text is kept, encrypted, in "+e.temp) {
		t.Errorf("%v\n%s", err, out)
	}
}

// editing is a folder with an encrypted vars store.
type editing struct{ dir, temp, bin string }

func newEditing(t *testing.T, bin string) editing {
	t.Helper()
	e := editing{dir: t.TempDir(), temp: t.TempDir(), bin: bin}
	if err := os.WriteFile(filepath.Join(e.dir, "creds.yml"), []byte("a: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.run(t, "secrets", "init", "--vars-store", "creds.yml")
	return e
}

func (e editing) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(e.bin, "bootstrap"), args...)
	cmd.Dir = e.dir
	cmd.Env = []string{"HOME=" + e.dir, "TMPDIR=" + e.temp, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "NO_COLOR=1"}
	return cmd
}

func (e editing) run(t *testing.T, args ...string) string {
	t.Helper()
	var errs bytes.Buffer
	cmd := e.command(args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%q: %v\n%s", args, err, errs.String())
	}
	return string(out)
}

// edit opens vim on a terminal.
func (e editing) edit(t *testing.T) (*screen, *exec.Cmd) {
	t.Helper()
	cmd := e.command("secrets", "edit", "creds.yml.age")
	cmd.Env = append(cmd.Env, "EDITOR=vim -u NONE -N")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	// For a blocking file, Close would wait for the end of a read.
	fd, err := syscall.Dup(int(tty.Fd()))
	if err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty.Close()
	s := &screen{tty: os.NewFile(uintptr(fd), "terminal"), done: make(chan struct{})}
	go s.read()
	e.until(t, s, "the editor", func() bool { return e.onScreen(s, "a: b") })
	return s, cmd
}

func (s *screen) keys(keys string) { _, _ = io.WriteString(s.tty, keys) }

// inChild types a key while vim runs a program: the terminal sends the signal to both.
func (s *screen) inChild(key string) {
	s.keys("\x1b:w\r:!echo be''gun; sleep 600\r")
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.String(), "begun") && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
	}
	s.keys(key)
}

func (e editing) onScreen(s *screen, text string) bool { return strings.Contains(s.String(), text) }

func (e editing) until(t *testing.T, s *screen, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not shown in a minute: %s\n%q", what, s.String())
		}
	}
}

// waited waits for the end of a command, and kills the command if it hangs. It types keys
// repeatedly, because vim discards keys that were typed before an interrupt.
func waited(cmd *exec.Cmd, s *screen, keys string) error {
	hung := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-again.C:
			s.keys(keys)
		}
	}
}

// nowhere checks that no file contains the typed text.
func (e editing) nowhere(t *testing.T, secret string) {
	t.Helper()
	roots := []string{e.dir, e.temp}
	left, _ := filepath.Glob("/dev/shm/bootstrap-edit-*")
	for _, root := range append(roots, left...) {
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s has the plain text", path)
			}
			return nil
		})
	}
}
