package records

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/values"
	"bootstrap/cpi"
	"bootstrap/internal/number"
	"bootstrap/state"
	"bootstrap/state/file"
)

func newStateImport(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	var in state.Import
	var from string
	cmd := &cobra.Command{
		Use:   "import {MANIFEST | --state FILE} {--from FILE | --vm-cid CID | --disk-cid CID | --stemcell-cid CID}",
		Short: "Record existing CIDs, or the state of another tool",
		Long: `Import records an existing VM, disk and stemcell, or all that another state file
records: one of create-env, of bosh-init, or of bootstrap from another place. It
neither asks nor changes the cloud, and overwrites no existing record.

A file of create-env needs no import: give it with --state. The states of several
instances, in the folder NAME, need none either: give NAME.json with --state.`,
		Example: "  bootstrap state import bosh.yml --vm-cid i-0a1b2c3d --disk-cid vol-4e5f6a7b --disk-size 65536\n" +
			"  bootstrap state import bosh.yml --from old/bosh-deployments.yml",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, _, err := choice.split(cmd, args, 0, 0)
			if err != nil {
				return err
			}
			if from == "" && (in == state.Import{}) {
				return errors.New("import needs --from FILE or at least one CID, as with --vm-cid CID")
			}
			if err := errors.Join(checkCID("--vm-cid", in.VM), checkCID("--disk-cid", in.Disk), checkCID("--stemcell-cid", in.Stemcell.CID)); err != nil {
				return err
			}
			c.Start()
			return choice.change(cmd.Context(), path, true, func(st *state.State) error {
				if from == "" {
					return st.Import(in)
				}
				other, err := file.ReadAny(cmd.Context(), from)
				if err != nil {
					return err
				}
				return st.Replace(other)
			})
		},
	}
	f := cmd.Flags()
	choice.flags(f, true)
	choice.instanceFlag(f)
	f.StringVar(&from, "from", "", "the state `FILE` of another tool, or of bootstrap elsewhere")
	f.StringVar(&in.VM, "vm-cid", "", "the `CID` of the VM, which becomes the current one")
	f.StringVar(&in.AgentID, "agent-id", "", "the agent `ID` that the VM was created with")
	f.StringVar(&in.Disk, "disk-cid", "", "the `CID` of the persistent disk, which becomes the current one")
	f.Var(values.Whole{To: &in.DiskSize, Bound: number.Bound{Most: number.MaxMiB}}, "disk-size", "its size in `MIB`; if unknown, deploy moves its data to a new disk")
	f.StringVar(&in.Stemcell.CID, "stemcell-cid", "", "the `CID` of the stemcell that the VM was created from")
	f.StringVar(&in.Stemcell.Name, "stemcell-name", "", "its `NAME` (default: "+state.UnknownStemcell+")")
	f.StringVar(&in.Stemcell.Version, "stemcell-version", "", "its `VERSION`")
	return cmd
}

// checkCID returns an error if a text cannot be a CID; an empty one is allowed.
func checkCID(flag, cid string) error {
	if cid == "" {
		return nil
	}
	if err := cpi.CheckCID(cid); err != nil {
		return fmt.Errorf("%s %.100q cannot be a CID: %w", flag, cid, err)
	}
	return nil
}
