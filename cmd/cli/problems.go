package cli

import (
	"errors"

	"bootstrap/cmd/ui"
	"bootstrap/manifest/document"
)

// Problem is a problem of the manifest in the form of --json.
type Problem struct {
	Kind    string `json:"kind"` // "problem"
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Explain string `json:"explain,omitempty"` // NAME for bootstrap explain
	Warning bool   `json:"warning,omitempty"`
}

func problemLine(p document.Problem) Problem {
	return Problem{"problem", p.Pos.File, p.Pos.Line, p.Pos.Column, p.Path, p.Message, p.Name, p.Warning}
}

// printProblemsIn prints err as objects if it contains problems of a manifest.
func printProblemsIn(out *ui.Lines, err error) {
	var problems *document.Problems
	if errors.As(err, &problems) {
		PrintProblems(out, *problems)
	}
}

// PrintProblems prints problems of a manifest as objects.
func PrintProblems(out *ui.Lines, problems document.Problems) {
	for _, p := range problems.Shortened() {
		out.Print("", problemLine(p))
	}
}
