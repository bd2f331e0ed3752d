package state

import "errors"

// Peek is Open for those who only look: nothing is locked or written, and an
// Update of what it returns fails.
func Peek(path string, opts Options) (*File, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	l, err := load(path, opts)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, opts: opts, loaded: l}
	for _, err := range f.warnings {
		f.warn(err)
	}
	return f, nil
}

var errPeeked = errors.New("cannot write the deployment state: it was only looked at")
