package deployer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2/maybe"
)

// appliedDir holds what the last deploy that worked has applied, 0700.
func (r *run) appliedDir() string { return filepath.Join(r.dir, "applied", "current") }

// keepApplied keeps what this deploy has applied, for the next plan's diff.
func (r *run) keepApplied() error {
	if err := os.MkdirAll(r.appliedDir(), 0o700); err != nil {
		return fmt.Errorf("cannot keep what was applied: %w", err)
	}
	if err := maybe.WriteFile(filepath.Join(r.appliedDir(), "sketch.yml"), r.manifest.Sketch, 0o600); err != nil {
		return fmt.Errorf("cannot keep what was applied: %w", err)
	}
	return nil
}

// keptSketch is the manifest applied last, without its secrets; nil where
// this machine does not have it.
func (r *run) keptSketch() ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(r.appliedDir(), "sketch.yml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
