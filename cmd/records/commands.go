// Package records has the commands about the state, addresses, disks and the cache.
package records

import (
	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
)

// Commands returns the commands about the state, addresses, disks and the cache.
func Commands(c *cli.Console) []*cobra.Command {
	return []*cobra.Command{newList(c), newState(c), newDisks(c), newEvents(c), newAddresses(c), newCache(c)}
}
