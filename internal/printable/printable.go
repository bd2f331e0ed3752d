// Package printable makes text of other programs safe to show.
package printable

import (
	"regexp"
	"strings"
	"unicode"
)

var controlSequence = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

// Text removes characters that control a terminal. It keeps line breaks, tabs,
// and characters that only change the direction of text: the program's writer
// shows these escaped.
func Text(text string) string {
	text = controlSequence.ReplaceAllString(strings.ToValidUTF8(text, "\ufffd"), "")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) || unicode.In(r, unicode.Zs, unicode.Cf) {
			return r
		}
		return -1
	}, text)
}
