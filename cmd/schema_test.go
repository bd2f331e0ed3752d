package cmd

import (
	"os"
	"testing"
)

// The committed schema is the one that is printed.
func TestSchema(t *testing.T) {
	code, out, errs := run(t, "schema")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	const file = "../docs/manifest.schema.json"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out != string(want) {
		t.Errorf("%s is not what bootstrap schema prints; UPDATE_GOLDEN=1 go test ./cmd writes it anew", file)
	}
	if code, _, errs := run(t, "schema", "manifest.yml"); code != exitUsage {
		t.Errorf("with an argument: exit code %d, %s", code, errs)
	}
}
