// Package deploy has the commands that plan, deploy and delete one deployment.
package deploy

import (
	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
)

// Commands returns the commands that deploy, plan and delete.
func Commands(c *cli.Console) []*cobra.Command {
	return []*cobra.Command{c.LikeBosh(newDeploy(c), "create-env"), newPlan(c), newReport(c), newRecreate(c), newCompile(c), c.LikeBosh(newDelete(c), "delete-env"), newDev(c)}
}
