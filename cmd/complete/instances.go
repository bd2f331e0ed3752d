package complete

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/deployment/record"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// storeTime is how long a person waits for a store: after that, this machine's copy counts.
const storeTime = 2 * time.Second

// recordFolder returns the folder of the record of the instances on a command line; empty:
// the line names none. If the record is in the store of a team whose key this machine
// trusts, its copy is updated.
func recordFolder(home Home, cmd *cobra.Command, args []string) string {
	manifest, address := "", ""
	if len(args) > 0 {
		manifest = args[0]
	}
	if f := cmd.Flags().Lookup("state"); f != nil {
		address = f.Value.String()
	}
	switch {
	case manifest == "" && address == "":
		return ""
	case !team.IsAddress(address):
		return record.DirOf(manifest, address)
	}
	dir, err := home()
	if err != nil {
		return ""
	}
	if team.Trusts(dir, address) {
		refreshRecord(cmd.Context(), dir, address)
	}
	return team.RecordIn(team.Folder(dir, team.Place(address)))
}

// refreshRecord updates this machine's copy of a record. Errors are ignored, because a shell
// could only print them into the command line.
func refreshRecord(ctx context.Context, home, address string) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	s, err := team.Open(ctx, address, team.Config{Getenv: os.Getenv})
	if err != nil {
		return
	}
	defer s.Close()
	_ = file.RefreshPart(ctx, team.CopyOf(home, s).Record())
}

// instanceNames completes the last of some names, separated by commas: with the groups
// and instances of the record of a command line.
func instanceNames(home Home, cmd *cobra.Command, args []string, begin string) (list []cobra.Completion) {
	dir := recordFolder(home, cmd, args)
	if dir == "" {
		return nil
	}
	all, err := record.Load(dir)
	if err != nil {
		return nil
	}
	before := begin[:strings.LastIndexByte(begin, ',')+1]
	counts := map[string]int{}
	for _, in := range all.Instances {
		counts[in.Group]++
	}
	for _, in := range all.Instances {
		if !isWord(in.Group) {
			continue
		}
		if n := counts[in.Group]; n > 1 {
			list = append(list, before+in.Group)
		}
		counts[in.Group] = 0
		list = append(list, cobra.CompletionWithDesc(before+in.Name(), in.ID))
	}
	return list
}
