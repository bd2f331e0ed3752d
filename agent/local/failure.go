package local

import "fmt"

// failf is an error in the words of the real agent, which its clients know.
func failf(format string, args ...any) error { return fmt.Errorf(format, args...) }
