package document

import (
	"bytes"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// loneTags finds the tag "!", which turns any scalar into text. yaml.v3 does not
// report it.
type loneTags struct {
	none  bool // the data contains no "!", so it has no tags
	data  []byte
	lines []int // where each line begins; nil until it is needed
}

// on reports whether a scalar without another tag has the tag "!".
func (t *loneTags) on(n *yaml.Node) bool {
	if t.none {
		return false
	}
	text := t.from(n.Line, n.Column)
	below := false
	if len(text) > 0 && text[0] == '&' {
		text, below = behindAnchor(text)
	}
	if len(text) == 0 || text[0] != '!' {
		return false
	}
	if !below || n.Value != "" {
		return true
	}
	// A tag on a line below an anchor may belong to the next key.
	text = text[max(bytes.IndexAny(text, " \t\r\n"), 1):]
	text = bytes.TrimLeft(text, " \t")
	return len(text) == 0 || bytes.IndexByte([]byte("\r\n#,]}"), text[0]) >= 0
}

// behindAnchor returns the text after an anchor, comments and space, and whether
// it is on a line below.
func behindAnchor(text []byte) (rest []byte, below bool) {
	end := bytes.IndexAny(text, " \t\r\n")
	if end < 0 {
		return nil, false
	}
	rest = text[end:]
	for len(rest) > 0 {
		switch rest[0] {
		case ' ', '\t':
			rest = rest[1:]
		case '\r', '\n':
			rest, below = rest[1:], true
		case '#':
			end := bytes.IndexAny(rest, "\r\n")
			if end < 0 {
				return nil, false
			}
			rest = rest[end:]
		default:
			return rest, below
		}
	}
	return nil, below
}

// from returns the text that begins at a line and column of yaml.v3, which
// count from 1.
func (t *loneTags) from(line, column int) []byte {
	if t.lines == nil {
		t.split()
	}
	if line < 1 || line > len(t.lines) {
		return nil
	}
	text := t.data[t.lines[line-1]:]
	for ; column > 1 && len(text) > 0; column-- {
		_, size := utf8.DecodeRune(text)
		text = text[size:]
	}
	return text
}

// split finds the lines, which end at any of the line breaks of YAML 1.1.
func (t *loneTags) split() {
	start := len(t.data) - len(bytes.TrimPrefix(t.data, []byte("\ufeff")))
	t.lines = []int{start}
	for i := start; i < len(t.data); {
		r, size := utf8.DecodeRune(t.data[i:])
		i += size
		switch r {
		case '\r':
			if i < len(t.data) && t.data[i] == '\n' {
				i++
			}
		case '\n', '\u0085', '\u2028', '\u2029':
		default:
			continue
		}
		t.lines = append(t.lines, i)
	}
}
