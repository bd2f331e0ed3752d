// Package failure has exit codes, which scripts may rely on, and names of documentation
// pages; an error has one of each. docs/troubleshooting.md lists both.
package failure

// Code is the result of the method ExitCode of an error. It is not an int, because an
// *exec.ExitError has a method ExitCode, too, which returns the exit code of another
// program.
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
