//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/creack/pty"
	"github.com/mattn/go-runewidth"
	"github.com/rogpeppe/go-internal/testscript"
)

// terminal ANSWER COMMAND... runs a command on a terminal and prints what the terminal
// shows. When the command asks a question, asked.sh runs, if it exists, and then ANSWER
// is typed. An empty ANSWER means that the command must not ask, ctrl-c is the key, and
// enter answers every question of init with its default. The terminal is $COLUMNS wide;
// the default is 80.
func terminal(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: terminal ANSWER COMMAND...")
	}
	path, err := exec.LookPath(args[1])
	if args[1] == "bootstrap" {
		dir, _, _ := strings.Cut(ts.Getenv("PATH"), string(os.PathListSeparator))
		path, err = dir+"/bootstrap", nil
	}
	ts.Check(err)
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "PATH", "WORK", "TMPDIR", "BOSH_NON_INTERACTIVE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	// Scripts look for words; --color always shows the colours.
	cmd.Env = append(cmd.Env, "TERM="+cmp.Or(ts.Getenv("TERM"), "xterm"), "NO_COLOR=1")
	columns, err := strconv.ParseUint(cmp.Or(ts.Getenv("COLUMNS"), "80"), 10, 16)
	ts.Check(err)
	screen, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: uint16(columns)})
	ts.Check(err)
	defer screen.Close()
	// A command that waits for ever is killed, and its output is not read to the
	// end.
	hung := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill(); screen.Close() })
	defer hung.Stop()
	shown, asked := watch(ts, screen, args[0])
	err = cmd.Wait()
	_, _ = ts.Stdout().Write(shown)
	switch {
	case (err != nil) != neg:
		ts.Fatalf("%v: %v\n%s", args, err, shown)
	case asked != (args[0] != ""):
		ts.Fatalf("%v: asked is %v\n%s", args, asked, shown)
	}
}

// watch reads the terminal until the command has ended, and types the answer when the
// command asks: the first time that it asks whether to continue, and every time that it
// asks for a passphrase.
func watch(ts *testscript.TestScript, screen io.ReadWriter, answer string) (shown []byte, asked bool) {
	piece := make([]byte, 4096)
	passphrase := regexp.MustCompile(`(assphrase of [^\r\n]*|The same again):$`)
	proposal := regexp.MustCompile(`\n(Release|[a-z_]+|[A-Za-z_ ]+ \[[^\]\r\n]*\]):$`)
	var answers []string // lines of a file, one for each question
	if name, ofFile := strings.CutPrefix(answer, "@"); ofFile {
		answers = strings.Split(ts.ReadFile(name), "\n")
		answer = "answers"
	}
	seen := 0 // length of shown up to the last question
	for {
		n, err := screen.Read(piece)
		shown = append(shown, piece[:n]...)
		end := bytes.TrimRight(shown, " ")
		if !asked && bytes.HasSuffix(end, []byte("Go on? [yN]:")) || len(end) > seen && passphrase.Match(end[seen:]) ||
			len(end) > seen && (answer == "enter" || answer == "ctrl-c" || answers != nil) && proposal.Match(end[seen:]) {
			asked, seen = true, len(end)
			if hook := ts.MkAbs("asked.sh"); exists(hook) {
				out, err := exec.Command("sh", "-c", "cd '"+ts.MkAbs(".")+"' && sh asked.sh").CombinedOutput()
				if err != nil {
					ts.Fatalf("asked.sh: %v\n%s", err, out)
				}
			}
			typed := answer + "\n"
			switch answer {
			case "ctrl-c":
				typed = "\x03"
			case "enter":
				typed = "\n"
			case "answers":
				typed = "\n"
				if len(answers) > 0 {
					typed, answers = answers[0]+"\n", answers[1:]
				}
			}
			if _, err := io.WriteString(screen, typed); err != nil {
				ts.Fatalf("cannot answer: %v", err)
			}
		}
		if err != nil { // on Linux, reading from a closed terminal fails
			return shown, asked
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// narrow COLUMNS FILE checks that no line of a stage and no redrawn line in a
// terminal's output is wider than the terminal.
func narrow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: narrow COLUMNS FILE")
	}
	columns, err := strconv.Atoi(args[0])
	ts.Check(err)
	redrawn := 0
	for line := range strings.Lines(strings.ReplaceAll(ts.ReadFile(args[1]), "\r\n", "\n")) {
		pieces := strings.Split(strings.TrimSuffix(line, "\n"), "\r\x1b[K")
		redrawn += len(pieces) - 1
		// Other lines may be sentences, which the terminal wraps.
		if len(pieces) == 1 && !strings.HasPrefix(line, "  ") {
			continue
		}
		if len(pieces) == 1 && !strings.Contains(line, "...") {
			continue
		}
		for _, piece := range pieces {
			if width := runewidth.StringWidth(piece); width >= columns {
				ts.Fatalf("%d wide: %q", width, piece)
			}
		}
	}
	if redrawn == 0 {
		ts.Fatalf("nothing was drawn again")
	}
}
