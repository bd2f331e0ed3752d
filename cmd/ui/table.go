package ui

import (
	"strings"
	"text/tabwriter"
	"time"
)

// Table prints cells in columns. Each cell is shown as one line of limited length.
type Table struct {
	out  *Writer
	rows *tabwriter.Writer
}

// NewTable begins a table; without columns it has no heading.
func NewTable(out *Writer, columns ...string) *Table {
	t := &Table{out: out, rows: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if len(columns) > 0 {
		t.Row(columns...)
	}
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		cells[i] = cell(t.out, c)
	}
	// A Writer never fails.
	_, _ = t.rows.Write([]byte(strings.Join(cells, "\t") + "\n"))
}

// Print writes the table.
func (t *Table) Print() { _ = t.rows.Flush() }

func cell(out *Writer, text string) string {
	// White space that would end a cell for tabwriter.
	text = strings.NewReplacer("\t", " ", "\n", " ", "\v", " ", "\f", " ").Replace(out.redactor.Shown(text))
	return bounded(visible(text), maxCell)
}

// Moment writes a time for people: 2026-11-22 03:44 UTC.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
