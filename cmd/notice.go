package cmd

import (
	"github.com/spf13/cobra"

	"bootstrap/templates"
)

func newNotice(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "notice",
		Short: "Print the licence and the notices of the embedded Ruby",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			c.started = true
			text, err := templates.Notice()
			if err != nil {
				return err
			}
			c.product("text", text)
			return nil
		},
	}
}
