// Package printable makes text safe to show, and to paste into a shell.
package printable

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

var controlSequence = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

// Hidden reports whether a character has no form of its own: it controls a terminal,
// changes the direction of text, or formats it. The two joiners are parts of words.
func Hidden(c rune) bool {
	switch c {
	case '\n', '\t', '\u200c', '\u200d':
		return false
	}
	return unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Escaped shows hidden characters as \x1b or \u202e, and bytes that are not text as \xff.
func Escaped(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, Hidden) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case c == '\r' && strings.HasPrefix(text[i:], "\r\n"):
		case !Hidden(c):
			b.WriteString(text[i : i+size])
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
		i += size
	}
	return b.String()
}

// JSON escapes the hidden characters in JSON, which allows most of them in strings. Its
// meaning stays the same.
func JSON(data []byte) []byte {
	if !strings.ContainsFunc(string(data), Hidden) {
		return data
	}
	out := make([]byte, 0, len(data)+100)
	for len(data) > 0 {
		c, size := utf8.DecodeRune(data)
		switch {
		case !Hidden(c) || c == '\r': // between values
			out = append(out, data[:size]...)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
		data = data[size:]
	}
	return out
}

// Text removes characters that control a terminal. It keeps line breaks, tabs, and
// characters that only change the direction of text: Escaped makes these visible, and all
// output of this program passes through Escaped.
func Text(text string) string {
	text = controlSequence.ReplaceAllString(strings.ToValidUTF8(text, "\ufffd"), "")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) || unicode.In(r, unicode.Zs, unicode.Cf) {
			return r
		}
		return -1
	}, text)
}

// ShellWord quotes a word for a shell, if that is necessary.
func ShellWord(word string) string {
	plain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_./:=@%+,", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
