package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The digest decides whether create-env skips a deploy, and whether we do: it
// must not change with a library. The file sha512 holds the digests of what
// gopkg.in/yaml.v2 v2.4.0 writes, which is what create-env uses; therefore no
// flag updates it. In the folder unordered are keys that yaml.v2 writes in a
// random order, but we do not.
func TestDigestsStay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/digest/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal("no documents", err)
	}
	files = append(files, "testdata/digest/unordered/keys.yml")
	recorded, err := os.ReadFile("testdata/digest/sha512")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := parse(file, data)
		if d.problems.failed() {
			t.Fatal(&d.problems)
		}
		digest, err := d.root.digest()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s  %s\n", digest, filepath.Base(file))
	}
	if got.String() != string(recorded) {
		t.Errorf("the digests have changed; there is\n%swant\n%s", got.String(), recorded)
	}
}
