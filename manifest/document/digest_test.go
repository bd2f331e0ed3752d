package document

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// create-env and bootstrap skip a deploy if the digest is the same, so a new version of a
// library must not change it. The file sha512 has the digests of the texts that
// gopkg.in/yaml.v2 v2.4.0 writes, which create-env uses; therefore no flag updates it.
// The folder unordered has keys that yaml.v2 writes in a random order, and bootstrap does
// not.
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

// create-env's own code computes these digests for these texts.
func TestDigestIsThatOfCreateEnv(t *testing.T) {
	t.Parallel()
	digest := func(text string) string {
		d := parse("m.yml", []byte(text))
		got, err := d.root.digest()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	good, err := os.ReadFile("../testdata/good.yml")
	if err != nil {
		t.Fatal(err)
	}
	merged, err := os.ReadFile("../testdata/problems/warnings.yml")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		string(good):   "2b822ca574a0465d547a8f78872b034e37c9dc14e6ce7b55441361e741ec42ada84d8fc9ffeb180fc11bffe2cfe98571b3273fd6fc56b08067e9ed4e1fc23189",
		string(merged): "73ae05f78f634b8fa40b763362a6e2e452e3bcbb8f19513fca67287970f403a81b2d6d25bcb9b1f7195fb9b1357ae5a250e758412282241cbec35452534b3b98",
		"variables: []\na10: {b: 2001-01-01}\na9: [yes, 0755, ~, 1.0]\n": "8bac22bee1ae8270a75e48c6e26e6b1548b1a888e41107f3b24dd5aeeb557332a3e8a4e141b27ed3f0a4eee96df5b5b29650d5257fb3f8f3bb533aa3eac815ca",
	} {
		if got := digest(text); got != want {
			t.Errorf("got %s, want %s for:\n%s", got, want, text)
		}
	}
	if a, b := digest("a: 1\nb: 'x' # note\n"), digest("{b: x, a: 0x1}"); a != b {
		t.Error("comments, order and quotes must not count")
	}
	if a, b := digest("a: 1\n"), digest("a: 2\n"); a == b {
		t.Error("values must count")
	}
}
