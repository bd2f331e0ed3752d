package rollout

import (
	"fmt"
	"strings"

	"bootstrap/fleet"
)

// checkEmpty refuses a run if a program or a server lists no members: it may be broken, and
// members that it does not list are not deleted because of that.
func checkEmpty(opts Options, old *Record) error {
	if len(opts.Fleet.EmptyLists) == 0 || opts.Action == fleet.DeleteStrategy && len(opts.Only) > 0 {
		return nil
	}
	lists := strings.Join(opts.Fleet.EmptyLists, ", ")
	var names []string
	for _, one := range old.RemovedFrom(opts.Fleet, opts.Home) {
		names = append(names, one.Name)
	}
	switch {
	case len(names) > 0 && (opts.Prune || opts.Action == fleet.DeleteStrategy):
		return fmt.Errorf("%s has no members, and an empty list deletes none: %s; delete one with \"bootstrap fleet delete %s --only NAME\"",
			lists, strings.Join(names, ", "), opts.Fleet.Path)
	case len(names) > 0 && !opts.AllowEmpty && !opts.Action.OfJobs():
		return fmt.Errorf("%s has no members, but some that are no longer in the list are deployed: %s; if the list is right, use --allow-empty",
			lists, strings.Join(names, ", "))
	case len(opts.Fleet.Members) == 0 && !opts.AllowEmpty:
		return fmt.Errorf("%s has no members: there is nothing to do", lists)
	}
	return nil
}
