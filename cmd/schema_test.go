package cmd

import (
	"testing"

	"gotest.tools/v3/golden"
)

// The committed schema is what the command prints.
func TestSchema(t *testing.T) {
	code, out, errs := run(t, "schema")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	golden.Assert(t, out, "../../docs/manifest.schema.json")
	if code, _, errs := run(t, "schema", "manifest.yml"); code != exitUsage {
		t.Errorf("with an argument: exit code %d, %s", code, errs)
	}
}
