package webpage

import (
	"html/template"
	"strings"
	"testing"
)

// Values are escaped as html/template does, and made safe before; words of the program
// are not changed by that.
func TestPut(t *testing.T) {
	t.Parallel()
	const odd = "<script>'\"&+\x00\u202e\x1b[31mred\xff"
	var want strings.Builder
	if err := template.Must(template.New("").Parse(`<p title="{{.}}">{{.}}</p>`)).Execute(&want, Plain(odd)); err != nil {
		t.Fatal(err)
	}
	p := Page{Show: func(text string) string { return strings.ReplaceAll(Plain(text), "step", "<redacted>") }}
	p.Put(`<p title="%s">%s</p>`, odd, odd)
	if got := p.text.String(); got != want.String() {
		t.Errorf("got  %s\nwant %s", got, want.String())
	}
	p.text.Reset()
	if p.Put("%s %s %v", Own("step"), "step", 7); p.text.String() != "step &lt;redacted&gt; 7" {
		t.Error(p.text.String())
	}
}

func TestIsOurs(t *testing.T) {
	t.Parallel()
	var p Page
	p.Begin("title", "")
	if page := string(p.End()); !IsOurs(page) || !strings.Contains(page, "--page: #fff") || IsOurs("<!DOCTYPE html>\n<html>") || IsOurs("") {
		t.Errorf("%.200s", page)
	}
}
