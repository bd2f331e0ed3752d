package failure

// Error is an error with the name of the documentation page that explains it.
type Error struct {
	name string
	err  error
}

// Named returns err with the name of a page, such as port-taken. It is for errors whose
// type no caller needs.
func Named(name string, err error) error { return &Error{name, err} }

// Error returns the text of the error alone.
func (e *Error) Error() string { return e.err.Error() }

// Name returns the name of the page.
func (e *Error) Name() string { return e.name }

// Unwrap returns the error.
func (e *Error) Unwrap() error { return e.err }
