//go:build linux || darwin

package local

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also the agent: tests that kill one run this binary with
// AGENT_DIR in its environment. With AGENT_FULL_DISK it cannot write files of
// more than a MiB.
func TestMain(m *testing.M) {
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
