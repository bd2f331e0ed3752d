// Package explain shows the pages of docs/troubleshooting.md on a terminal.
package explain

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"bootstrap/docs"
)

// Page explains an error or an exit code.
type Page struct {
	Name     string   // agent-silent, or 69
	Messages []string // messages of the error, with … for variable parts
	Text     string   // in Markdown, without heading and messages
}

// exitCode begins the heading of the page of an exit code.
const exitCode = "Exit code "

// safe is the heading of the last part of an error's page. The file leaves the part out if
// nothing was changed.
const safe = "**What is safe**"

// Pages returns all pages in the order of the file: exit codes, then errors.
func Pages() []Page { return parse(docs.Troubleshooting) }

// parse returns the pages of a Markdown text. Each begins with a heading of the third
// level and ends before the next heading.
func parse(text string) []Page {
	var pages []Page
	for _, part := range strings.Split(text, "\n### ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		rest, _, _ = strings.Cut(rest, "\n## ")
		page := Page{Name: strings.TrimPrefix(name, exitCode)}
		rest = strings.TrimSpace(rest)
		for strings.HasPrefix(rest, "> ") {
			var message string
			message, rest, _ = strings.Cut(rest, "\n")
			page.Messages = append(page.Messages, strings.TrimPrefix(message, "> "))
		}
		page.Text = strings.TrimSpace(rest)
		if len(page.Messages) > 0 && !strings.Contains(page.Text, safe) {
			page.Text += "\n\n" + safe + "\n\nNothing was changed."
		}
		pages = append(pages, page)
	}
	return pages
}

// Find returns the page with a name. The name may also be a word of the message, such as
// NetworkReservationAlreadyInUse.
func Find(pages []Page, name string) (Page, bool) {
	for _, p := range pages {
		if strings.EqualFold(p.Name, name) {
			return p, true
		}
	}
	for _, p := range pages {
		for _, m := range p.Messages {
			if strings.HasSuffix(m, "("+name+")") {
				return p, true
			}
		}
	}
	return Page{}, false
}

// Names returns the names of all pages.
func Names(pages []Page) []string {
	names := make([]string, len(pages))
	for i, p := range pages {
		names[i] = p.Name
	}
	return names
}

// Summary returns the first sentence.
func (p Page) Summary() string {
	first, _, _ := strings.Cut(p.Text, "\n\n")
	first = strings.Join(strings.Fields(first), " ")
	if sentence, _, more := strings.Cut(first, ". "); more {
		first = sentence
	}
	return strings.TrimSuffix(first, ".")
}

// link matches a link to another page of the documentation.
var link = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)

// Plain returns the page for a terminal of width columns: without the marks of Markdown,
// and with lines broken between words.
func (p Page) Plain(width int) string {
	var b strings.Builder
	title := p.Name
	if len(p.Messages) == 0 {
		title = exitCode + p.Name
	}
	b.WriteString(title + "\n\n")
	for _, m := range p.Messages {
		broken(&b, "  ", "  ", m, width)
	}
	if len(p.Messages) > 0 {
		b.WriteByte('\n')
	}
	text := link.ReplaceAllStringFunc(p.Text, func(found string) string {
		m := link.FindStringSubmatch(found)
		return m[1] + " (docs/" + m[2] + ")"
	})
	for i, block := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		switch {
		case strings.HasPrefix(block, "**"):
			b.WriteString(strings.Trim(block, "*") + ":\n")
		case strings.HasPrefix(block, "- "):
			for _, item := range strings.Split("\n"+block, "\n- ")[1:] {
				broken(&b, "  - ", "    ", item, width)
			}
		default:
			broken(&b, "", "", block, width)
		}
	}
	return b.String()
}

// broken writes a paragraph in lines of at most width columns; first and rest are the
// beginnings of the first and the other lines. A longer word is not broken.
func broken(b *strings.Builder, first, rest, text string, width int) {
	line, begun := first, false
	for _, word := range strings.Fields(text) {
		if begun && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line, begun = rest, false
		}
		if begun {
			line += " "
		}
		line += word
		begun = true
	}
	b.WriteString(line + "\n")
}
