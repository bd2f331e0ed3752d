package digest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const hello1 = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"
	const hello256 = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	zeros1, zeros256 := strings.Repeat("0", 40), "sha256:"+strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		text      string
		unread    string // a text in the error of Parse
		different bool
	}{
		"sha1":                       {text: hello1},
		"sha1 with its name":         {text: "sha1:" + hello1},
		"capitals":                   {text: strings.ToUpper(hello1)},
		"quoted":                     {text: `"` + hello1 + `"`},
		"sha256":                     {text: hello256},
		"both":                       {text: hello1 + ";" + hello256},
		"empty pieces":               {text: ";;" + hello1 + ";"},
		"strongest counts":           {text: zeros1 + ";" + hello256},
		"strongest counts, reversed": {text: zeros256 + ";" + hello1, different: true},
		"unknown beside":             {text: "md5:abc;" + hello1},
		"wrong":                      {text: zeros1, different: true},
		"unknown alone":              {text: "md5:abc", unread: "no digest of a supported kind"},
		"empty":                      {text: "", unread: "no digest of a supported kind"},
		"twice":                      {text: hello1 + ";" + zeros1, unread: "two digests of the kind sha1"},
		"signs":                      {text: "sha1:../../x", unread: "characters that no digest has"},
		"short":                      {text: "abc", unread: "needs 40"},
		"no hex":                     {text: strings.Repeat("x", 40), unread: "not hex digits"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Parse(c.text)
			if c.unread != "" {
				if err == nil || !strings.Contains(err.Error(), c.unread) {
					t.Errorf("got %v, want %q", err, c.unread)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			err = d.Verify(strings.NewReader("hello"))
			var de *Error
			if errors.As(err, &de) != c.different {
				t.Errorf("Verify: %v", err)
			}
			if err := d.Verify(strings.NewReader("hello!")); err == nil {
				t.Error("other contents pass")
			}
			if got := d.String(); got != strings.Trim(c.text, `"`) {
				t.Errorf("String is %q", got)
			}
		})
	}
}

func TestZeroMultiVerifiesNothing(t *testing.T) {
	t.Parallel()
	if err := (Multi{}).Verify(strings.NewReader("")); err == nil || !strings.Contains(err.Error(), "no digest") {
		t.Errorf("got %v", err)
	}
}

func TestSHA256(t *testing.T) {
	t.Parallel()
	data := strings.Repeat("x", 3<<20+1)
	got, err := SHA256(strings.NewReader(data))
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data))); err != nil || got.String() != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestParseTakesWhatCreateEnvTakes(t *testing.T) {
	t.Parallel()
	sha1, sha256, sha512 := strings.Repeat("a", 40), strings.Repeat("b", 64), strings.Repeat("c", 128)
	for text, good := range map[string]bool{
		sha1: true, "sha1:" + sha1: true, "sha256:" + sha256: true, "sha512:" + sha512: true, sha1 + ";sha256:" + sha256: true,
		";" + sha1 + ";": true, `"` + sha1 + `"`: true, "md5:abc;" + sha1: true,
		"": false, ";": false, "md5:abc": false, "sha1:": false, ":" + sha1: false, "sha1:" + sha256: false, sha256: false, sha1 + ";" + sha1: false,
		"sha1:" + sha1 + ";" + sha1: false, sha1 + " ": false, "sha256:" + sha256 + ":x": false, strings.Repeat("g", 40): false, "SHA256:" + sha256: false,
	} {
		if _, err := Parse(text); (err == nil) != good {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"ab", "AB", true},
		{"ab", "sha1:ab", true},
		{"ab;sha256:cd", "sha256:cd", true},
		{"ab", "sha256:ab", false},
		{"", "", false},
	} {
		if got := Share(c.a, c.b); got != c.want {
			t.Errorf("Share(%q, %q) is %v", c.a, c.b, got)
		}
	}
}

// FuzzParse checks that an accepted multi-digest, written by String, is parsed to the
// same multi-digest again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{strings.Repeat("0", 40), "sha256:" + strings.Repeat("a", 64) + ";md5:1", ";;", `"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(d.String())
		if err != nil || again.String() != d.String() || again.Strongest() != d.Strongest() {
			t.Fatalf("%q is %q: %v", text, d, err)
		}
	})
}
