// Package manifests has the commands about the manifest, its variables and its templates.
package manifests

import (
	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/scaffold"
	"bootstrap/cmd/secrets"
)

// Commands returns the commands about the manifest and its inputs.
func Commands(c *cli.Console) []*cobra.Command {
	return []*cobra.Command{scaffold.New(c), newValidate(c), newInterpolate(c), newRender(c), newLinks(c), newUpdateLock(c), newVariables(c), secrets.New(c), newSchema(c)}
}
