package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// site builds the site of this repository and returns its folder and its index.
func site(t *testing.T) (string, []part) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "site")
	if _, err := build("../..", out); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(out, "search-index.js"))
	if err != nil {
		t.Fatal(err)
	}
	text, found := strings.CutPrefix(strings.TrimSuffix(strings.TrimSpace(string(data)), ";"), "window.searchIndex = ")
	if !found {
		t.Fatal("search-index.js does not set window.searchIndex")
	}
	var index []part
	if err := json.Unmarshal([]byte(text), &index); err != nil {
		t.Fatal(err)
	}
	return out, index
}

// Every page is in the index with all of its text, and the links of all parts have
// targets.
func TestSearchIndex(t *testing.T) {
	out, index := site(t)
	words := map[string]int{} // words of a page that the index has
	pages := map[string]string{}
	for _, p := range index {
		if pages[p.Page] == "" {
			data, err := os.ReadFile(filepath.Join(out, p.Page))
			if err != nil {
				t.Fatal(err)
			}
			pages[p.Page] = string(data)
		}
		if p.ID != "" && !strings.Contains(pages[p.Page], `id="`+p.ID+`"`) {
			t.Errorf("%s has no part %s", p.Page, p.ID)
		}
		if p.Title == "" || p.Heading == "" || strings.ContainsAny(p.Text, "\n\t") || strings.Contains(p.Text, "</") && !strings.Contains(pages[p.Page], "&lt;/") {
			t.Errorf("a part of %s is wrong: %+v", p.Page, p)
		}
		words[p.Page] += len(strings.Fields(p.Heading + " " + p.Text))
	}
	err := filepath.WalkDir(out, func(at string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(at) != ".html" {
			return err
		}
		name, _ := filepath.Rel(out, at)
		_, text, found := strings.Cut(pages[filepath.ToSlash(name)], `<main id="content">`)
		text, _, ends := strings.Cut(text, "</main>")
		if !found || !ends {
			t.Errorf("%s is not in the index", name)
			return nil
		}
		text = strings.ReplaceAll(text, `aria-label="link to this part">#</a>`, "></a>")
		if want := len(strings.Fields(textOf(text))); words[filepath.ToSlash(name)] != want {
			t.Errorf("%s has %d words, and the index %d of them", name, want, words[filepath.ToSlash(name)])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Generated pages come last in the navigation and in the index.
func TestMadePagesAreLast(t *testing.T) {
	_, index := site(t)
	var order []string
	for _, p := range index {
		if len(order) == 0 || order[len(order)-1] != p.Page {
			order = append(order, p.Page)
		}
	}
	if got := strings.Join(order[len(order)-2:], " "); order[0] != "index.html" || got != "docs/troubleshooting.html docs/reference.html" {
		t.Errorf("the first page is %s, the last ones are %s", order[0], got)
	}
}

// The search finds the texts of the pages, and lists the best part first.
func TestSearch(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node, which comes with npm: ", err)
	}
	out, _ := site(t)
	if err := put(out, "ask.js", []byte(`
const window = {};
eval(require("fs").readFileSync(process.argv[2] + "/search-index.js", "utf8"));
const search = require(process.argv[2] + "/search.js");
const query = process.argv[3];
const found = search.find(window.searchIndex, query).map((part) => ({ page: part.page, id: part.id, text: search.excerpt(part, query) }));
console.log(JSON.stringify(found));
`)); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{ // the first result; empty: none
		"stemcell":                    "docs/concepts.html#stemcell",
		"Orphaned Disk":               "docs/concepts.html#orphaned-disk",
		"what survives what":          "docs/concepts.html#what-survives-what",
		"--lock-wait runner":          "docs/pipelines.html",
		"NetworkReservedIpOutOfRange": "docs/addresses.html#errors",
		"jumpbox login":               "docs/reach.html#through-jumpboxes",
		"agent-silent":                "docs/troubleshooting.html#agent-silent",
		"no such word anywhere xyzzy": "",
		"a.*b(":                       "",
	} {
		data, err := exec.Command(node, filepath.Join(out, "ask.js"), out, query).Output()
		if err != nil {
			t.Fatal(err)
		}
		var found []struct{ Page, ID, Text string }
		if err := json.Unmarshal(data, &found); err != nil {
			t.Fatal(err)
		}
		switch {
		case want == "" && len(found) > 0:
			t.Errorf("%q: found %+v", query, found[0])
		case want == "":
		case len(found) == 0:
			t.Errorf("%q: nothing found, want %s", query, want)
		case !strings.HasPrefix(found[0].Page+"#"+found[0].ID, want):
			t.Errorf("%q: the first is %s#%s, want %s", query, found[0].Page, found[0].ID, want)
		case found[0].Text == "":
			t.Errorf("%q: no text is shown", query)
		}
	}
}
