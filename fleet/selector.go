package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bootstrap/internal/spelling"
)

// Selector selects members: one by name, those with a label, or those that the caller
// knows to be outdated or failed.
type Selector struct {
	Name         string // empty: none
	Label, Value string // Label empty: none
	// Outdated and Failed need facts that a fleet file does not contain: Matches
	// returns true for every member, and the caller decides.
	Outdated, Failed bool
}

// The selectors that need facts of a run.
const (
	outdated = "outdated"
	failed   = "failed"
)

// ParseSelector reads NAME, LABEL=VALUE, outdated or failed.
func ParseSelector(text string) (Selector, error) {
	label, value, labelled := strings.Cut(text, "=")
	switch {
	case text == outdated:
		return Selector{Outdated: true}, nil
	case text == failed:
		return Selector{Failed: true}, nil
	case labelled && label != "":
		return Selector{Label: label, Value: value}, nil
	case labelled || refuseName(text) != "":
		return Selector{}, fmt.Errorf("cannot select members by %q: expected NAME, LABEL=VALUE, outdated or failed", text)
	}
	return Selector{Name: text}, nil
}

// String returns the selector as ParseSelector reads it.
func (s Selector) String() string {
	switch {
	case s.Outdated:
		return outdated
	case s.Failed:
		return failed
	case s.Label != "":
		return s.Label + "=" + s.Value
	}
	return s.Name
}

// Matches reports whether a member has the selector's name or label.
func (s Selector) Matches(m Member) bool {
	switch {
	case s.Outdated, s.Failed:
		return true
	case s.Label != "":
		value, ok := m.Labels[s.Label]
		return ok && value == s.Value
	}
	return m.Name == s.Name
}

// Check returns an error, with similar names, if the selector matches no member.
func (s Selector) Check(members []Member) error {
	if slices.ContainsFunc(members, s.Matches) {
		return nil
	}
	if s.Label == "" {
		names := make([]string, len(members))
		for i, m := range members {
			names[i] = m.Name
		}
		return fmt.Errorf("no member has the name %s%s", s.Name, spelling.Suggest(s.Name, names))
	}
	labels, values := map[string]bool{}, map[string]bool{}
	for _, m := range members {
		for label, value := range m.Labels {
			labels[label] = true
			if label == s.Label {
				values[value] = true
			}
		}
	}
	switch {
	case len(labels) == 0:
		return errors.New("no member has the label " + s.String() + ": the fleet file has no labels")
	case !labels[s.Label]:
		return fmt.Errorf("no member has the label %s%s", s.Label, suggest(s.Label, labels))
	}
	return fmt.Errorf("no member has the label %s%s", s, suggest(s.Value, values))
}

// suggest returns a similar option or, if there is none, some of the options.
func suggest(word string, options map[string]bool) string {
	list := slices.Sorted(maps.Keys(options))
	if advice := spelling.Suggest(word, list); advice != "" {
		return advice
	}
	const most = 5
	more := ""
	if len(list) > most {
		list, more = list[:most], " and others"
	}
	return "; there are " + strings.Join(list, ", ") + more
}
