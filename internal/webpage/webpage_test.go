package webpage

import (
	"bytes"
	"compress/gzip"
	"flag"
	"html/template"
	"io"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "compress the styles of pages")

// The styles are embedded as they are, compressed: a fourth of their size.
func TestStyles(t *testing.T) {
	for _, name := range []string{"page.css", "../../deployer/page/page.css", "../../fleet/report/page.css"} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			var packed bytes.Buffer
			w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(want) // to memory
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name+".gz", packed.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		packed, err := os.ReadFile(name + ".gz")
		if err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s.gz is not %[1]s compressed (%v): go test ./internal/webpage -update", name, err)
		}
	}
}

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
	p.Begin("title", nil)
	if page := string(p.End()); !IsOurs(page) || !strings.Contains(page, "--page: #fff") || IsOurs("<!DOCTYPE html>\n<html>") || IsOurs("") {
		t.Errorf("%.200s", page)
	}
}
