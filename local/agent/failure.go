package agent

import "fmt"

// failf returns an error with the text of the real agent, which clients compare.
func failf(format string, args ...any) error { return fmt.Errorf(format, args...) }
