// Package failure has what an error tells the program about itself: its exit code, which
// scripts may rely on, and the page that explains it. docs/troubleshooting.md has both.
package failure

// Code is what the method ExitCode of an error returns. It is not an int: the ExitCode of
// an *exec.ExitError is that of another program.
type Code int

// The exit codes.
const (
	Done        Code = 0
	Failed      Code = 1
	Changes     Code = 2
	Usage       Code = 64
	Manifest    Code = 65
	NoState     Code = 66
	Agent       Code = 69
	CPI         Code = 70
	Moved       Code = 73
	PutBack     Code = 74
	Locked      Code = 75
	Unsent      Code = 76
	NotBelieved Code = 77
	Interrupted Code = 130
)
