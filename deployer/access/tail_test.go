package access

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// archiveOf returns an archive in the agents' format, from pairs of name and content.
func archiveOf(t *testing.T, files ...string) io.Reader {
	t.Helper()
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	out := tar.NewWriter(zip)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Name: files[i], Mode: 0o640, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg}
		if err := out.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(out, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []io.Closer{out, zip} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return &buf
}

func TestTailArchive(t *testing.T) {
	var long strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&long, "line %d\n", i)
	}
	files, err := tailArchive(archiveOf(t,
		"./web/long.log", long.String(),
		"./web/empty.log", "",
		"./web/cut.log", "one\r\ntwo\nthr", "./web/gone.log", "yesterday",
		"./web/colours.log", "\x1b[31mred\x1b[0m \x1b]0;title\x07\xff\n",
		"./web/wide.log", strings.Repeat("x", 100<<10)+"\nend\n",
		"./web/old.log.1", "old\n",
		"./web/old.log.2.gz", "old\n",
	), 2, maxTailLine, map[string]int64{"web/cut.log": 5, "web/gone.log": 9})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, f := range files {
		got[f.name] = f.lines
	}
	want := map[string][]string{
		"web/long.log":    {"line 4998", "line 4999"},
		"web/cut.log":     {"two", "thr"},
		"web/colours.log": {"red ]0;title\ufffd"},
		"web/wide.log":    {strings.Repeat("x", maxTailLine) + "… (98304 more bytes)", "end"},
	}
	for name, lines := range want {
		if !slices.Equal(got[name], lines) {
			t.Errorf("%s: %.100q", name, got[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
	if _, err := tailArchive(strings.NewReader("no archive"), 2, maxTailLine, nil); err == nil {
		t.Error("text is read as an archive")
	}
}

// An incomplete last line is returned separately.
func TestReadLines(t *testing.T) {
	lines, size, rest, err := readLines(strings.NewReader("a\nbc\ndef"), 1, maxLogLine)
	if err != nil || !slices.Equal(lines, []string{"bc"}) || size != 5 || rest != "def" {
		t.Errorf("got %q, %d, %q, %v", lines, size, rest, err)
	}
	lines, size, _, err = readLines(strings.NewReader(strings.Repeat("y", 3*maxTailLine)+"\n"), 5, maxLogLine)
	if err != nil || len(lines) != 1 || len(lines[0]) != 3*maxTailLine || size != 3*maxTailLine+1 {
		t.Errorf("a long line: %d lines, %d bytes, %v", len(lines), size, err)
	}
}

// A follower shows each line once, even if a log was rotated.
func TestFollower(t *testing.T) {
	f := &follower{shown: map[string]int64{}, first: 1}
	var shown []string
	poll := func(files ...string) []string {
		t.Helper()
		shown = nil
		if err := f.read(archiveOf(t, files...), func(name string, lines []string) {
			shown = append(shown, name+": "+strings.Join(lines, "|"))
		}); err != nil {
			t.Fatal(err)
		}
		return shown
	}
	for i, c := range []struct {
		files, want []string
	}{
		{[]string{"b.log", "1\n2\n", "a.log", "x\ny"}, []string{"a.log: x", "b.log: 2"}},
		{[]string{"b.log", "1\n2\n", "a.log", "x\ny"}, nil},
		{[]string{"b.log", "1\n2\n3\n4\n", "a.log", "x\nyz\n"}, []string{"a.log: yz", "b.log: 3|4"}},
		{[]string{"b.log", "new\n", "c.log", "first\nsecond\n"}, []string{"b.log: new", "c.log: first|second"}},
	} {
		if got := poll(c.files...); !slices.Equal(got, c.want) {
			t.Errorf("poll %d: %q, want %q", i, got, c.want)
		}
	}
}
