package ui

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"
)

// Table prints cells in columns, of which each row has as many. Each cell is shown
// as one line of limited length.
type Table struct {
	out    *Writer
	widths []int
	// blocks are the rows: cells that end with a tab, or the last one with the end of
	// the line. A table may have many thousands.
	blocks [][]byte
}

// blockSize is about how many bytes of rows are kept or written at once.
const blockSize = 32 << 10

// NewTable begins a table; without columns it has no heading.
func NewTable(out *Writer, columns ...string) *Table {
	t := &Table{out: out}
	if len(columns) > 0 {
		t.Row(columns...)
	}
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	last := len(t.blocks) - 1
	if last < 0 || len(t.blocks[last]) > blockSize-maxCell {
		t.blocks = append(t.blocks, make([]byte, 0, blockSize))
		last++
	}
	block := t.blocks[last]
	for i, text := range cells {
		text = cell(t.out, text)
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(text))
		if i > 0 {
			block = append(block, '\t')
		}
		block = append(block, text...)
	}
	t.blocks[last] = append(block, '\n')
}

// Print writes the table.
func (t *Table) Print() {
	var out []byte
	for _, block := range t.blocks {
		for line := range bytes.Lines(block) {
			cells := bytes.Split(line, []byte{'\t'})
			for i, text := range cells {
				out = append(out, text...)
				if i < len(cells)-1 {
					out = append(out, strings.Repeat(" ", t.widths[i]+2-utf8.RuneCount(text))...)
				}
			}
		}
		_, _ = t.out.Write(out) // a Writer never fails
		out = out[:0]
	}
}

func cell(out *Writer, text string) string {
	text = out.redactor.Shown(text)
	if strings.ContainsAny(text, "\t\n\v\f") { // these would end a cell
		text = strings.NewReplacer("\t", " ", "\n", " ", "\v", " ", "\f", " ").Replace(text)
	}
	return bounded(visible(text), maxCell)
}

// Moment writes a time for people: 2026-11-22 03:44 UTC.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
