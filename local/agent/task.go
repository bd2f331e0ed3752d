package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"bootstrap/internal/guard"
)

const (
	taskQueue = 5    // further requests wait, as with the real agent
	taskKept  = 1000 // number of kept results; the real agent keeps all
)

var errNotSupported = errors.New("not supported")

// errCanceled is the cause of the end of a task that cancel_task canceled.
var errCanceled = errors.New("canceled by a message")

// tasks runs the messages that are answered with a task, one at a time.
type tasks struct {
	log   *slog.Logger
	queue chan *task

	mu   sync.Mutex
	byID map[string]*task
	done []string // ids, oldest first
}

// task is one message in the background. The mutex of tasks guards the fields
// after the blank line.
type task struct {
	id         string
	run        func(context.Context) (any, error)
	cancelable bool
	ended      func()                 // called after the result is known; may be nil
	waits      atomic.Pointer[string] // the cause of a long wait

	running bool
	cancel  context.CancelCauseFunc
	ctx     context.Context
	value   any
	err     error
}

func newTasks(log *slog.Logger) *tasks {
	return &tasks{log: log, queue: make(chan *task, taskQueue), byID: map[string]*task{}}
}

func newID() string { return uuid.NewString() }

// start queues a task; it waits while too many tasks are queued.
func (t *tasks) start(ctx context.Context, task *task) error {
	task.running = true
	task.ctx, task.cancel = context.WithCancelCause(context.WithValue(context.Background(), taskKey{}, task))
	t.mu.Lock()
	t.byID[task.id] = task
	t.mu.Unlock()
	select {
	case t.queue <- task:
		return nil
	case <-ctx.Done():
		task.cancel(nil)
		t.mu.Lock()
		delete(t.byID, task.id)
		t.mu.Unlock()
		return fmt.Errorf("cannot queue the task: %w", ctx.Err())
	}
}

// work runs queued tasks until ctx ends.
func (t *tasks) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case task := <-t.queue:
			t.runOne(ctx, task)
		}
	}
}

func (t *tasks) runOne(ctx context.Context, task *task) {
	stop := guard.AfterDone(ctx, func() { task.cancel(context.Cause(ctx)) })
	value, err := runSafely(task.ctx, task.run)
	stop()
	task.cancel(nil)
	if errors.Is(err, errRestart) {
		return // it ends only when the agent has restarted
	}
	if err != nil {
		t.log.Error("a task failed", "task", task.id, "cause", err)
	}
	if task.ended != nil && ctx.Err() == nil {
		task.ended()
	}
	t.finish(task, value, err)
}

// runSafely turns a panic into an error: a bad message must not end the supervision of
// the jobs.
func runSafely(ctx context.Context, run func(context.Context) (any, error)) (value any, err error) {
	defer func() {
		if r := recover(); r != nil {
			value, err = nil, fmt.Errorf("the agent has a defect: %v\n%s", r, debug.Stack())
		}
	}()
	return run(ctx)
}

func (t *tasks) finish(task *task, value any, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	task.running, task.run, task.value, task.err = false, nil, value, err
	t.done = append(t.done, task.id)
	if len(t.done) > taskKept {
		delete(t.byID, t.done[0])
		t.done = t.done[1:]
	}
}

// taskKey is the key of the task in its context.
type taskKey struct{}

// waitsFor sets the cause of the wait of a context's task.
func waitsFor(ctx context.Context, what string) {
	if task, ok := ctx.Value(taskKey{}).(*task); ok {
		task.waits.Store(&what)
	}
}

// add records a task that has ended already.
func (t *tasks) add(id string, value any) {
	t.mu.Lock()
	t.byID[id] = &task{id: id}
	t.mu.Unlock()
	t.finish(t.byID[id], value, nil)
}

// stateValue is the reply to a message that becomes a task, and the value of get_task
// while the task is running.
type stateValue struct {
	ID    string `json:"agent_task_id"`
	State string `json:"state"`
	// Waits is not part of the protocol: other clients ignore it.
	Waits string `json:"waits_for,omitempty"`
}

// result returns the value of get_task.
func (t *tasks) result(id string) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	task, found := t.byID[id]
	switch {
	case !found:
		return nil, failf("Task with id %s could not be found", id)
	case task.running:
		value := stateValue{ID: id, State: "running"}
		if waits := task.waits.Load(); waits != nil {
			value.Waits = *waits
		}
		return value, nil
	case task.err != nil:
		return nil, failf("Task %s result: %w", id, task.err)
	}
	return task.value, nil
}

// stop cancels a task.
func (t *tasks) stop(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	task, found := t.byID[id]
	switch {
	case !found:
		return failf("Task with id %s could not be found", id)
	case !task.running:
		return nil
	case !task.cancelable:
		return errNotSupported
	}
	task.cancel(errCanceled)
	return nil
}
