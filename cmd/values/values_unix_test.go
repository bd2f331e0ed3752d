//go:build unix

package values

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe is read to its end, but only for a limited time.
func TestPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadFile(path, 10, time.Minute); err != nil || len(data) > 0 {
		t.Errorf("a pipe that nobody writes to: %q, %v", data, err)
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := ReadFile(path, 10, time.Millisecond); err == nil || !strings.Contains(err.Error(), "a pipe that did not end within 1ms") {
		t.Errorf("a pipe that is never written to: %v", err)
	}
	if _, err := writer.WriteString("more than ten letters"); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path, 10, time.Minute); err == nil || !strings.Contains(err.Error(), "larger than the limit") {
		t.Errorf("a pipe with too much: %v", err)
	}
}
