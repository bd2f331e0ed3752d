package process

import (
	"context"
	"errors"
)

// Run returns an error: on Windows, this package cannot kill a command's descendants, and
// the commands that use it need bash.
func (c Tied) Run(context.Context) (int, error) {
	return 0, errors.New("scripts of packages are not run on Windows: use WSL 2 or the container image of bootstrap")
}
