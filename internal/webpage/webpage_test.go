package webpage

import (
	"html/template"
	"strings"
	"testing"
	"testing/fstest"
)

// Values stay text, whatever is in them, and the page has no hidden characters.
func TestRender(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"page.html": {Data: []byte(`{{define "title"}}{{.}}{{end}}{{define "content"}}<p title="{{upper .}}">{{.}}</p>{{end}}`)},
		"page.css":  {Data: []byte("p { color: red; }\n")},
	}
	data, err := Render(files, template.FuncMap{"upper": strings.ToUpper}, "</title><script>'\"&+\u202e\x1b[31mred")
	page := string(data)
	if err != nil || !IsOurs(page) {
		t.Errorf("%v, %.200s", err, page)
	}
	for _, want := range []string{
		"--page: #fff", "p { color: red; }\n</style>", "<title>&lt;/title&gt;&lt;script&gt;",
		`<p title="&lt;/TITLE&gt;&lt;SCRIPT&gt;&#39;&#34;&amp;&#43;\u202eRED">&lt;/title&gt;&lt;script&gt;&#39;&#34;&amp;&#43;\u202ered</p>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	if IsOurs("<!DOCTYPE html>\n<html>") || IsOurs("") {
		t.Error("another page is taken for one of ours")
	}
	if _, err := Render(fstest.MapFS{}, nil, ""); err == nil {
		t.Error("a page without files was made")
	}
}
