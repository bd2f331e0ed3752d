package process

import (
	"context"
	"errors"
)

// Run returns an error: on Windows a command's descendants cannot be killed here, and
// what it runs wants bash.
func (c Tied) Run(context.Context) (int, error) {
	return 0, errors.New("scripts of packages are not run on Windows: use WSL 2 or the container image of bootstrap")
}
