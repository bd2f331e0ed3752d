// Traced is the program with points at which a test can kill it, stop it or make
// it write a trace. docs/reliability.md lists the variables that select the
// points.
package main

import (
	"fmt"
	"os"

	"bootstrap/cmd"
)

func main() {
	p := cmd.Process{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ()}
	var err error
	if p.Trace, err = traceFrom(os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(p.Run())
}
