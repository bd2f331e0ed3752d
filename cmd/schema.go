package cmd

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"bootstrap/fleet"
	"bootstrap/manifest"
)

func newSchema(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [fleet]",
		Short: "Print the JSON Schema of a manifest or a fleet file",
		Long: `Schema prints the JSON Schema of a manifest or, with the argument fleet, of a
fleet file. Editors complete and check files with it. Editors with
yaml-language-server find it by the first line of the file:

  # yaml-language-server: $schema=manifest.schema.json`,
		Example:   "  bootstrap schema > manifest.schema.json\n  bootstrap schema fleet > fleet.schema.json",
		ValidArgs: []string{"fleet"},
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return tooMany(cmd, args)
			case len(args) == 1 && args[0] != "fleet":
				return errors.New("schema takes no file, only the argument fleet: without it, the schema is that of a manifest")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c.started = true
			of := manifest.Schema
			if len(args) > 0 {
				of = fleet.Schema
			}
			schema, err := of()
			if err != nil {
				return err
			}
			if c.json {
				c.quiet = true
				c.redactor.Lines(c.out).Product("schema", schemaLine{schema})
				return nil
			}
			c.product("schema", string(schema))
			return nil
		},
	}
}

type schemaLine struct {
	Schema json.RawMessage `json:"schema"`
}
