package about

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// column matches the beginning of a line of help up to its second column.
var column = regexp.MustCompile(`^ +\S.*?  +`)

// fit breaks lines of a help text that are wider than the terminal: paragraphs, and the
// second columns of flags and commands. Examples are not broken, so that they can be
// copied.
func fit(text string, width int) string {
	var out, paragraph []string
	flush := func() {
		long := false
		for _, line := range paragraph {
			long = long || utf8.RuneCountInString(line) > width
		}
		if long {
			paragraph = broken("", strings.Join(paragraph, " "), width)
		}
		out, paragraph = append(out, paragraph...), nil
	}
	for _, line := range strings.Split(text, "\n") {
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		flush()
		first := column.FindString(line)
		switch {
		case utf8.RuneCountInString(line) <= width || first == "":
			out = append(out, line)
		case len(first) > width/2: // the second column begins on the next line
			out = append(out, strings.TrimRight(first, " "))
			out = append(out, broken(strings.Repeat(" ", 10), line[len(first):], width)...)
		default:
			out = append(out, broken(first, line[len(first):], width)...)
		}
	}
	flush()
	return strings.Join(out, "\n")
}

// broken breaks a text into lines. The first one begins with head, and the others are
// indented by its width.
func broken(head, text string, width int) (lines []string) {
	line, indent := head, strings.Repeat(" ", len(head))
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines, line = append(lines, line), indent+word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
