package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"html"
	"regexp"
	"slices"
	"strings"
)

//go:embed search.js
var search []byte

// part is a result of the search: the text below a heading, or after an anchor, such as
// that of a glossary entry.
type part struct {
	Page    string `json:"page"` // its path in the site
	Title   string `json:"title"`
	ID      string `json:"id"`
	Heading string `json:"heading"`
	Text    string `json:"text"`
	Made    bool   `json:"made,omitempty"` // true: generated from the program, or a list of changes; these come last
}

var (
	begins = regexp.MustCompile(`(?s)<h[1-6] id="([^"]+)">(.*?)</h[1-6]>|<a id="([^"]+)"></a>(.*?)</td>`)
	tags   = regexp.MustCompile(`<[^>]*>`)
	blocks = regexp.MustCompile(`</(?:p|li|td|th|tr|pre|h[1-6]|blockquote)>|<br ?/?>`)
)

// parts cuts the HTML of a page at its headings and anchors.
func parts(p *page, body string) []part {
	made := slices.Contains([]string{"docs/reference.md", "docs/troubleshooting.md", "CHANGELOG.md"}, p.Source)
	var list []part
	at := begins.FindAllStringSubmatchIndex(body, -1)
	if len(at) == 0 || at[0][0] > 0 {
		end := len(body)
		if len(at) > 0 {
			end = at[0][0]
		}
		if text := textOf(body[:end]); text != "" {
			list = append(list, part{Page: p.Path, Title: p.Title, Heading: p.Title, Text: text, Made: made})
		}
	}
	for i, m := range at {
		end := len(body)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		group := 2 // index of the ID in m
		if m[2] < 0 {
			group = 6
		}
		list = append(list, part{
			Page: p.Path, Title: p.Title, ID: body[m[group]:m[group+1]], Heading: textOf(body[m[group+2]:m[group+3]]),
			Text: textOf(body[m[1]:end]), Made: made,
		})
	}
	return list
}

// textOf returns the text of HTML in one line.
func textOf(body string) string {
	body = tags.ReplaceAllString(blocks.ReplaceAllString(body, " $0"), "")
	return strings.Join(strings.Fields(html.UnescapeString(body)), " ")
}

// putSearch writes the script of the search and its index, in the order of the
// navigation. The index is a script, because a page that is opened as a file may load
// scripts, but no data.
func putSearch(out string, nav []section) error {
	var all []part
	for _, s := range nav {
		for _, p := range s.Pages {
			all = append(all, p.Parts...)
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	index := append([]byte("window.searchIndex = "), data...)
	return errors.Join(put(out, "search-index.js", append(index, ";\n"...)), put(out, "search.js", search))
}
