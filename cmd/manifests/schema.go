package manifests

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/fleet"
	"bootstrap/manifest"
)

func newSchema(c *cli.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [fleet | environment]",
		Short: "Print the JSON Schema of a manifest, a fleet file or bootstrap.yml",
		Long: `Schema prints the JSON Schema of a manifest, of a fleet file, or of bootstrap.yml
(environment). Editors with yaml-language-server find it by the first line of the
file:

  # yaml-language-server: $schema=manifest.schema.json`,
		Example:   "  bootstrap schema > manifest.schema.json\n  bootstrap schema fleet > fleet.schema.json\n  bootstrap schema environment > environment.schema.json",
		ValidArgs: []string{"fleet", "environment"},
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return cli.TooMany(cmd, args)
			case len(args) == 1 && !slices.Contains(cmd.ValidArgs, args[0]):
				return errors.New("schema takes no file, only the argument fleet or environment: without it, the schema is that of a manifest")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c.Start()
			of := map[string]func() ([]byte, error){"": manifest.Schema, "fleet": fleet.Schema, "environment": environment.Schema}
			schema, err := of[cli.Manifest(args)]()
			if err != nil {
				return err
			}
			if c.JSON() {
				c.PrintProduct("schema", SchemaLine{schema})
				return nil
			}
			c.Product("schema", string(schema))
			return nil
		},
	}
}

// SchemaLine is a schema as --json prints it.
type SchemaLine struct {
	Schema json.RawMessage `json:"schema"`
}
