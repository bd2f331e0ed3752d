package cmd

import (
	"os"
	"testing"
)

// TestMain prevents child processes of this binary, such as the embedded Ruby, from
// running the tests. TestPanic starts it with a command of its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "plugin" {
		os.Exit(1)
	}
	if len(os.Args) > 1 && os.Args[1] == "break" {
		os.Exit(broken(os.Args[1:]))
	}
	os.Exit(m.Run())
}
