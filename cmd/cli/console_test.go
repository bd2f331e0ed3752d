package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/manifest/document"
)

// Only its owner can read a log file, and it has no secret.
func TestLogIsRedacted(t *testing.T) {
	c := New(Process{})
	c.Redactor.Add("s3cret-pass")
	path := filepath.Join(t.TempDir(), "cpi.log")
	log, err := c.openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"stderr: s3c", "ret-pass\nand an end without newline s3cret", "-pass"} {
		if _, err := log.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "stderr: <redacted>\nand an end without newline <redacted>" {
		t.Errorf("log %q, %v", data, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// If there are thousands of problems, only some are printed.
func TestManyProblems(t *testing.T) {
	var problems document.Problems
	for i := range 1000 {
		problems = append(problems, document.Problem{Pos: document.Position{File: "m.yml", Line: i + 1}, Message: "wrong", Warning: i < 900})
	}
	for _, json := range []bool{false, true} {
		var out, errs bytes.Buffer
		c := New(Process{Stdout: &out, Stderr: &errs})
		c.json, c.line.understood = json, true
		c.finish(&problems)
		text := out.String() + errs.String()
		lines := strings.Count(text, "\n")
		if lines > 220 || !strings.Contains(text, "m.yml: warning: … and 800 more") || !strings.Contains(text, "m.yml:1000") {
			t.Errorf("%d lines:\n%s", lines, text)
		}
	}
	if err := errors.Join(&problems); len(err.Error()) > 20000 {
		t.Errorf("%d bytes", len(err.Error()))
	}
}
