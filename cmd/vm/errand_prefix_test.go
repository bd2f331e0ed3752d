package vm

import (
	"io"
	"strings"
	"testing"

	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
)

// Secrets in the output of an errand on several instances are removed wherever its long lines
// are split and however they arrive.
func TestLongLinesOfSeveral(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery-staple"
	var redactor ui.Redactor
	redactor.Add(secret)
	for _, end := range []string{"", "\n"} {
		for _, before := range []int{10, 64<<10 - 1, 1<<20 - 10, 1<<20 - 1, 1 << 20} {
			for _, cut := range []int{0, 5, len(secret)} {
				var out strings.Builder
				w := prefixed(func(to io.Writer) *ui.Writer { return redactor.Writer(to).Long() }, instances.NewPrefix(&out).Of("web/0"))
				for _, part := range []string{strings.Repeat("x", before) + secret[:cut], secret[cut:], strings.Repeat("y", 100) + end} {
					if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
						t.Fatal(n, err)
					}
				}
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				got := out.String()
				for i := range len(secret) - 8 {
					if strings.Contains(got, secret[i:i+8]) {
						t.Errorf("%d bytes before, split after %d: the output has %s", before, cut, secret[i:i+8])
					}
				}
				if !strings.HasPrefix(got, "web/0 | "+strings.Repeat("x", min(before, 1<<20))) || !strings.HasSuffix(got, "\n") || strings.Count(got, "\n") != 1 {
					t.Errorf("%d bytes before, split after %d: got %.40q with %d lines", before, cut, got, strings.Count(got, "\n"))
				}
			}
		}
	}
}
