package deploy

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
)

// someInstances are the flags that leave out instances of a deployment with several.
type someInstances struct {
	skip bool
	only string
}

func (s *someInstances) flags(f *pflag.FlagSet) {
	f.BoolVar(&s.skip, "skip-unreachable", false, "leave out instances with a silent agent")
	f.StringVar(&s.only, "only", "", "change only instances in the `STATE` failed: they do not run")
}

// choose passes the flags on to a command about several instances.
func (s *someInstances) choose(to *several) error {
	if s.only != "" && s.only != "failed" {
		return cli.WrongUsage(to.cmd, fmt.Errorf("--only takes the word failed, and not %q: --instance selects instances by their names", s.only))
	}
	to.skip, to.failed = s.skip, s.only != ""
	return nil
}

// refused returns an error if a flag is given though the command is about one instance.
func (s *someInstances) refused(cmd *cobra.Command) error {
	switch {
	case s.skip:
		return cli.WrongUsage(cmd, errors.New("--skip-unreachable is only for several instances: leave it out"))
	case s.only != "":
		return cli.WrongUsage(cmd, errors.New("--only is only for several instances: leave it out"))
	}
	return nil
}
