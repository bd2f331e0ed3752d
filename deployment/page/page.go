// Package page turns the plan of a deployment with several instances into one HTML page.
package page

import (
	"embed"
	"html/template"

	"bootstrap/deployer/page"
	"bootstrap/internal/webpage"
)

// files has the page's template and its style.
//
//go:embed page.html page.css
var files embed.FS

// Plan is a plan in words.
type Plan struct {
	Deployment string
	Instances  int
	// How many instances are created, changed, deleted and as the manifest says.
	Create, Change, Delete, Same int
	Scripts                      bool // post-deploy scripts run, or DNS records are sent
	Columns                      []string
	Rows                         []Row
	Notes                        []string // below the table
	Why, Manifest                []string // reasons, and differences of the manifest
	Order, Service               []string
}

// Row is instances for which the plan does the same: a cell for each column.
type Row struct {
	Action string // create, change, keep, delete
	Cells  []string
}

// part is a list below the table of a plan.
type part struct {
	ID, Title string
	Lines     []string
}

func newPart(id, title string, lines []string) part { return part{id, title, lines} }

// Nothing reports whether the plan changes nothing.
func (p Plan) Nothing() bool { return p.Create+p.Change+p.Delete == 0 && !p.Scripts }

// Write writes the page of a plan to a file. It replaces an earlier page, and nothing else.
// clean replaces secrets in a text.
func Write(path string, p Plan, clean func(string) string) error {
	return page.Save(path, func() ([]byte, error) {
		return webpage.Render(files, template.FuncMap{"show": clean, "part": newPart}, p)
	})
}
