package complete

import (
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/deployment/record"
)

// instanceNames lists the groups and instances of a manifest's record, after the names that
// are there already.
func instanceNames(args []string, begin string) (list []cobra.Completion) {
	if len(args) == 0 {
		return nil
	}
	all, err := record.Load(record.Dir(args[0]))
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
