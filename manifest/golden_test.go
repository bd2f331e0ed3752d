package manifest

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/golden"

	"bootstrap/manifest/document"
)

// Each manifest in testdata/problems has a file with the errors that a user sees, or with
// the warnings if the manifest is valid.
func TestMessages(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/problems/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			m, err := Load(t.Context(), file, document.Options{})
			var problems *document.Problems
			switch {
			case err == nil:
				list := document.Problems(m.Warnings)
				problems = &list
			case !errors.As(err, &problems):
				t.Fatalf("not a list of problems: %v", err)
			}
			dir, err := filepath.Abs(filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			got := problems.Error() + "\n"
			got = strings.ReplaceAll(got, dir+"/", "")
			got = strings.ReplaceAll(got, "testdata/problems/", "")
			golden.Assert(t, got, strings.TrimSuffix(filepath.Join("problems", filepath.Base(file)), ".yml")+".golden")
			for _, secret := range []string{"sesame", "hidden", "p/a#ss"} {
				if strings.Contains(got, secret) {
					t.Errorf("the messages contain the secret %q", secret)
				}
			}
		})
	}
}
