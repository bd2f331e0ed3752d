package monitfile

import (
	"cmp"
	"fmt"
	"slices"
)

// Conflicts returns the mistakes for which monit refuses to run the checks together, or
// nil: a name is given twice, a check depends on one that does not exist, or checks depend
// on each other. As in monit, upper and lower case are the same.
func Conflicts(checks []Check) Mistakes {
	var errs Mistakes
	names := map[string]*Check{}
	for i := range checks {
		c := &checks[i]
		if c.Kind == KindOther {
			continue
		}
		if first, ok := names[lowered(c.Name)]; ok {
			errs = append(errs, &Mistake{File: c.File, Line: c.Line, What: fmt.Sprintf("cannot use the name %q again: %s:%d has it", c.Name, first.File, first.Line)})
			continue
		}
		names[lowered(c.Name)] = c
	}
	state := map[*Check]int{} // 1: in progress, 2: done
	var visit func(c *Check)
	visit = func(c *Check) {
		state[c] = 1
		for _, d := range c.Depends {
			dep, ok := names[lowered(d)]
			switch {
			case !ok:
				errs = append(errs, &Mistake{
					File: c.File, Line: c.Line, Missing: true,
					What: fmt.Sprintf("cannot find %q, on which %q depends: it is in no monit file of these jobs", d, c.Name),
				})
			case state[dep] == 1:
				errs = append(errs, &Mistake{File: c.File, Line: c.Line, What: fmt.Sprintf("cannot order %q and %q: they depend on each other in a circle", c.Name, d)})
			case state[dep] == 0:
				visit(dep)
			}
		}
		state[c] = 2
	}
	for i := range checks {
		if c := &checks[i]; c.Kind != KindOther && state[c] == 0 && names[lowered(c.Name)] == c {
			visit(c)
		}
	}
	slices.SortStableFunc(errs, func(a, b *Mistake) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return errs[:min(len(errs), maxMistakes)]
}
