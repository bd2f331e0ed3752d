// Package programtest writes programs for tests.
package programtest

import (
	"os"
	"syscall"
	"testing"
)

// Write writes a program that only its owner can read and start.
func Write(t testing.TB, path, text string) {
	t.Helper()
	// A process that another test starts at the same time would inherit the open file, and a
	// program that is open for writing cannot be started (ETXTBSY).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	err := os.WriteFile(path, []byte(text), 0o700) // #nosec G306 -- a program
	if err != nil {
		t.Fatal(err)
	}
}
