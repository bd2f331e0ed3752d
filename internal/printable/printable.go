// Package printable makes text of others safe to show.
package printable

import (
	"regexp"
	"strings"
	"unicode"
)

var controlSequence = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

// Text removes what would control a terminal. Line breaks and tabs remain, and so
// do characters that only turn text round: the program's writer shows them
// escaped, so that a person sees that they are there.
func Text(text string) string {
	text = controlSequence.ReplaceAllString(strings.ToValidUTF8(text, "\ufffd"), "")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) || unicode.In(r, unicode.Zs, unicode.Cf) {
			return r
		}
		return -1
	}, text)
}
