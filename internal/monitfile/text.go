package monitfile

import (
	"strconv"
	"strings"
)

// run returns how many bytes at the beginning of s are of the class.
func run(s string, class func(byte) bool) int {
	for i := range len(s) {
		if !class(s[i]) {
			return i
		}
	}
	return len(s)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// isWide reports whether c only separates tokens.
func isWide(c byte) bool {
	return isSpace(c) || c == ';' || c == ',' || c == '(' || c == ')'
}

// isStr reports whether c can be in a word.
func isStr(c byte) bool {
	if c <= '!' {
		return false
	}
	switch c {
	case '@', ':', '{', '}', '"', '\'', ';', '(', ')', ',', '%':
		return false
	}
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlnum(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isReal(s string) bool {
	n := run(s, isDigit)
	return n > 0 && n+1 < len(s) && s[n] == '.' && run(s[n+1:], isDigit) == len(s)-n-1
}

// lowered returns s with the letters A to Z in lower case; monit knows no others.
func lowered(s string) string {
	upper := func(c byte) bool { return c >= 'A' && c <= 'Z' }
	if run(s, func(c byte) bool { return !upper(c) }) == len(s) {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if upper(c) {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && lowered(s[:len(prefix)]) == prefix
}

// unescape replaces the escapes of a quoted text as monit does.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		switch next := s[i+1]; {
		case next == 'n':
			b.WriteByte('\n')
			i++
		case next == 't':
			b.WriteByte('\t')
			i++
		case next == 'r':
			b.WriteByte('\r')
			i++
		case next == ' ' || next == '\\':
			b.WriteByte(next)
			i++
		case next == '0' && i+4 < len(s) && s[i+2] == 'x':
			n, err := strconv.ParseUint(s[i+3:i+5], 16, 8)
			if err != nil || n == 0 {
				b.WriteByte('\\') // only a test of a port can send a zero byte
				continue
			}
			b.WriteByte(byte(n))
			i += 4
		default:
			b.WriteByte('\\')
		}
	}
	return b.String()
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return strings.TrimSpace(s)
}
