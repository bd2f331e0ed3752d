//go:build unix

package document

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe is read if a program writes to it; otherwise the wait ends.
func TestPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	_, err := readPipe(t.Context(), "the cloud provider", path, path, time.Millisecond, time.Hour)
	if err == nil || !strings.Contains(err.Error(), "cannot read the cloud provider "+path+": it is a pipe that no program has opened for writing within 1ms") {
		t.Error(err)
	}
	write, err := os.OpenFile(path, os.O_RDWR, 0o600) // waits for nobody; the reader above ends with it
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	_, err = readPipe(t.Context(), "the manifest", path, path, time.Hour, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "it is a pipe that did not end within 1ms") {
		t.Error(err)
	}
}
