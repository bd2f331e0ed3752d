package deployment

import (
	"context"
	"time"

	"bootstrap/fleet/rollout"
)

// seen is what a look at an instance has shown.
type seen struct {
	at      time.Time // when the look began
	state   rollout.Condition
	problem string
}

// seenFor is how long a look serves for others: instances that are stopped at the same time
// ask about the same ones.
const seenFor = time.Second

// look looks at an instance, unless another one has just done that.
func (r *runner) look(ctx context.Context, row *Row) seen {
	r.mu.Lock()
	s, has := r.seen[row.Name]
	r.mu.Unlock()
	if has && time.Since(s.at) < seenFor {
		return s
	}
	now, _, _ := r.looks.Do(row.Name, func() (any, error) {
		s := seen{at: time.Now()}
		s.state, s.problem = r.status(ctx, r.all, row.in)
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.busy[row.Name] && !r.begun[row.Name].After(s.at) { // Otherwise it may have changed meanwhile.
			r.seen[row.Name] = s
		}
		return s, nil
	})
	return now.(seen)
}

// lookAt looks at several instances.
func (r *runner) lookAt(ctx context.Context, rows []*Row) ([]seen, error) {
	list := make([]seen, len(rows))
	err := sideBySide(ctx, len(rows), func(i int) { list[i] = r.look(ctx, rows[i]) })
	return list, err
}
