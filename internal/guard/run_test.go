package guard_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bootstrap/internal/guard"
)

// A panic of any part ends its run, but not the process or other runs.
func TestRun(t *testing.T) {
	broken := func() { panic("a defect") }
	for name, start := range map[string]func(context.Context){
		"goroutine": func(ctx context.Context) { guard.Go(ctx, broken) },
		"group":     func(ctx context.Context) { go guard.Part(ctx, broken)() },
		"timer":     func(ctx context.Context) { guard.AfterFunc(ctx, time.Hour, broken) },
		"end": func(ctx context.Context) {
			short, cancel := context.WithCancel(ctx)
			guard.AfterDone(short, broken)
			cancel()
		},
		"function with an error": func(ctx context.Context) {
			ended := guard.Start(ctx, func() error { broken(); return nil })
			var caught *guard.Panic
			if err := <-ended; !errors.As(err, &caught) {
				t.Errorf("the error is %v", err)
			}
			<-ended // closed
		},
		"dialer": func(ctx context.Context) {
			dial := guard.Dial(func(context.Context, string, string) (net.Conn, error) { broken(); return nil, nil })
			if _, err := dial(ctx, "tcp", "127.0.0.1:1"); err == nil {
				t.Error("no error")
			}
		},
		"beyond the end": func(ctx context.Context) {
			guard.Go(context.WithoutCancel(ctx), broken)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, run := guard.Begin(t.Context())
				if run.Panic() != nil {
					t.Fatal("it has ended before")
				}
				start(ctx)
				<-ctx.Done()
				var cause *guard.Panic
				if !errors.As(context.Cause(ctx), &cause) || run.Panic() != cause || cause.Value != "a defect" {
					t.Errorf("the cause is %v, and the panic %v", context.Cause(ctx), run.Panic())
				}
				if stack := string(cause.Stack); !strings.Contains(stack, "guard_test.TestRun") {
					t.Errorf("the stack is %s", stack)
				}
			})
		})
	}
}

// Without a run, a panic ends the process as usual.
func TestWithoutRun(t *testing.T) {
	if os.Getenv("WITHOUT_RUN") != "" {
		guard.Go(context.Background(), func() { panic("a defect") })
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestWithoutRun$")
	cmd.Env = append(os.Environ(), "WITHOUT_RUN=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "a defect") {
		t.Errorf("%v: %s", err, out)
	}
}
