package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ofBosh is an annotation: it marks a flag that only the names of bosh accept.
const ofBosh = "of bosh"

// LikeBosh gives a command its name in bosh, with the global flags of bosh. These have no
// effect, as in bosh.
func (c *Console) LikeBosh(cmd *cobra.Command, name string) *cobra.Command {
	cmd.Aliases = append(cmd.Aliases, name)
	f := cmd.Flags()
	for _, flag := range []struct{ name, short, usage string }{
		{"config", "", "`PATH`"}, {"environment", "e", "`NAME`"}, {"ca-cert", "", "`PATH`"}, {"client", "", "`NAME`"},
		{"client-secret", "", "`SECRET`"}, {"deployment", "d", "`NAME`"}, {"column", "", "`NAME`"}, {"parallel", "", "`NUMBER`"},
	} {
		f.StringP(flag.name, flag.short, "", flag.usage)
		hideFlag(f, flag.name)
	}
	f.Bool("sha2", false, "use SHA-256")
	hideFlag(f, "sha2")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if given := boshFlags(cmd); len(given) > 0 {
			if c.Reports.show == nil {
				c.Reports.show = c.Renderer(c.out)
			}
			c.Warn(strings.Join(given, ", ") + ": accepted for scripts of bosh, without effect")
		}
		return run(cmd, args)
	}
	return cmd
}

// hideFlag marks a flag as one that only the names of bosh accept.
func hideFlag(f *pflag.FlagSet, name string) {
	flag := f.Lookup(name)
	flag.Hidden, flag.Annotations = true, map[string][]string{ofBosh: nil}
}

// boshFlags returns the given flags that only the names of bosh accept.
func boshFlags(cmd *cobra.Command) (given []string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, of := f.Annotations[ofBosh]; of {
			given = append(given, "--"+f.Name)
		}
	})
	return given
}

// refuseBoshFlags returns an error for flags that only the names of bosh accept.
func refuseBoshFlags(cmd *cobra.Command) error {
	given := boshFlags(cmd)
	if len(given) == 0 || strings.HasSuffix(cmd.CalledAs(), "-env") {
		return nil
	}
	return fmt.Errorf("%s has no flag %s", ShortPath(cmd), given[0])
}
