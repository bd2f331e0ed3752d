// Package printable makes text of others safe to show.
package printable

import (
	"regexp"
	"strings"
	"unicode"
)

var controlSequence = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

// Text removes what would control a terminal. Line breaks and tabs remain.
func Text(text string) string {
	text = controlSequence.ReplaceAllString(strings.ToValidUTF8(text, "\ufffd"), "")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) {
			return r
		}
		return -1
	}, text)
}
