// Package webpage makes HTML pages that need no other file, no network and no scripts.
package webpage

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"strings"

	"bootstrap/internal/printable"
)

// files has the frame that all pages share. Its policy forbids everything but the style
// inside.
//
//go:embed frame.html frame.css
var files embed.FS

// Render returns a page made of the files in the folder: page.html defines the templates
// "title" and "content", which get the data, and page.css adds to the style that all
// pages share.
func Render(page fs.FS, functions template.FuncMap, data any) ([]byte, error) {
	t, err := template.New("frame.html").Funcs(functions).ParseFS(files, "*")
	if err == nil {
		t, err = t.ParseFS(page, "page.html", "page.css")
	}
	var text bytes.Buffer
	if err == nil {
		err = t.Execute(&text, data)
	}
	if err != nil {
		return nil, err
	}
	return []byte(Plain(text.String())), nil
}

// IsOurs reports whether a text begins as a page of this package does.
func IsOurs(text string) bool {
	frame, err := files.ReadFile("frame.html")
	head, _, _ := strings.Cut(string(frame), "<title>")
	return err == nil && strings.HasPrefix(text, head)
}

// Plain returns a text without control characters. Characters that change the direction
// of text become visible. The result is valid in XML.
func Plain(text string) string { return printable.Escaped(printable.Text(text)) }
