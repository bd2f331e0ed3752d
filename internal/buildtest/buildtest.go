// Package buildtest builds programs for tests with the flags of make build, so that
// what go has compiled for one serves the others.
package buildtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build runs go build with the flags of make build, then with arguments, in dir. The
// flags are those of the Makefile in the nearest folder above the current one.
func Build(ctx context.Context, dir string, arguments ...string) error {
	flags, err := flags()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), arguments...)...)
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, said)
	}
	return nil
}

func flags() ([]string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		makefile, err := os.ReadFile(filepath.Join(dir, "Makefile"))
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(makefile)) {
			if flags, ok := strings.CutPrefix(line, "FLAGS = "); ok {
				return strings.Fields(flags), nil
			}
		}
		return nil, fmt.Errorf("%s has no line FLAGS = …", filepath.Join(dir, "Makefile"))
	}
}
