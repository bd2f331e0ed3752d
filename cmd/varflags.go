package cmd

import (
	"github.com/spf13/pflag"

	"bootstrap/manifest"
)

// varFlags adds the flags for operations files and variables, which every
// command that reads a manifest has, and fills in what else they need.
func (c *console) varFlags(f *pflag.FlagSet, inputs *manifest.Options) {
	f.StringArrayVarP(&inputs.Ops, "ops-file", "o", nil, "apply the operations of the YAML file `PATH`; may be repeated, also those below")
	f.StringArrayVarP(&inputs.Vars, "var", "v", nil, "give a variable its value, as `NAME=VALUE`; the value is read as YAML")
	f.StringArrayVar(&inputs.VarFiles, "var-file", nil, "give a variable the content of a file, as `NAME=PATH`")
	f.StringArrayVarP(&inputs.VarsFiles, "vars-file", "l", nil, "read variables from the YAML file `PATH`")
	f.StringArrayVar(&inputs.VarsEnv, "vars-env", nil, "read variables from the environment: `PREFIX`_name=VALUE")
	f.StringVar(&inputs.VarsStore, "vars-store", "", "the YAML file `PATH` keeps generated variables")
	inputs.Environ = c.env
	inputs.Stdin = c.stdin
}
