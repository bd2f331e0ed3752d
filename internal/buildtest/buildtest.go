// Package buildtest builds programs for tests as make build does, so that what go has
// compiled for one serves the others.
package buildtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Build runs go build with the flags of make build, then with arguments, in dir.
func Build(ctx context.Context, dir string, arguments ...string) error {
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath"}, arguments...)...) // #nosec G204 -- go, for a test
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, said)
	}
	return nil
}
