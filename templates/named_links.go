package templates

import (
	_ "embed" // embeds methods of templates
	"encoding/base64"
)

//go:embed named_links.rb
var namedLinks string

// linkQuery is the part of a link from which a template makes DNS names of some of its
// instances, as dns.Encoder.Query returns it.
const linkQuery = "query"

// named reports whether a link of the job has DNS names.
func (j *Job) named() bool {
	for _, link := range j.Context.Links {
		if content, ok := link.(map[string]any); ok && content[linkQuery] != nil {
			return true
		}
	}
	return false
}

// request returns the request to render a template of the job. If the job has links with
// DNS names, the template first defines how they have them, in one line more.
func (j *Job) request(f *file) request {
	r := request{File: f.path, Template: f.content}
	if j.named() {
		code := base64.StdEncoding.EncodeToString([]byte(namedLinks))
		r.Template = append([]byte(`<%- eval("`+code+`".unpack("m0")[0], binding, "named links") -%>`+"\n"), f.content...)
	}
	return r
}

// correct makes the line of an error that of the template in the release.
func (j *Job) correct(e *rubyError) {
	if e != nil && e.Line > 0 && j.named() {
		e.Line--
	}
}
