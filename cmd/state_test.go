package cmd

import (
	"testing"

	"gotest.tools/v3/golden"
)

func TestStateHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"state":           {"state", "--help"},
		"state-show":      {"state", "show", "--help"},
		"state-backups":   {"state", "backups", "--help"},
		"state-restore":   {"state", "restore", "--help"},
		"state-import":    {"state", "import", "--help"},
		"state-leftovers": {"state", "leftovers", "--help"},
		"state-rm":        {"state", "rm", "--help"},
	} {
		code, out, errs := run(t, args...)
		if code != 0 || errs != "" {
			t.Fatalf("exit code %d, %s", code, errs)
		}
		golden.Assert(t, out, "help/"+name+".txt")
	}
}
