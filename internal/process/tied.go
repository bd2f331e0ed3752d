package process

import "os"

// Tied is a command that is killed, with all its descendants, when the command itself
// ends and when this process dies.
type Tied struct {
	Args []string
	Dir  string
	Env  []string
	Out  *os.File // gets the output of the command
}
