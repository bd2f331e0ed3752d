package changed

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

const (
	redacted      = "<redacted>" // what the redactor writes in place of a secret
	secretChanged = " (a secret changed)"
	mostLines     = 500 // limit for the difference of one file
)

// lines returns the difference of two texts in the unified format, without file names.
// Secrets are removed from the complete texts, because parts of a secret cannot be
// recognized. If two lines differ only in secrets, the result says so.
func lines(was, is string, redact func(string) string) string {
	text := string(diff.Diff("", []byte(marked(was, redact)), "", []byte(marked(is, redact))))
	_, text, _ = strings.Cut(text, "+++ \n")
	list := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var out []string
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && !strings.HasPrefix(list[to], "@@") {
			to++
		}
		out = append(out, hunk(list[from:to])...)
		from = to
	}
	if more := len(out) - mostLines; more > 0 {
		out = append(out[:mostLines], fmt.Sprintf("… (%d more lines)", more))
	}
	return strings.Join(out, "\n")
}

// hunk returns the lines of one difference, without the digests of secrets.
func hunk(list []string) []string {
	out := make([]string, len(list))
	for i, line := range list {
		out[i] = unmarked(line)
	}
	for i, line := range list {
		if rest, ok := strings.CutPrefix(out[i], "+"); ok && line != out[i] && slices.Contains(out, "-"+rest) {
			out[i] += secretChanged
		}
	}
	return out
}

// marked returns the text without its secrets, with a digest after each, so that lines
// with different secrets differ.
func marked(text string, redact func(string) string) string {
	parts := strings.Split(redact(text), redacted)
	if len(parts) == 1 {
		return parts[0]
	}
	var b strings.Builder
	b.WriteString(parts[0])
	rest, known := strings.CutPrefix(text, parts[0])
	for i, part := range parts[1:] {
		at := strings.Index(rest, part)
		if i == len(parts)-2 {
			at = len(rest) - len(part)
		}
		secret := text // the whole text, if the secret cannot be located
		if known = known && at >= 0; known {
			secret, rest = rest[:at], rest[at+len(part):]
		}
		sum := sha256.Sum256([]byte(secret))
		b.WriteString(redacted + "\x00" + hex.EncodeToString(sum[:8]) + "\x00" + part)
	}
	return b.String()
}

// unmarked removes the digests of secrets.
func unmarked(line string) string {
	var b strings.Builder
	for i, part := range strings.Split(line, "\x00") {
		if i%2 == 0 {
			b.WriteString(part)
		}
	}
	return b.String()
}
