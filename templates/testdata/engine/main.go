// The program engine is the child process of a templates.Engine or of a
// templates.Shared, and nothing else.
package main

import (
	"context"
	"os"
	"slices"

	"bootstrap/templates"
)

func main() {
	if len(os.Args) < 5 || !slices.Equal(os.Args[1:4], []string{"plugin", "templates", "--cache"}) {
		os.Exit(64)
	}
	var status int
	var err error
	switch rest := os.Args[5:]; {
	case len(rest) == 0:
		status, err = templates.Serve(context.Background(), os.Stdin, os.Stdout, os.Stderr, os.Args[4])
	case len(rest) == 2 && rest[0] == "--listen":
		err = templates.Listen(context.Background(), os.Stdin, os.Stdout, os.Args[4], rest[1])
	default:
		status = 64
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(status)
}
