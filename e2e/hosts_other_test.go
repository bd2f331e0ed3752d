//go:build unix && !linux

package e2e

import (
	"os/exec"

	"github.com/rogpeppe/go-internal/testscript"
)

type machinesKey struct{}

var machinesOf = machinesKey{}

type machines struct{ first map[string]*exec.Cmd }

func canHost() bool { return false }

func host(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("hosts need Linux") }
