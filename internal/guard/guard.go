// Package guard turns a panic into an error, so that a defect of this program ends a run
// like every other failure: with a clean-up and a message.
package guard

import (
	"fmt"
	"runtime/debug"
)

// Panic is a panic that was caught.
type Panic struct {
	Value any    // may contain secrets
	Stack []byte // stack of the goroutine that panicked
}

func (p *Panic) Error() string { return fmt.Sprintf("a defect of bootstrap: %v", p.Value) }

// newPanic returns the Panic for a value that recover returned; one that already
// is a Panic stays as it is.
func newPanic(value any) *Panic {
	if p, again := value.(*Panic); again {
		return p
	}
	return &Panic{Value: value, Stack: debug.Stack()}
}

// Catch turns a panic of the function that defers it into that function's error.
func Catch(err *error) {
	if value := recover(); value != nil {
		*err = newPanic(value)
	}
}

// Call calls fn and returns its error, or its panic.
func Call(fn func() error) (err error) {
	defer Catch(&err)
	return fn()
}

// Func returns fn with its panics as errors. It is for a goroutine, in which only fn
// itself can catch its panics.
func Func(fn func() error) func() error {
	return func() error { return Call(fn) }
}
