package process

import "os"

// Tied is a command that is killed, with everything that it starts, when it ends
// itself and when this process dies.
type Tied struct {
	Args []string
	Dir  string
	Env  []string
	Out  *os.File // its output
}
