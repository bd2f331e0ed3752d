// The program engine is the child process of a templates.Engine, and nothing
// else.
package main

import (
	"context"
	"os"

	"bootstrap/templates"
)

func main() {
	if len(os.Args) != 5 || os.Args[1] != "plugin" || os.Args[2] != "templates" || os.Args[3] != "--cache" {
		os.Exit(64)
	}
	status, err := templates.Serve(context.Background(), os.Stdin, os.Stdout, os.Stderr, os.Args[4])
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(status)
}
