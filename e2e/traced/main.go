// Traced is the program with points at which a test can kill it, stop it or make it write
// a trace. These variables of the environment select the points; the program for users
// ignores them.
//
//	BOOTSTRAP_TRACE=FILE           append a line for each point: "cpi create_vm before 1",
//	                               "agent stop after 2", "state write before 3"
//	BOOTSTRAP_TRACE_JSON=FOLDER    write what --json prints to a new file there, too, which
//	                               is compared with docs/json.schema.json
//	BOOTSTRAP_KILL_AT=LINE         kill the program there, as by kill -9
//	BOOTSTRAP_KILL_AFTER=50ms      kill it that long after the point
//	BOOTSTRAP_KILL_CPI=1           kill the CPI's process group, too; only at a point of
//	                               the moment "running"
//	BOOTSTRAP_KILLED=FILE          append the arguments there before it is killed
//	BOOTSTRAP_WAIT_AT=LINE,
//	BOOTSTRAP_WAIT_FILE=FILE       create the file there, and continue when it is removed
//
// A point is the moment before or after a call of the CPI, a message to the agent (or
// put_blob, get_blob) or a write of the state file; a call of the CPI also has one while
// it runs. The number counts points of that name.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/cmd"
	"bootstrap/cmd/cli"
)

func main() {
	p := cli.Process{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ()}
	var err error
	if p.Trace, err = traceFrom(os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if p.Stdout, err = keepJSON(os.Getenv("BOOTSTRAP_TRACE_JSON"), p.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if len(p.Args) > 1 && p.Args[0] == "plugin" && p.Args[1] == "templates" {
		traceRuby(p.Args)
	}
	os.Exit(cmd.Run(p))
}

// traceRuby appends the process and the arguments of a Ruby to the file rubies in the
// home folder, if that file exists. A variable of the environment cannot name the file,
// because a Ruby gets no such variables.
func traceRuby(args []string) {
	f, err := os.OpenFile(filepath.Join(os.Getenv("HOME"), "rubies"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return
	}
	// The test that reads the file notices a missing line.
	_, _ = fmt.Fprintln(f, os.Getpid(), strings.Join(args, " "))
	_ = f.Close()
}
