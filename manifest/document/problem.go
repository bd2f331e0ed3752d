package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Position is a place in the manifest; Line and Column count from 1, Column in
// characters. Line 0 means the file as a whole.
type Position struct {
	File         string // as it was named to Load
	Line, Column int
}

// String returns file:line:column, as editors and terminals make it a link.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is one thing that is wrong with the manifest, or that its author
// should know.
type Problem struct {
	// Pos is the place of the offending value, or of the map that lacks
	// the key.
	Pos Position
	// Path is written as the author spelled the keys, for example
	// instance_groups[0].networks[0].static_ips[0]; empty for the whole
	// document.
	Path string
	// Message says what is wrong and what is allowed, without secrets.
	Message string
	// Warning marks what does not keep the manifest from being used.
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

// Problems are all violations of one manifest, in the order of their position.
// As an error they may hold warnings too, which often name the cause, but
// never warnings alone.
type Problems []Problem

// MaxShown is how many problems are shown of one manifest.
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

// Shortened returns the problems that are shown where there are very many, in
// their order: errors before warnings, and at the end how many are left out.
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

// failed tells whether a problem is more than a warning.
func (p Problems) failed() bool {
	return slices.ContainsFunc(p, func(p Problem) bool { return !p.Warning })
}

// sorted returns the problems by file and position, each only once. The files
// stand in the order in which something was found in them.
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
