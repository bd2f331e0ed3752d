//go:build linux || darwin

package agent

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"bootstrap/local/bpm"
	"bootstrap/local/namespace"
)

// TestMain also runs the parts of a VM, bpm and the agent: tests that kill an agent run
// this binary with AGENT_DIR in its environment. With AGENT_FULL_DISK it cannot write
// files larger than 1 MiB.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "plugin" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		run := func() error { return namespace.Main(ctx, os.Args[3:]) }
		if os.Args[2] == "bpm" {
			os.Exit(bpm.Run(ctx, bpm.Call{Args: os.Args[3:], Root: os.Getenv("VCAP_ROOT"), Stdout: os.Stdout, Stderr: os.Stderr}))
		}
		if os.Args[2] == "agent-inside" {
			run = func() error { return Run(ctx, namespace.Guest, os.Stderr) }
		}
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv("AGENT_DIR"); dir != "" {
		if os.Getenv("AGENT_FULL_DISK") != "" {
			signal.Ignore(syscall.SIGXFSZ)
			limit := syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
				panic(err)
			}
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := Run(ctx, dir, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
