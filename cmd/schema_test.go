package cmd

import (
	"testing"

	"gotest.tools/v3/golden"

	"bootstrap/cmd/exit"
)

// The committed schemas equal the output of the command.
func TestSchema(t *testing.T) {
	for page, args := range map[string][]string{"manifest": {"schema"}, "fleet": {"schema", "fleet"}, "environment": {"schema", "environment"}} {
		code, out, errs := run(t, args...)
		if code != 0 || errs != "" {
			t.Fatalf("exit code %d, %s", code, errs)
		}
		golden.Assert(t, out, "../../docs/"+page+".schema.json")
	}
	for _, args := range [][]string{{"schema", "manifest.yml"}, {"schema", "fleet", "fleet.yml"}} {
		if code, _, errs := run(t, args...); code != exit.Usage {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}
