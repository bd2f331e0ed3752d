package plan

import (
	"slices"
	"strings"
)

// Changed lists what a plan changes, in words: its changes, or without any the names of its
// steps.
func Changed(p Plan) []string {
	var list []string
	add := func(words ...string) {
		text := strings.TrimSpace(strings.Join(words, " "))
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	for _, c := range p.Changes {
		if c.Action != Keep && c.What != VM && c.What != Disk && c.What != Stemcell { // The resources say that.
			add(string(c.Action), c.What, c.Name)
		}
	}
	for _, s := range p.Steps {
		if len(p.Changes) == 0 && s.Of != "" {
			add(string(s.Of))
		}
	}
	return list
}

// Resources lists what was created and deleted between two lists of resources in the cloud.
func Resources(before, after []string) []string {
	var list []string
	for _, r := range after {
		if !slices.Contains(before, r) {
			list = append(list, "create "+r)
		}
	}
	for _, r := range before {
		if !slices.Contains(after, r) {
			list = append(list, "delete "+r)
		}
	}
	return list
}
