// Package webpage writes HTML pages that need no other file, no network and no scripts.
// html/template is not used: it finds methods by their names, so that the linker would
// keep the methods of all types, 3 MB.
package webpage

import (
	_ "embed" // the style
	"fmt"
	"strings"

	"bootstrap/internal/printable"
)

//go:embed page.css
var style string

// Page is a page that is being written.
type Page struct {
	// Show makes a value safe to show, before it is escaped; nil: all values are.
	Show func(string) string

	text strings.Builder
}

// head is what a page begins with. The policy forbids everything but the style inside.
const head = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
`

// Begin writes everything before the content. own is the style of this page, in addition
// to the one that all pages share.
func (p *Page) Begin(title, own string) {
	p.text.WriteString(head)
	p.Put("<title>%s</title>\n<style>\n", title)
	p.text.WriteString(style + own)
	p.Put(`</style>
</head>
<body>
<main>
`)
}

// End writes everything behind the content, and returns the page.
func (p *Page) End() []byte {
	p.Put(`
</main>
</body>
</html>
`)
	return []byte(p.text.String())
}

// IsOurs reports whether a text begins as a page of this package does.
func IsOurs(text string) bool { return strings.HasPrefix(text, head) }

// Own is a word that the program chooses, such as the name of a class: Page.Show does not
// change it, even if a secret is the same word.
type Own string

// Put writes a format with its values as Plain makes them, which are escaped for the text
// of an element or a quoted attribute.
func (p *Page) Put(format string, values ...any) {
	for i, v := range values {
		text := fmt.Sprint(v)
		if _, own := v.(Own); !own && p.Show != nil {
			text = p.Show(text)
		}
		values[i] = escape(Plain(text))
	}
	fmt.Fprintf(&p.text, format, values...)
}

// When writes as Put does, if the condition holds.
func (p *Page) When(condition bool, format string, values ...any) {
	if condition {
		p.Put(format, values...)
	}
}

// escape is what html/template does with a value, down to the plus sign.
func escape(text string) string {
	return strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;", "+", "&#43;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// Plain returns a text without control characters, and with those visible that change
// the direction of text. It is valid in XML.
func Plain(text string) string { return printable.Escaped(printable.Text(text)) }
