package artifact

import (
	"errors"
	"strings"
	"testing"
)

func TestParseDigest(t *testing.T) {
	t.Parallel()
	const hello1 = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"
	const hello256 = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	zeros1, zeros256 := strings.Repeat("0", 40), "sha256:"+strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		text      string
		unread    string // in the error of ParseDigest
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
		"unknown alone":              {text: "md5:abc", unread: "no algorithm in it is known"},
		"empty":                      {text: "", unread: "no algorithm"},
		"twice":                      {text: hello1 + ";" + zeros1, unread: "twice"},
		"signs":                      {text: "sha1:../../x", unread: "letters and digits only"},
		"short":                      {text: "abc", unread: "40 digits"},
		"no hex":                     {text: strings.Repeat("x", 40), unread: "hexadecimal"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := ParseDigest(c.text)
			if c.unread != "" {
				mustFail(t, err, c.unread)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			err = d.Verify(strings.NewReader("hello"))
			var de *DigestError
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

func TestZeroDigestVerifiesNothing(t *testing.T) {
	t.Parallel()
	mustFail(t, Digest{}.Verify(strings.NewReader("")), "no digest")
}

func TestSum(t *testing.T) {
	t.Parallel()
	data := strings.Repeat("x", 3*bufferSize+1)
	a, b, err := Sum(strings.NewReader(data))
	if err != nil || a != sha1Of([]byte(data)) || "sha256:"+b != sha256Of([]byte(data)) {
		t.Errorf("Sum: %s %s %v", a, b, err)
	}
}
