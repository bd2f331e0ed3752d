package cmd

import (
	"github.com/spf13/cobra"

	"bootstrap/cmd/scaffold"
	"bootstrap/cmd/ui"
)

func newInit(c *console) *cobra.Command {
	return scaffold.Command(secretsOf(c), c.boshHome, func(r *scaffold.Result) {
		if c.json {
			printLines(c, "initialized", []*scaffold.Result{r})
			return
		}
		c.print(func(out *ui.Writer) { ui.Say(out, r.Text()) })
	})
}
