// Traced is the program with points at which a test can kill it, stop it or make
// it write a trace. docs/reliability.md lists the variables that select the
// points.
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
// home folder, if that file exists. No variable of the environment can name another
// file, because a Ruby gets none.
func traceRuby(args []string) {
	f, err := os.OpenFile(filepath.Join(os.Getenv("HOME"), "rubies"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return
	}
	// The test that reads the file notices a missing line.
	_, _ = fmt.Fprintln(f, os.Getpid(), strings.Join(args, " "))
	_ = f.Close()
}
