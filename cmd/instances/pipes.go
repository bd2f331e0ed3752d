package instances

import (
	"fmt"

	"bootstrap/deployer"
	"bootstrap/manifest/document"
)

// RefusePipes returns an error if an input of a command is a pipe, which can be read only
// once: the command reads it for each instance. does is the action for the message, such as
// "stop several instances".
func RefusePipes(does string, opts deployer.Options) error {
	pipe := opts.Inputs.Pipe(opts.Manifest)
	if pipe == "" {
		return nil
	}
	return &document.FileError{Err: fmt.Errorf("cannot %s with %s: it is a pipe, and each instance reads it again; write its content to a file, and name that", does, pipe)}
}
