package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bootstrap/cmd/ui"
	"bootstrap/deployer/report"
)

// Each line of an errand is an event, also if it comes in pieces, or many lines come at once.
func TestLogLines(t *testing.T) {
	var got []string
	l := &logLines{to: func(e report.Event) { got = append(got, e.Message) }}
	for _, piece := range []string{"a", "b\n\nc", "d\ne\n", "", "f"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(got, "|"); got != "ab||cd|e|f" {
		t.Errorf("got %q", got)
	}
	got = nil
	begun := time.Now()
	if _, err := l.Write([]byte(strings.Repeat("123456789\n", 200_000))); err != nil {
		t.Fatal(err)
	}
	if len(got) != 200_000 || time.Since(begun) > 30*time.Second {
		t.Errorf("%d lines in %s", len(got), time.Since(begun))
	}
}

// A folder for logs is checked before the errand runs, which would run for nothing.
func TestMakeFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		if err := makeFolder(dir); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if makeFolder(file) == nil {
		t.Error("a file is no folder")
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	// Otherwise the test's folder could not be removed.
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	other, err := os.Create(filepath.Join(dir, "other"))
	if err == nil {
		_ = other.Close()
		t.Skip("this user, such as root, or this system may write to each folder")
	}
	if makeFolder(dir) == nil {
		t.Error("the folder cannot be written to")
	}
}

// Of a line without an end, only the beginning is held.
func TestLogLinesWithoutAnEnd(t *testing.T) {
	var got []report.Event
	l := &logLines{to: func(e report.Event) { got = append(got, e) }}
	part := []byte(strings.Repeat("x", 100_000))
	for range 40 {
		if _, err := l.Write(part); err != nil {
			t.Fatal(err)
		}
		if len(l.rest) > ui.MaxHeld {
			t.Fatalf("%d bytes are held", len(l.rest))
		}
	}
	if _, err := l.Write([]byte("\nnext\n")); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || len(got[0].Message) != ui.MaxHeld || len(got[0].Message)+got[0].More != 4_000_000 || got[1].Message != "next" || got[1].More != 0 {
		t.Errorf("%d events", len(got))
	}
}
