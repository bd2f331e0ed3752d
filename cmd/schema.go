package cmd

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"bootstrap/manifest"
)

func newSchema(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a manifest",
		Long: `Schema prints the JSON Schema of a manifest, with which editors complete and check
manifests. Editors with yaml-language-server find it by the manifest's first line:

  # yaml-language-server: $schema=manifest.schema.json`,
		Example: "  bootstrap schema > manifest.schema.json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			c.started = true
			schema, err := manifest.Schema()
			if err != nil {
				return err
			}
			if c.json {
				c.quiet = true
				c.redactor.Lines(c.out).Product("schema", struct {
					Schema json.RawMessage `json:"schema"`
				}{schema})
				return nil
			}
			c.product("schema", string(schema))
			return nil
		},
	}
}
