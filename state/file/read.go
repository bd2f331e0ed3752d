package file

import (
	"context"
	"fmt"
	"io"
	"os"

	"bootstrap/internal/guard"
	"bootstrap/state"
)

// maxSize limits the size of a state file: a real one is below 1 MiB.
const maxSize = 64 << 20

// readWhole reads a state file. It refuses folders, devices and files that are
// too large.
func readWhole(path string) ([]byte, error) {
	if err := isFile(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f, path)
}

func readLimited(f io.Reader, path string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(data) > maxSize {
		return nil, fmt.Errorf("%s is larger than %d MiB, the limit for a state file", path, maxSize>>20)
	}
	return data, err
}

// isFile returns an error unless there is a regular file at path.
func isFile(path string) error {
	info, err := os.Stat(path) // opening a pipe would wait for its writer
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder; name a file in it", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}

// ReadAny reads a state from a file of any tool: the state file of create-env,
// bosh-init or this program, or a bosh-deployments.yml. The ids may be missing. The path
// may be a pipe: ReadAny waits for its writer until ctx ends.
func ReadAny(ctx context.Context, path string) (state.State, error) {
	var data []byte
	done := guard.Start(ctx, func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		data, err = readLimited(f, path)
		return err
	})
	select {
	case err := <-done:
		if err != nil {
			return state.State{}, fmt.Errorf("cannot read the state to import: %w", err)
		}
	case <-ctx.Done(): // The read cannot be ended.
		return state.State{}, context.Cause(ctx)
	}
	st, err := state.DecodeAny(data)
	if err != nil {
		return st, fmt.Errorf("cannot import %s: %w", path, err)
	}
	return st, nil
}
