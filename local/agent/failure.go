package agent

import "fmt"

// failf returns an error in the words of the real agent, which clients compare.
func failf(format string, args ...any) error { return fmt.Errorf(format, args...) }
