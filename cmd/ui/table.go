package ui

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"bootstrap/internal/printable"
)

// Table prints cells in columns. All rows have the same number of cells. Each cell is one
// line of limited length.
type Table struct {
	out      *Writer
	headings []string
	widths   []int
	yields   []yield
	// blocks are the rows: each cell ends with a tab, and the last one with the end of
	// the line. A table may have many thousands of rows.
	blocks [][]byte
}

// yield says how narrow a column may become; 0: it may be left out.
type yield struct {
	column, width int
}

// blockSize is the approximate number of bytes of rows that are kept or written together.
const blockSize = 32 << 10

// NewTable begins a table. Without columns it has no heading, and on a narrow
// terminal its last cells are broken between words.
func NewTable(out *Writer, columns ...string) *Table {
	t := &Table{out: out, headings: columns}
	if len(columns) > 0 {
		t.Row(columns...)
	}
	return t
}

// Yield allows a column to become as narrow as width on a narrow terminal; 0 allows to
// leave it out. Columns yield in the order of the calls. Other columns are never
// shortened, so that a name or a CID can be copied.
func (t *Table) Yield(column string, width int) *Table {
	for i, heading := range t.headings {
		if heading == column {
			t.yields = append(t.yields, yield{i, width})
		}
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
		t.widths[i] = max(t.widths[i], runewidth.StringWidth(text))
		if i > 0 {
			block = append(block, '\t')
		}
		block = append(block, text...)
	}
	t.blocks[last] = append(block, '\n')
}

// gap is the space between two columns, and left is the heading for omitted ones.
const (
	gap  = 2
	left = "…"
)

// Print writes the table.
func (t *Table) Print() {
	widths, out := t.fit(), []byte(nil)
	for r, block := range t.blocks {
		for line := range bytes.Lines(block) {
			heading := r == 0 && out == nil && len(t.headings) > 0
			cells, used := bytes.Split(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\t'}), 0
			for i, text := range cells {
				if widths[i] == 0 && t.widths[i] > 0 {
					continue
				}
				out = append(out, strings.Repeat(" ", used)...)
				shown := t.broken(string(text), i, widths)
				if t.widths[i] > widths[i] {
					shown = runewidth.Truncate(shown, widths[i], "…")
				}
				out = append(out, shown...)
				used = max(widths[i]-runewidth.StringWidth(shown), 0) + gap
			}
			if heading && t.leavesOut(widths) {
				out = append(append(out, strings.Repeat(" ", used)...), left...)
			}
			out = append(out, '\n')
		}
		_, _ = t.out.Write(out) // a Writer never fails
		out = out[:0]
	}
}

func (t *Table) leavesOut(widths []int) bool {
	for i, width := range widths {
		if width == 0 && t.widths[i] > 0 {
			return true
		}
	}
	return false
}

// broken breaks the last cell of a table without headings between words.
func (t *Table) broken(text string, i int, widths []int) string {
	if len(t.headings) > 0 || i < len(widths)-1 {
		return text
	}
	indent := 0
	for _, width := range widths[:i] {
		indent += width + gap
	}
	return t.out.broken(text, indent)
}

// fit returns the widths of the columns on this terminal; 0: it is left out.
func (t *Table) fit() []int {
	widths, room := slices.Clone(t.widths), t.out.room()
	if room == 0 {
		return widths
	}
	excess := func() int {
		sum := -gap - room
		for _, width := range widths {
			if width > 0 {
				sum += width + gap
			}
		}
		if t.leavesOut(widths) {
			sum += gap + 1
		}
		return sum
	}
	done := 0
	for ; done < len(t.yields) && excess() > 0; done++ {
		y := t.yields[done]
		switch width := widths[y.column]; {
		case y.width == 0:
			widths[y.column] = 0
		case width > y.width:
			widths[y.column] = max(y.width, width-excess())
		}
	}
	// Space that the last columns left free widens the others again.
	for _, y := range slices.Backward(t.yields[:done]) {
		if free := -excess(); free > 0 && widths[y.column] > 0 {
			widths[y.column] = min(widths[y.column]+free, t.widths[y.column])
		}
	}
	return widths
}

// fingerprint matches SHA-1 and SHA-256 sums in hexadecimal digits.
var fingerprint = regexp.MustCompile(`\b([0-9a-f]{40}|[0-9a-f]{64})\b`)

// Brief returns a text with only 8 digits of each fingerprint on a terminal. Names
// that a person may have to copy must stay whole.
func (w *Writer) Brief(text string) string {
	if w.width == nil {
		return text
	}
	return fingerprint.ReplaceAllStringFunc(text, func(digits string) string { return digits[:8] })
}

func cell(out *Writer, text string) string {
	text = out.redactor.Shown(text)
	if strings.ContainsAny(text, "\t\n\v\f") { // these would end a cell
		text = strings.NewReplacer("\t", " ", "\n", " ", "\v", " ", "\f", " ").Replace(text)
	}
	return bounded(printable.Escaped(text), maxCell)
}

// Moment writes a time for people: 2026-11-22 03:44 UTC.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
