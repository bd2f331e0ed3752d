package state

import "errors"

// Peek is Read for those who take an open file: an Update of what it returns
// fails. home is ~/.bosh or empty, as in Options.
func Peek(path, home string) (*File, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	l, err := load(path, Options{Home: home})
	if err != nil {
		return nil, err
	}
	return &File{path: path, opts: Options{Home: home}, loaded: l}, nil
}

var errPeeked = errors.New("cannot write the deployment state: it was only looked at")
