package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	fenced    = regexp.MustCompile("(?ms)^ *(```+|~~~+).*?^ *(```+|~~~+) *$")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	heading   = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	linked    = regexp.MustCompile(`\]\(<?([^)<>\s]+)>?(?: "[^"]*")?\)`)
	referred  = regexp.MustCompile(`(?m)^\[[^\]]+\]: +(\S+)`)
	inHTML    = regexp.MustCompile(`(?:href|src|srcset)="([^"]+)"`)
	htmlNamed = regexp.MustCompile(`(?:id|name)="([^"]+)"`)
	textOf    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// Every link in a page of Markdown to another file of the repository, and to a heading
// there, leads to something that exists, by the rules of GitHub. Links to other servers
// are only listed, with -v.
func TestLinks(t *testing.T) {
	list, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Skip("this is no checkout of git: ", err)
	}
	external, seen := map[string]bool{}, map[string][]string{}
	for _, page := range strings.Fields(string(list)) {
		if strings.Contains(page, "testdata/") || strings.HasPrefix(page, "templates/cruby/") { // notices and samples of others
			continue
		}
		data, err := os.ReadFile(page)
		if os.IsNotExist(err) { // removed and not committed
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range links(string(data)) {
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				external[to] = true
				continue
			}
			if err := follow(seen, page, to); err != nil {
				t.Errorf("%s: the link to %s is dead: %v", page, to, err)
			}
		}
	}
	all := make([]string, 0, len(external))
	for to := range external {
		all = append(all, to)
	}
	slices.Sort(all)
	t.Logf("%d links to other servers:\n%s", len(all), strings.Join(all, "\n"))
}

// links returns the targets of the links and pictures of a page.
func links(text string) []string {
	text = codeSpan.ReplaceAllString(fenced.ReplaceAllString(text, ""), "")
	var list []string
	for _, kind := range []*regexp.Regexp{linked, referred, inHTML} {
		for _, m := range kind.FindAllStringSubmatch(text, -1) {
			list = append(list, m[1])
		}
	}
	return list
}

// follow returns why a link of a page leads nowhere. It stores the anchors of the pages
// that it has read, because many links lead to the same page.
func follow(seen map[string][]string, page, to string) error {
	file, anchor, _ := strings.Cut(to, "#")
	target := page
	if file != "" {
		target = path.Join(path.Dir(page), file)
	}
	if strings.HasPrefix(target, "../") || path.IsAbs(file) {
		return fmt.Errorf("it leads out of the repository")
	}
	info, err := os.Stat(target)
	if err != nil {
		return fmt.Errorf("there is no %s", target)
	}
	if anchor == "" || info.IsDir() || !strings.HasSuffix(target, ".md") {
		return nil
	}
	if seen[target] == nil {
		data, err := os.ReadFile(target)
		if err != nil {
			return err
		}
		seen[target] = anchors(string(data))
	}
	if known := seen[target]; !slices.Contains(known, anchor) {
		return fmt.Errorf("%s has no heading %s; it has %s", target, anchor, strings.Join(known, ", "))
	}
	return nil
}

// anchors returns the anchors that GitHub makes of the headings of a page.
func anchors(text string) []string {
	text = fenced.ReplaceAllString(text, "")
	var list []string
	for _, m := range htmlNamed.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		title := textOf.ReplaceAllString(m[1], "$1")
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)
		before := seen[slug]
		seen[slug]++
		if before > 0 {
			slug = fmt.Sprintf("%s-%d", slug, before)
		}
		list = append(list, slug)
	}
	return list
}

func TestAnchors(t *testing.T) {
	text := "# The `plan`: what, *why*\n\n```\n# no heading\n```\n\n## A [link](x.md#y) here ##\n\n## A link here\n\n## `bootstrap status {MANIFEST | --state FILE}`\n<a id=\"own\"></a>\n"
	want := []string{"own", "the-plan-what-why", "a-link-here", "a-link-here-1", "bootstrap-status-manifest----state-file"}
	if got := anchors(text); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := links("a [b](c.md#d) `[e](f.md)`\n```\n[g](h.md)\n```\n![i](j.svg \"k\")\n[l]: m.md\n<img src=\"n.svg\">"); !slices.Equal(got, []string{"c.md#d", "j.svg", "m.md", "n.svg"}) {
		t.Errorf("got %q", got)
	}
	for to, good := range map[string]bool{"docs/plan.md": false, "docs/json.md": true, "docs/json.md#--json": true, "docs/json.md#nothing": false, "../x.md": false} {
		if err := follow(map[string][]string{}, "README.md", to); (err == nil) != good {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// The quickstart, the tutorial and the examples each have their own ports, so that one
// can be tried while another one runs.
func TestExamplesHaveOwnPorts(t *testing.T) {
	list, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "testdata/quickstart/manifest.yml", "docs/tutorial.md", "examples/*.yml").Output()
	if err != nil {
		t.Skip("this is no checkout of git: ", err)
	}
	port := regexp.MustCompile(`(?:port|PORT)[a-z_]*: *(\d{4,5})\b|127\.0\.0\.1:(\d{4,5})\b`)
	owners := map[string]string{}
	for _, file := range strings.Fields(string(list)) {
		data, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range port.FindAllStringSubmatch(string(data), -1) {
			number, owner := found[1]+found[2], path.Dir(file)
			if other, taken := owners[number]; taken && other != owner {
				t.Errorf("%s: port %s is that of %s", file, number, other)
			}
			owners[number] = owner
		}
	}
	if len(owners) < 10 {
		t.Errorf("only %d ports were found", len(owners))
	}
}

// The changelog has a short entry for each change. Details are on the page, or in the
// help, to which the entry leads.
func TestChangelogIsShort(t *testing.T) {
	data, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	const most = 60 // words
	for _, entry := range regexp.MustCompile(`(?m)^- .*(\n  .*)*`).FindAllString(string(data), -1) {
		if n := len(strings.Fields(entry)); n > most {
			t.Errorf("an entry of CHANGELOG.md has %d words, and may have %d: %s", n, most, entry)
		}
	}
}

// The README has what a stranger reads in five minutes; the pages have the rest.
func TestReadmeIsShort(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	const most = 1200 // words
	if n := len(strings.Fields(string(data))); n >= most {
		t.Errorf("README.md has %d words, and must have less than %d", n, most)
	}
}
