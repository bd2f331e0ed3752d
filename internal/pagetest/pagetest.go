// Package pagetest finds the blocks of commands in pages of Markdown, for tests that run
// them or check them.
package pagetest

import (
	"regexp"
	"strings"
)

// Block is a fenced block of a page.
type Block struct {
	Line   int    // line of the fence, from 1
	Lang   string // sh, console, yaml; empty: none
	Text   string
	NotRun string // why the commands are not run: the comment `<!-- not run: … -->` before the block
	Before string // commands that prepare it, which readers do not see: `<!-- before: … -->`
}

var (
	notRun = regexp.MustCompile(`(?s)<!-- not run: (.*?) -->`)
	before = regexp.MustCompile(`(?s)<!-- before:\s(.*?)-->`)
)

// Blocks returns the blocks of a page in their order. A comment counts for the block that
// follows it, before any other text.
func Blocks(page string) []Block {
	var blocks []Block
	var open *Block
	var fence, indent string
	above := "" // comments since the last text
	for i, line := range strings.Split(page, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case open == nil && strings.HasPrefix(trimmed, "```"):
			lang := strings.TrimLeft(trimmed, "`")
			fence, indent = trimmed[:len(trimmed)-len(lang)], line[:len(line)-len(trimmed)]
			open = &Block{Line: i + 1, Lang: strings.TrimSpace(lang)}
			if m := notRun.FindStringSubmatch(above); m != nil {
				open.NotRun = strings.Join(strings.Fields(m[1]), " ")
			}
			for _, m := range before.FindAllStringSubmatch(above, -1) {
				open.Before += strings.TrimSpace(m[1]) + "\n"
			}
			above = ""
		case open == nil:
			commented := strings.Count(above, "<!--") > strings.Count(above, "-->")
			if !commented && trimmed != "" && !strings.HasPrefix(trimmed, "<!--") {
				above = ""
				continue
			}
			above += line + "\n"
		case strings.TrimSpace(trimmed) == fence:
			blocks = append(blocks, *open)
			open = nil
		default:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	return blocks
}

// Step is a command of a block, and what the page shows of its output.
type Step struct {
	Command string // may have several lines
	Output  []string
}

// Commands returns the commands of a block: of a console all lines that begin with "$ ",
// each with the output below it; of a script (sh or bash) the whole text. Other blocks
// have no commands.
func (b Block) Commands() []Step {
	switch b.Lang {
	case "sh", "bash":
		return []Step{{Command: b.Text}}
	case "console":
		var steps []Step
		for line := range strings.Lines(b.Text) {
			line = strings.TrimRight(line, "\n")
			command, begins := strings.CutPrefix(line, "$ ")
			last := len(steps) - 1
			switch {
			case begins:
				steps = append(steps, Step{Command: command})
			case last < 0:
			case len(steps[last].Output) == 0 && continued(steps[last].Command):
				steps[last].Command += "\n" + line
			default:
				steps[last].Output = append(steps[last].Output, line)
			}
		}
		return steps
	}
	return nil
}

// continued reports whether the next line belongs to the command.
func continued(command string) bool { return strings.HasSuffix(command, `\`) }

// Calls returns the calls of bootstrap in a script, each as a list of its words without
// the name of the program. A text in quotes is one word. Variables, and commands inside
// of words, are not expanded.
func Calls(script string) [][]string {
	var calls [][]string
	var words []string
	word, inWord, quote := "", false, rune(0)
	end := func() {
		if inWord {
			words = append(words, word)
		}
		word, inWord = "", false
	}
	flush := func() {
		end()
		if call := callIn(words); call != nil {
			calls = append(calls, call)
		}
		words = nil
	}
	runes := []rune(script)
	for i := 0; i < len(runes); i++ {
		c := runes[i]
		switch {
		case c == '\\' && i+1 < len(runes):
			i++
			if runes[i] != '\n' {
				word, inWord = word+string(runes[i]), true
			}
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word += string(c)
			}
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == '#' && !inWord:
			for i+1 < len(runes) && runes[i+1] != '\n' {
				i++
			}
		case strings.ContainsRune(";|&\n()`", c):
			if c == '(' && strings.HasSuffix(word, "$") { // $(bootstrap …
				word, inWord = "", false
			}
			flush()
		case c == ' ' || c == '\t':
			end()
		default:
			word, inWord = word+string(c), true
		}
	}
	flush()
	return calls
}

// callIn returns the arguments of bootstrap in a command with these words.
func callIn(words []string) []string {
	for i, w := range words {
		switch {
		case w == "bootstrap" || w == "./bootstrap":
			var args []string
			for _, arg := range words[i+1:] {
				if strings.HasPrefix(arg, ">") || strings.HasPrefix(arg, "<") || strings.HasPrefix(arg, "2>") {
					break
				}
				args = append(args, arg)
			}
			return append([]string{}, args...)
		case strings.Contains(w, "="), w == "sudo", w == "do", w == "then", w == "if", w == "!", w == "time", w == "exec", w == "env":
		default:
			return nil
		}
	}
	return nil
}

// Fits returns the first line of a shown output that the real output lacks, or "". The
// lines must be in the real output in the same order, with others between them allowed; …
// matches anything, and so does a line that consists only of dots.
func Fits(shown []string, output string) string {
	lines := strings.Split(Plain(output), "\n")
	for _, want := range shown {
		want = strings.TrimSpace(Plain(want))
		if strings.Trim(want, ".… ") == "" {
			continue
		}
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$")
		found := false
		for len(lines) > 0 && !found {
			found = pattern.MatchString(strings.TrimSpace(lines[0]))
			lines = lines[1:]
		}
		if !found {
			return want
		}
	}
	return ""
}

// variable lists patterns of texts that differ from run to run, and their replacements. The
// order counts.
var variable = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?( UTC)?`), "DATE"},
	{regexp.MustCompile(`\b(vm|disk|sc)-[0-9a-f]{16}\b`), "$1-CID"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|µs|s|m|h)(\d+s)?\b`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{12,64}\b`), "DIGEST"},
	{regexp.MustCompile(`\bage1[0-9a-z]{20,}`), "RECIPIENT"},
	{regexp.MustCompile(`\d+(\.\d+)? (B|[KMG]iB)\b`), "SIZE"},
	{regexp.MustCompile(`\d+(\.\d+)?%`), "PERCENT"},
	{regexp.MustCompile(`\b\d+ days? left`), "DAYS left"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// Plain replaces the parts of a text that differ from run to run by words: identifiers,
// times, sizes and digests.
func Plain(text string) string {
	for _, v := range variable {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return text
}
