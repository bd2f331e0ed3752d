//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
)

// terminal ANSWER COMMAND... runs a command at a terminal and prints what that
// shows. When the command asks, asked.sh runs, if there is one, and then ANSWER
// is typed; an empty ANSWER is for a command that must not ask, ctrl-c is the
// key.
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
	for _, name := range []string{"HOME", "PATH", "WORK", "TMPDIR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	screen, err := pty.Start(cmd)
	ts.Check(err)
	defer screen.Close()
	// A command that waits for ever is ended, and read no further.
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

// watch reads what the terminal shows until the command has ended, and types
// the answer when it asks.
func watch(ts *testscript.TestScript, screen io.ReadWriter, answer string) (shown []byte, asked bool) {
	piece := make([]byte, 4096)
	for {
		n, err := screen.Read(piece)
		shown = append(shown, piece[:n]...)
		if !asked && bytes.HasSuffix(bytes.TrimRight(shown, " "), []byte("Go on? [yN]:")) {
			asked = true
			if hook := ts.MkAbs("asked.sh"); exists(hook) {
				out, err := exec.Command("sh", "-c", "cd '"+ts.MkAbs(".")+"' && sh asked.sh").CombinedOutput()
				if err != nil {
					ts.Fatalf("asked.sh: %v\n%s", err, out)
				}
			}
			typed := answer + "\n"
			if answer == "ctrl-c" {
				typed = "\x03"
			}
			if _, err := io.WriteString(screen, typed); err != nil {
				ts.Fatalf("cannot answer: %v", err)
			}
		}
		if err != nil { // Linux tells the end of a terminal by an error
			return shown, asked
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
