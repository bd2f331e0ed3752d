package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A site is made from pages, and a link without a target is an error.
func TestBuild(t *testing.T) {
	const readme = "# A `tool`\n\n<!-- not run: x -->\n```sh\nls <x>\n```\n\n[b](docs/b.md#the-second-part) ![p](docs/p.svg) [o](https://example.com) [e](examples/one) [g](x_test.go)\n\n| a | b |\n|---|---|\n| <a id=\"c\"></a>c | [d](#c) |\n"
	for name, c := range map[string]struct {
		readme string
		dead   string
	}{
		"good":    {readme, ""},
		"file":    {readme + "[x](docs/c.md)", "there is no docs/c.md"},
		"anchor":  {readme + "[x](docs/b.md#third)", "has no part third"},
		"own":     {readme + "[x](#nothing)", "has no part nothing"},
		"outside": {readme + "[x](docs/../../x)", "leads out of the repository"},
		"folder":  {readme + "[x](docs)", "leads to a folder"},
		"picture": {readme + "![x](https://example.com/x.svg)", "on another server"},
		"title":   {"no title", "it has no title"},
	} {
		t.Run(name, func(t *testing.T) {
			root, out := t.TempDir(), filepath.Join(t.TempDir(), "site")
			for file, text := range map[string]string{"README.md": c.readme, "docs/b.md": "# B\n\n## The second, `part`!\n\n[home](../README.md)\n", "docs/p.svg": "<svg/>", "x_test.go": "package x\n", "examples/one/README.md": "# One\n"} {
				if err := put(root, file, []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			n, err := build(root, out)
			if c.dead != "" {
				if err == nil || !strings.Contains(err.Error(), c.dead) {
					t.Fatalf("got %v, want %q", err, c.dead)
				}
				return
			}
			if err != nil || n != 3 {
				t.Fatal(n, err)
			}
			data, err := os.ReadFile(filepath.Join(out, "index.html"))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{`<a href="docs/b.html#the-second-part">`, `<img src="docs/p.svg"`, `<a href="x_test.go.txt">`, `<div class="table"><table>`, `href="examples/one/index.html"`, "ls &lt;x&gt;", `<a id="c"></a>`, `aria-current="page"`} {
				if !strings.Contains(string(data), want) {
					t.Errorf("%s is not in %s", want, data)
				}
			}
			if strings.Contains(string(data), "not run") || strings.Count(string(data), "<script") != 1 {
				t.Error("the page has a comment, or another script than that of the search")
			}
		})
	}
}

// Only an empty folder or an earlier site is removed.
func TestRemoveSite(t *testing.T) {
	dir := t.TempDir()
	if err := put(dir, "index.html", nil); err != nil {
		t.Fatal(err)
	}
	if err := removeSite(dir); err == nil || !strings.Contains(err.Error(), "is not the folder of a site") {
		t.Errorf("got %v", err)
	}
	if err := put(dir, "style.css", nil); err != nil {
		t.Fatal(err)
	}
	if err := removeSite(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the site is still there")
	}
}
