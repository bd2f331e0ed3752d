package monit

import (
	"fmt"
	"strings"
)

// A token is a word, a quoted string or an operator of a control file.
type token struct {
	text       string // the text without quotes
	quote      byte   // '"', '\'' or 0
	line       int
	start, end int  // line in the file
	first      bool // it is the first token of its line
}

// is reports whether t is one of the words in any case; a quoted string is
// never a keyword.
func (t token) is(words ...string) bool {
	if t.quote != 0 {
		return false
	}
	for _, w := range words {
		if strings.EqualFold(t.text, w) {
			return true
		}
	}
	return false
}

// lex splits text into tokens. An unclosed quote is an error, and the rest of
// its line is ignored.
func lex(name, text string) ([]token, []error) {
	var (
		toks []token
		errs []error
		line = 1
		nl   = true // there is no token on this line yet
	)
	add := func(t token) {
		t.first = nl
		nl = false
		toks = append(toks, t)
	}
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			line++
			nl = true
			i++
		case blank(c) || c == '\\' && i+1 < len(text) && text[i+1] == '\n':
			i++
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '"' || c == '\'':
			n := strings.IndexByte(text[i+1:], c)
			if n < 0 {
				errs = append(errs, fmt.Errorf("%s:%d: cannot find the end of the text that starts with %s: close the quote", name, line, firstLine(text[i:])))
				for i < len(text) && text[i] != '\n' {
					i++
				}
				break
			}
			body := text[i+1 : i+1+n]
			add(token{text: body, quote: c, line: line, start: i, end: i + n + 2})
			line += strings.Count(body, "\n")
			i += n + 2
		case isOp(c):
			n := 1
			if i+1 < len(text) && text[i+1] == '=' {
				n = 2
			}
			add(token{text: text[i : i+n], line: line, start: i, end: i + n})
			i += n
		case c == '%' || c == '{' || c == '}':
			add(token{text: string(c), line: line, start: i, end: i + 1})
			i++
		default:
			n := i
			for n < len(text) && !blank(text[n]) && text[n] != '\n' && text[n] != '"' && text[n] != '\'' && text[n] != '%' && !isOp(text[n]) {
				n++
			}
			add(token{text: text[i:n], line: line, start: i, end: n})
			i = n
		}
	}
	return toks, errs
}

// blank reports whether c only separates tokens. Like monit, it ignores commas,
// semicolons and parentheses.
func blank(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\f', '\v', ',', ';', '(', ')':
		return true
	}
	return false
}

func isOp(c byte) bool { return c == '=' || c == '<' || c == '>' || c == '!' }

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strings.TrimSpace(s)
}

// noise returns the words that monit ignores everywhere.
func (t token) noise() bool {
	return t.is("is", "as", "are", "for", "on", "only", "with", "within", "without", "program", "programs",
		"and", "has", "using", "use", "the", "sum", "than", "usage", "was", "times", "but", "of", "does")
}

// argv splits a quoted program as monit does: at white space outside of single
// quotes.
func argv(s string) ([]string, error) {
	var args []string
	for {
		s = strings.TrimLeft(s, " \t\r\n")
		if s == "" {
			return args, nil
		}
		if s[0] == '\'' {
			n := strings.IndexByte(s[1:], '\'')
			if n < 0 {
				return nil, fmt.Errorf("cannot find the end of the quote in %q", s)
			}
			args = append(args, s[1:1+n])
			s = s[n+2:]
			continue
		}
		n := strings.IndexAny(s, " \t\r\n")
		if n < 0 {
			n = len(s)
		}
		args = append(args, s[:n])
		s = s[n:]
	}
}
