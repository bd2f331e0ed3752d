package cmd

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/exit"
	"bootstrap/internal/guard"
)

// panics are the ways in which a part of a command can panic.
func panics() map[string]func(ctx context.Context, broken func()) {
	return map[string]func(context.Context, func()){
		"the command": func(_ context.Context, broken func()) { broken() },
		"a goroutine": guard.Go,
		"a timer":     func(ctx context.Context, broken func()) { guard.AfterFunc(ctx, time.Millisecond, broken) },
		"what waits for an end": func(ctx context.Context, broken func()) {
			short, cancel := context.WithCancel(ctx)
			guard.AfterDone(short, broken)
			cancel()
		},
		"a dialer": func(ctx context.Context, broken func()) {
			dial := func(context.Context, string, string) (net.Conn, error) { broken(); return nil, nil }
			client := http.Client{Transport: &http.Transport{DialContext: guard.Dial(dial)}}
			if req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:1", nil); err == nil {
				_, _ = client.Do(req)
			}
		},
	}
}

// broken runs the program with an additional command, which panics.
func broken(args []string) int {
	c := newConsole(args, os.Stdin, os.Stdout, os.Stderr, os.Environ())
	root := newRoot(c)
	var value string
	cmd := &cobra.Command{Use: "break", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		c.Start()
		c.Redactor.Add(value)
		panics()[args[0]](cmd.Context(), func() { panic("it has the password " + value) })
		<-cmd.Context().Done()
		return cmd.Context().Err()
	}}
	cmd.Flags().StringVarP(&value, "var", "v", "", "")
	root.AddCommand(cmd)
	return c.Execute(root)
}

// After a panic anywhere, the process ends as after any failure: with a sentence, a
// report that only the owner can read, and an exit code of its own.
func TestPanic(t *testing.T) {
	for name := range panics() {
		for where, home := range map[string]bool{"with a home": true, "without": false} {
			t.Run(name+" "+where, func(t *testing.T) {
				dir := t.TempDir()
				cmd := exec.Command(os.Args[0], "break", name, "-v", "s3cret-pass")
				cmd.Env = []string{"TMPDIR=" + dir, "HOME=" + filepath.Join(dir, "none")}
				if home {
					cmd.Env[1] = "HOME=" + dir
					if err := os.Mkdir(filepath.Join(dir, ".bosh"), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				out, _ := cmd.CombinedOutput()
				text := string(out)
				if code := cmd.ProcessState.ExitCode(); code != exit.Failed || strings.Contains(text, "s3cret-pass") || strings.Contains(text, "\ngoroutine ") {
					t.Fatalf("exit code %d, %s", code, text)
				}
				found := regexp.MustCompile(`a defect of bootstrap itself: it has the password .*; please report it with the file (\S+),`).FindStringSubmatch(text)
				if found == nil || !strings.HasPrefix(found[1], dir) {
					t.Fatalf("it says %s", text)
				}
				report, err := os.ReadFile(found[1])
				if err != nil {
					t.Fatal(err)
				}
				if text := string(report); strings.Contains(text, "s3cret-pass") || !strings.Contains(text, "cmd.broken") {
					t.Errorf("the report is %s", text)
				}
				if info, err := os.Stat(found[1]); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("mode %v, %v", info.Mode(), err)
				}
			})
		}
	}
}
