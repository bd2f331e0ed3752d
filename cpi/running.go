package cpi

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Call is a running CPI process.
type Call struct {
	Method string
	PID    int
	Since  time.Time
}

// Running lists the calls in progress. The zero value is ready; it may be used
// by many goroutines.
type Running struct {
	mu    sync.Mutex
	calls map[int]Call
}

// List returns the calls in progress, the oldest first.
func (r *Running) List() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Call
	for _, c := range r.calls {
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b Call) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.PID, b.PID)) })
	return list
}

// begin adds a call and returns the function that removes it.
func (r *Running) begin(method string, pid int) func() {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[int]Call{}
	}
	r.calls[pid] = Call{Method: method, PID: pid, Since: time.Now()}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, pid)
	}
}
