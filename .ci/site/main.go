// Site makes a static site of the Markdown pages of the repository: README.md, docs, and
// the pages of examples. The site loads nothing from other servers. Its only script is
// that of the search, and each page can be read without it.
//
// Every link between pages, to a heading and to a file of the repository is followed; one
// without a target is an error.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	reader "github.com/yuin/goldmark/text"
)

//go:embed page.html
var layout string

//go:embed style.css
var style []byte

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site REPOSITORY FOLDER")
		os.Exit(64)
	}
	n, err := build(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", n, os.Args[2])
}

// page is one page of the site.
type page struct {
	Source  string // its path in the repository: docs/team.md
	Path    string // its path in the site: docs/team.html
	Title   string
	Headers []header // headings of the second level
	Body    template.HTML
	Parts   []part // parts for the search
}

type header struct{ ID, Text string }

// section is a part of the navigation.
type section struct {
	Title string
	Pages []*page
}

// sections returns the parts of the navigation with their pages, in the order for a new
// reader. Pages that no section names are in the section "".
func sections() []struct {
	title string
	pages []string
} {
	return []struct {
		title string
		pages []string
	}{
		{"Begin", []string{"README.md", "docs/tutorial.md", "docs/concepts.md", "docs/from-create-env.md", "docs/install.md"}},
		{"Deploy", []string{"docs/local.md", "docs/dev.md", "docs/platforms.md", "docs/deployments.md", "docs/addresses.md", "docs/reach.md", "docs/looking.md", "docs/report.md", "docs/rotation.md"}},
		{"Providers", []string{"docs/providers/"}},
		{"Examples", []string{"examples/"}},
		{"In a team", []string{"docs/environment.md", "docs/team.md", "docs/secrets.md", "docs/sources.md", "docs/pipelines.md", "docs/json.md", "docs/fleet.md"}},
		{"What to rely on", []string{"docs/reliability.md", "docs/compatibility.md", "SECURITY.md", "CHANGELOG.md"}},
		{"Work on it", []string{"CONTRIBUTING.md", "docs/architecture.md", "docs/architecture-local.md", "docs/decisions.md"}},
		{"More", []string{""}},
		{"Look up", []string{"docs/troubleshooting.md", "docs/reference.md"}},
	}
}

// build writes the site of the repository at root to the folder out, in place of an
// earlier site, and returns the number of pages.
func build(root, out string) (int, error) {
	sources, err := find(root)
	if err != nil {
		return 0, err
	}
	var pages []*page
	files := map[string]bool{} // files of the repository that pages link to
	for _, source := range sources {
		text, err := os.ReadFile(filepath.Join(root, source))
		if err != nil {
			return 0, err
		}
		p, linked, err := convert(root, source, text, sources)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", source, err)
		}
		pages = append(pages, p)
		for _, file := range linked {
			files[file] = true
		}
	}
	if err := removeSite(out); err != nil {
		return 0, err
	}
	if err := write(out, pages); err != nil {
		return 0, err
	}
	for file := range files {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err == nil {
			err = put(out, copied(file), data)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(pages), errors.Join(put(out, "style.css", style), check(out))
}

// removeSite removes an earlier site. It refuses any other folder, which a person may
// have named by mistake.
func removeSite(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"index.html", "style.css"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil && len(entries) > 0 {
			return fmt.Errorf("%s is not the folder of a site, because it has no %s: name another folder, or empty it", dir, name)
		}
	}
	return os.RemoveAll(dir)
}

// find returns the sources of all pages.
func find(root string) ([]string, error) {
	var list []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/README.md"} {
		found, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	if !slices.Contains(list, "README.md") {
		return nil, fmt.Errorf("there is no README.md in %s", root)
	}
	return list, nil
}

// inSite returns the path of a page in the site.
func inSite(source string) string {
	dir, name := path.Split(source)
	if name == "README.md" {
		return dir + "index.html"
	}
	return strings.TrimSuffix(source, ".md") + ".html"
}

var comment = regexp.MustCompile(`(?s)<!--.*?-->\n?`)

// convert converts a source to a page, and returns it with the files of the repository
// that it links to.
func convert(root, source string, text []byte, sources []string) (*page, []string, error) {
	text = comment.ReplaceAll(text, nil)
	// The pages are our own, so their HTML, such as the anchors of the glossary, is kept.
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithUnsafe()))
	doc := md.Parser().Parse(reader.NewReader(text), parser.WithContext(parser.NewContext(parser.WithIDs(&ids{seen: map[string]int{}}))))
	p := &page{Source: source, Path: inSite(source)}
	var files []string
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			id, _ := n.AttributeString("id")
			name, _ := id.([]byte)
			title := plain(n, text)
			switch {
			case n.Level == 1 && p.Title == "":
				p.Title = title
			case n.Level == 2:
				p.Headers = append(p.Headers, header{string(name), title})
			}
		case *ast.Link:
			to, file, err := target(root, source, string(n.Destination), sources)
			if err != nil {
				return ast.WalkStop, err
			}
			n.Destination = []byte(to)
			files = appendFile(files, file)
		case *ast.Image:
			to, file, err := target(root, source, string(n.Destination), sources)
			if err != nil {
				return ast.WalkStop, err
			}
			if strings.Contains(to, "://") {
				return ast.WalkStop, fmt.Errorf("the picture %s is on another server", to)
			}
			n.Destination = []byte(to)
			files = appendFile(files, file)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	if err := md.Renderer().Render(&b, text, doc); err != nil {
		return nil, nil, err
	}
	body := strings.NewReplacer("<table>", `<div class="table"><table>`, "</table>", "</table></div>").Replace(b.String())
	p.Parts = parts(p, body)
	body = anchored.ReplaceAllString(body, `<h$1 id="$2">$3 <a class="anchor" href="#$2" aria-label="link to this part">#</a></h$1>`)
	p.Body = template.HTML(body)
	if p.Title == "" {
		return nil, nil, errors.New("it has no title")
	}
	return p, files, nil
}

var anchored = regexp.MustCompile(`(?s)<h([2-6]) id="([^"]+)">(.*?)</h[2-6]>`)

func appendFile(files []string, file string) []string {
	if file == "" {
		return files
	}
	return append(files, file)
}

// target returns the target of a link in the site. If that is a file of the repository,
// and not a page, it also returns the file.
func target(root, source, to string, sources []string) (string, string, error) {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") || strings.HasPrefix(to, "#") {
		return to, "", nil
	}
	name, anchor, _ := strings.Cut(to, "#")
	at := path.Join(path.Dir(source), name)
	if anchor != "" {
		anchor = "#" + anchor
	}
	if !filepath.IsLocal(at) {
		return "", "", fmt.Errorf("the link to %s leads out of the repository", to)
	}
	if slices.Contains(sources, at+"/README.md") {
		at += "/README.md"
	}
	if slices.Contains(sources, at) {
		return relative(source, inSite(at)) + anchor, "", nil
	}
	info, err := os.Stat(filepath.Join(root, at))
	switch {
	case err != nil:
		return "", "", fmt.Errorf("the link to %s is dead: there is no %s", to, at)
	case info.IsDir():
		return "", "", fmt.Errorf("the link to %s leads to a folder, which a site does not show: name a file in it", to)
	}
	return relative(source, copied(at)), at, nil
}

// copied returns the path of a file of the repository in the site. Go files get another
// extension, because a site below the repository would be a Go package.
func copied(file string) string {
	if strings.HasSuffix(file, ".go") {
		return file + ".txt"
	}
	return file
}

// relative returns the link from a page to a path in the site.
func relative(source, to string) string {
	up := strings.Repeat("../", strings.Count(source, "/"))
	return up + to
}

// plain returns the text of a node.
func plain(n ast.Node, text []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(text))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// ids makes the anchors of headings in GitHub's way.
type ids struct{ seen map[string]int }

func (i *ids) Generate(value []byte, _ ast.NodeKind) []byte {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, linkText.ReplaceAllString(string(value), "$1"))
	before := i.seen[slug]
	i.seen[slug]++
	if before > 0 {
		slug = fmt.Sprintf("%s-%d", slug, before)
	}
	return []byte(slug)
}

var linkText = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)

func (i *ids) Put(value []byte) { i.seen[string(value)]++ }

// navigation returns the sections with pages.
func navigation(pages []*page) []section {
	var named []string
	for _, s := range sections() {
		named = append(named, s.pages...)
	}
	belongs := func(source, name string) bool {
		switch {
		case name == "":
			return !slices.ContainsFunc(named, func(n string) bool {
				return n != "" && (source == n || strings.HasSuffix(n, "/") && strings.HasPrefix(source, n))
			})
		case strings.HasSuffix(name, "/"):
			return strings.HasPrefix(source, name)
		}
		return source == name
	}
	sorted := slices.SortedFunc(slices.Values(pages), func(a, b *page) int { return strings.Compare(a.Source, b.Source) })
	var nav []section
	for _, s := range sections() {
		list := section{Title: s.title}
		for _, name := range s.pages {
			for _, p := range sorted {
				if belongs(p.Source, name) {
					list.Pages = append(list.Pages, p)
				}
			}
		}
		if len(list.Pages) > 0 {
			nav = append(nav, list)
		}
	}
	return nav
}

// write writes all pages with their navigation, and the search.
func write(out string, pages []*page) error {
	t, err := template.New("page").Parse(layout)
	if err != nil {
		return err
	}
	nav := navigation(pages)
	for _, p := range pages {
		var b bytes.Buffer
		up := strings.Repeat("../", strings.Count(p.Path, "/"))
		if err := t.Execute(&b, map[string]any{"Page": p, "Nav": nav, "Up": up}); err != nil {
			return err
		}
		if err := put(out, p.Path, b.Bytes()); err != nil {
			return err
		}
	}
	return putSearch(out, nav)
}

func put(out, name string, data []byte) error {
	at := filepath.Join(out, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, data, 0o644)
}

var (
	refers = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	named  = regexp.MustCompile(`\bid="([^"]*)"`)
)

// check follows every link of the site in the way of a browser.
func check(out string) error {
	texts := map[string]string{}
	err := filepath.WalkDir(out, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(at)
		name, _ := filepath.Rel(out, at)
		texts[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		return err
	}
	var dead []error
	for name, text := range texts {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		for _, m := range refers.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			at := name
			if to != "" {
				at = path.Join(path.Dir(name), to)
			}
			there, ok := texts[at]
			switch {
			case !ok:
				dead = append(dead, fmt.Errorf("%s: the link to %s is dead: there is no %s", name, m[1], at))
			case anchor != "" && !slices.ContainsFunc(named.FindAllStringSubmatch(there, -1), func(id []string) bool { return id[1] == anchor }):
				dead = append(dead, fmt.Errorf("%s: the link to %s is dead: %s has no part %s", name, m[1], at, anchor))
			}
		}
	}
	return errors.Join(dead...)
}
