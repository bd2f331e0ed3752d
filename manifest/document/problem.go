package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bootstrap/internal/failure"
)

// Position is a position in a file. Line and Column count from 1, Column in
// characters; Line 0 means the whole file.
type Position struct {
	File         string // name of the file as the user wrote it
	Line, Column int
}

// String returns file:line:column, which editors and terminals turn into a link.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is an error or a warning about a place in a document.
type Problem struct {
	// Pos is the position of the value, or of the map that lacks it.
	Pos Position
	// Path is the path of the value, for example
	// instance_groups[0].networks[0].static_ips[0]; empty for the whole document.
	Path string
	// Message says what is wrong and what is allowed, without secrets.
	Message string
	// Name is the name of a page of docs/troubleshooting.md; may be empty.
	Name string
	// Warning is true if the document can be used nevertheless.
	Warning bool
}

// String returns one line: "file:line:column: path: message".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Pos.String())
	b.WriteString(": ")
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Path != "" {
		b.WriteString(p.Path)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems are the problems of one document by position. As an error, they
// contain at least one that is not a warning.
type Problems []Problem

// MaxShown limits how many problems of one document are shown.
const MaxShown = 200

// Error returns one line for each problem of Shortened.
func (p Problems) Error() string {
	short := p.Shortened()
	lines := make([]string, len(short))
	for i, problem := range short {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// Name returns the name of the page that explains the error: the first name among the
// problems.
func (p Problems) Name() string {
	for _, problem := range p {
		if problem.Name != "" && !problem.Warning {
			return problem.Name
		}
	}
	return "manifest-wrong"
}

func (p Problems) ExitCode() failure.Code { return failure.Manifest }

// Shortened returns at most MaxShown problems in their order, preferring errors
// to warnings, and a last one with the number of those left out.
func (p Problems) Shortened() Problems {
	if len(p) <= MaxShown {
		return p
	}
	var short Problems
	var errors, left int
	for _, problem := range p {
		if !problem.Warning {
			errors++
		}
	}
	warnings := max(MaxShown-errors, 0)
	errors = min(errors, MaxShown)
	more := Problem{Warning: true}
	for _, problem := range p {
		room := &errors
		if problem.Warning {
			room = &warnings
		}
		if *room == 0 {
			left++
			more.Pos.File = problem.Pos.File
			more.Warning = more.Warning && problem.Warning
			continue
		}
		*room--
		short = append(short, problem)
	}
	more.Message = fmt.Sprintf("… and %d more", left)
	return append(short, more)
}

// failed reports whether one of the problems is an error.
func (p Problems) failed() bool {
	return slices.ContainsFunc(p, func(p Problem) bool { return !p.Warning })
}

// sorted returns the problems by file and position, without duplicates. Files
// are in the order of their first problem.
func (p Problems) sorted() Problems {
	files := map[string]int{}
	for _, problem := range p {
		if _, seen := files[problem.Pos.File]; !seen {
			files[problem.Pos.File] = len(files)
		}
	}
	p = slices.Clone(p)
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(files[a.Pos.File], files[b.Pos.File]),
			cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	return slices.Compact(p)
}
