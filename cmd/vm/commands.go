// Package vm has the commands about the VM of a deployment and its jobs.
package vm

import (
	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
)

// Commands returns the commands about the VM and its jobs.
func Commands(c *cli.Console) []*cobra.Command {
	return []*cobra.Command{newStatus(c), newLogs(c), newSSH(c), c.LikeBosh(newStop(c), "stop-env"), c.LikeBosh(newStart(c), "start-env"), newRestart(c), newCCK(c), newIgnore(c), newUnignore(c), newRunErrand(c)}
}
