package explain

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Every page of an error has the same parts, so that a reader finds what to do; its first
// sentence fits the list, and its lines fit narrow terminals.
func TestParts(t *testing.T) {
	pages := Pages()
	for _, p := range pages {
		if s := p.Summary(); s == "" || utf8.RuneCountInString(s) > 130 {
			t.Errorf("%s: the first sentence has %d characters: %s", p.Name, utf8.RuneCountInString(s), s)
		}
		if strings.ContainsAny(p.Text, "|") || strings.Contains(p.Text, "\n#") || strings.Contains(p.Text, "```") {
			t.Errorf("%s: a terminal shows no tables, headings and blocks", p.Name)
		}
		if len(p.Messages) == 0 {
			continue
		}
		at := -1
		for _, part := range []string{"\n\n**Why**\n\n- ", "\n\n**What to do**\n\n- ", "\n\n**What is safe**\n\n"} {
			next := strings.Index(p.Text, part)
			if next < 0 && strings.Contains(part, "Why") { // if there is only one cause, it is in the first paragraph
				continue
			}
			if next <= at {
				t.Errorf("%s lacks %q, or has it in another order", p.Name, strings.TrimSpace(part))
			}
			at = next
		}
		for _, width := range []int{40, 80, 120} {
			for line := range strings.Lines(p.Plain(width)) {
				line = strings.TrimRight(line, "\n")
				if words := strings.Fields(line); utf8.RuneCountInString(line) > width && len(words) > 1 && utf8.RuneCountInString(words[0]) < width/2 && words[0] != "-" {
					t.Errorf("%s in %d columns: %s", p.Name, width, line)
				}
			}
		}
	}
}

func TestPlain(t *testing.T) {
	pages := parse("# Title\n\n## Group\n\n### a-name\n\n> cannot do …\n> or … (SomeName)\n\nThe first sentence. A second one\nwith [a page](team.md).\n\n**Why**\n\n- One cause,\n  on two lines.\n- Another.\n\n**What is safe**\n\nThe disk.\n\n## Next\n\n### Exit code 7\n\nSeven.\n\n### other-name\n\n> wrong\n\nText.\n")
	if len(pages) != 3 || pages[1].Name != "7" || pages[0].Summary() != "The first sentence" {
		t.Fatalf("%+v", pages)
	}
	const want = `a-name

  cannot do …
  or … (SomeName)

The first sentence. A second one with
a page (docs/team.md).

Why:

  - One cause, on two lines.
  - Another.

What is safe:

The disk.
`
	if got := pages[0].Plain(38); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := pages[1].Plain(38); got != "Exit code 7\n\nSeven.\n" {
		t.Errorf("got %q", got)
	}
	if got := pages[2].Plain(38); got != "other-name\n\n  wrong\n\nText.\n\nWhat is safe:\n\nNothing was changed.\n" {
		t.Errorf("got %q", got)
	}
	if p, ok := Find(pages, "SomeName"); !ok || p.Name != "a-name" {
		t.Error("a name in the message is not found")
	}
	if _, ok := Find(pages, "other"); ok {
		t.Error("a page is found that does not exist")
	}
}
