package ui

import (
	"strings"
	"testing"
	"time"
)

// The work for a line that comes in many pieces grows with its length, not with its square.
func TestLongLineInPieces(t *testing.T) {
	var out strings.Builder
	w := (&Redactor{}).Writer(&out)
	piece := []byte(strings.Repeat("x", 256))
	begun := time.Now()
	for range 1 << 17 {
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write([]byte("y\nrest")); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("x", maxLine) + "… (33538049 more bytes)\nrest"; out.String() != want {
		t.Errorf("%d bytes, end %q", out.Len(), out.String()[max(0, out.Len()-60):])
	}
}
