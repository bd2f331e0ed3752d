package document

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	yaml2 "go.yaml.in/yaml/v2"
)

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// explainSyntax explains an error of yaml.v3 about a file, with its place. yaml.v3 names
// a line, sometimes the one before the mistake, and no column. If yaml.v2 names a line
// closer to the mistake, that one is used. The text quotes nothing from the file.
func explainSyntax(data []byte, err error) (line, column int, why string) {
	line, text := splitError(err)
	if strings.Contains(text, "control characters") || strings.Contains(text, "UTF-8") {
		line, column = unreadable(data)
		return line, column, plainWords(text, "")
	}
	var ignored any
	if err2 := yaml2.Unmarshal(data, &ignored); err2 != nil {
		line2, text2 := splitError(err2)
		if text2 == text && !strings.Contains(text, "could not find expected ':'") &&
			!strings.Contains(text, "unexpected end of stream") {
			line = line2
		}
	}
	// In errors of the grammar, unlike in those of single characters, lines count
	// from 0.
	if grammarError(text) {
		line++
	}
	lines := strings.Split(string(data), "\n")
	line = min(max(line, 1), len(lines))
	if strings.HasPrefix(text, "unknown anchor") {
		line = anchorLine(lines, text)
	}
	for line > 1 && strings.TrimSpace(lines[line-1]) == "" {
		line--
	}
	content := lines[line-1]
	column = len(content) - len(strings.TrimLeft(content, " "))
	why = plainWords(text, content)
	if strings.Contains(text, "cannot start any token") || strings.Contains(text, "tab character") {
		column = max(column, strings.IndexAny(content, "\t@`%"))
	}
	return line, len([]rune(content[:column])) + 1, why
}

// unreadable returns the position of the first character that is not valid in a
// text in UTF-8.
func unreadable(data []byte) (line, column int) {
	line, column = 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1, unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r):
			return line, column
		case r == '\n':
			line, column = line+1, 1
		default:
			column++
		}
		data = data[size:]
	}
	return 1, 1
}

// splitError splits an error of a YAML library into its line, or 0, and text.
func splitError(err error) (line int, text string) {
	match := yamlLine.FindStringSubmatch(err.Error())
	if match == nil {
		return 0, err.Error()
	}
	line, _ = strconv.Atoi(match[1])
	return line, match[2]
}

// grammarError reports whether an error is from the library's parser, and not
// from its scanner.
func grammarError(text string) bool {
	switch text {
	case "did not find expected comment or line break", "did not find expected whitespace",
		"did not find expected whitespace or line break", "did not find expected digit or hexadecimal digit",
		"did not find expected hexdecimal number", "did not find expected alphabetic or numeric character",
		"did not find expected tag URI", "did not find expected '!'":
		return false
	}
	return strings.HasPrefix(text, "did not find expected")
}

// anchorLine returns the first line with the alias of the message.
func anchorLine(lines []string, text string) int {
	name := strings.TrimSuffix(strings.TrimPrefix(text, "unknown anchor '"), "' referenced")
	for i, line := range lines {
		if strings.Contains(line, "*"+name) {
			return i + 1
		}
	}
	return 1
}

// questioned matches a value in a flow list or map that ends with a question mark
// without quotes, as paths of operations do.
var questioned = regexp.MustCompile(`[[{,:] *[^\s"',:{}[\]][^"',{}[\]]*\? *([,}\]]|$)`)

// plainWords rewords an error of a YAML library. It quotes nothing from the file, because
// that may be secret.
func plainWords(text, line string) string {
	switch {
	case strings.Contains(text, "mapping values are not allowed"):
		return `there is a ":" where no key can be; check the indentation of this line and the one above, and put text that contains ": " in quotes`
	case strings.Contains(text, "tab character"), strings.Contains(text, "cannot start any token") && strings.Contains(line, "\t"):
		return "a tab is used for indentation; use spaces"
	case strings.Contains(text, "cannot start any token"):
		return "a value begins with a special character of YAML (such as @, ` or %); put the value in quotes"
	case strings.Contains(text, "could not find expected ':'"):
		return `this line is neither "key: value" nor "- item", or the space after the ":" is missing`
	case strings.Contains(text, "unexpected end of stream"):
		return "the file ends inside a value in quotes; the closing quote is missing"
	case strings.Contains(text, "',' or ") && questioned.MatchString(line):
		return `a value between brackets ends with "?", which begins a key in YAML; put the value in quotes, as in {path: "/a/b?", value: 1}`
	case strings.Contains(text, "',' or ']'"):
		return `a list that begins with "[" is not closed before this line; "]" or "," is missing`
	case strings.Contains(text, "',' or '}'"):
		return `a map that begins with "{" is not closed before this line; "}" or "," is missing`
	case strings.Contains(text, "did not find expected key"):
		return "this line does not match the indentation of the map around it, or there is text after the end of a value"
	case strings.Contains(text, "did not find expected '-' indicator"):
		return `this line does not match the list around it: expected an item that begins with "- " in the same column`
	case strings.HasPrefix(text, "unknown anchor"):
		return "a value that begins with * is an alias, and its anchor (&name) is not defined above it; if it is text, put it in quotes"
	case strings.Contains(text, "unknown escape character"):
		return `a backslash in double quotes must be written twice (\\), or the value put in single quotes`
	case strings.Contains(text, "did not find expected node content"):
		return `a value is missing or wrong after "[", "{", "," or ":"; is a list or a map not closed?`
	case strings.Contains(text, "exceeded max depth"):
		return "its lists and maps are nested too deeply"
	case strings.Contains(text, "control characters"):
		return "the file contains control characters; is it really a text file in UTF-8?"
	case strings.Contains(text, "UTF-"):
		return "the file is not text in UTF-8 (" + text + ")"
	}
	return text
}
