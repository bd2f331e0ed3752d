package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"bootstrap/fleet/rollout"
	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
	"bootstrap/state"
	"bootstrap/state/file"
)

// Coordinator assigns members to workers. A fleet has at most one coordinator.
type Coordinator struct {
	db     *database
	fleet  string
	flags  []string // flags for the processes of members
	key    Key
	by     state.Holder
	client *river.Client[pgx.Tx]
	stop   context.Context      // done when no more members are started
	ended  chan struct{}        // closed by Close
	over   chan struct{}        // closed when the loop has ended
	beats  time.Duration        // how often this process reports, and looks for starts that no worker takes
	dead   func() time.Duration // after this time without a report, a worker loses its members
	wake   chan struct{}

	mu      sync.Mutex
	notify  func(rollout.Progress)
	pending []*start
	asked   []string // members to be interrupted; empty name: all
	taken   error    // the error if another coordinator has taken over

	// Only the loop uses these.
	conn    *pgx.Conn // holds the lock; nil: none
	backend uint32
	epoch   int64
	since   *time.Time // when the server became reachable again, by the database's clock
	beaten  time.Time
	watched map[string]*start
	idle    bool // it was reported that no worker is running
	away    bool // it was reported that the database cannot be reached
}

// Options contains the inputs of a Coordinator.
type Options struct {
	Database string   // postgres:// URL
	Fleet    string   // absolute path of the fleet file
	Flags    []string // flags for the processes of members; workers get those of Sent
	Key      Key
	By       state.Holder
	beats    time.Duration        // in place of beatEvery, for tests; 0: beatEvery
	dead     func() time.Duration // in place of deadAfter, for tests; nil: deadAfter
}

// Coordinate becomes the coordinator of a fleet. If there is one already, the error is a
// *file.LockedError. When ctx ends, members that no worker has taken are not started.
func Coordinate(ctx context.Context, opts Options) (*Coordinator, error) {
	db, err := open(ctx, opts.Database)
	if err != nil {
		return nil, err
	}
	c := &Coordinator{
		db: db, fleet: opts.Fleet, flags: slices.DeleteFunc(slices.Clone(opts.Flags), func(f string) bool { return !Sent(f) }), key: opts.Key, by: opts.By, stop: ctx, beats: cmp.Or(opts.beats, beatEvery), dead: opts.dead,
		ended: make(chan struct{}), over: make(chan struct{}), wake: make(chan struct{}, 1),
		notify: func(rollout.Progress) {}, watched: map[string]*start{},
	}
	if c.dead == nil {
		c.dead = func() time.Duration { return deadAfter }
	}
	c.client, err = river.NewClient(db.driver, &river.Config{Schema: schema, Logger: silent()})
	if err == nil {
		err = c.first(ctx)
	}
	if err != nil {
		c.disconnect()
		db.close()
		var locked *file.LockedError
		if !errors.As(err, &locked) {
			err = db.failed("use", err)
		}
		return nil, err
	}
	guard.Go(ctx, func() { c.loop(context.WithoutCancel(ctx)) })
	return c, nil
}

// Hands returns the coordinator as hands of a run; notify is called from another
// goroutine.
func (c *Coordinator) Hands(notify func(rollout.Progress)) rollout.Hands {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notify = notify
	if err := c.taken; err != nil {
		guard.Go(c.stop, func() { notify(rollout.Progress{Err: err}) })
	}
	return c
}

// Close ends the coordination. Running members continue.
func (c *Coordinator) Close() {
	close(c.ended)
	<-c.over
	c.disconnect()
	c.db.close()
}

// Start queues a member for a worker.
func (c *Coordinator) Start(_ context.Context, t rollout.Task) error {
	s := &start{task: t, salt: newSalt(), since: time.Now()}
	var err error
	if s.digest, err = digest(t.Member, s.salt); err != nil {
		return err
	}
	c.mu.Lock()
	c.pending = append(c.pending, s)
	c.mu.Unlock()
	c.wakeUp()
	return nil
}

// Interrupt asks a member, or all if name is empty, to end.
func (c *Coordinator) Interrupt(name string) {
	c.mu.Lock()
	c.asked = append(c.asked, name)
	c.mu.Unlock()
	c.wakeUp()
}

func (c *Coordinator) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Coordinator) say(p rollout.Progress) {
	c.mu.Lock()
	notify := c.notify
	c.mu.Unlock()
	p.At = time.Now()
	notify(p)
}

// loop carries out requests and reports progress, until Close.
func (c *Coordinator) loop(ctx context.Context) {
	defer close(c.over)
	pauses := wait.Jitter(lookEvery, longestPause)
	for {
		next := lookEvery
		err := c.round(ctx)
		var taken *TakenOverError
		switch {
		case errors.As(err, &taken):
			c.mu.Lock()
			c.taken = err
			c.mu.Unlock()
			c.say(rollout.Progress{Err: err})
			return
		case err != nil:
			if !c.away {
				c.say(rollout.Progress{Notice: fmt.Sprintf("Cannot reach the database %s: %s; running members continue, and no other starts until it answers", c.db.place, c.db.explain(err))})
			}
			c.away = true
			c.disconnect()
			next = pauses.Next()
		default:
			pauses.Reset()
		}
		timer := time.NewTimer(next)
		select {
		case <-c.ended:
			timer.Stop()
			return
		case <-c.wake:
			if c.away {
				<-timer.C
			}
			timer.Stop()
		case <-timer.C:
		}
	}
}

// round passes all requests on and reports all progress.
func (c *Coordinator) round(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if c.conn == nil {
		if err := c.connect(limited); err != nil {
			return err
		}
		if c.away { // before the progress during the outage
			c.say(rollout.Progress{Notice: fmt.Sprintf("The database %s answers again", c.db.place)})
			c.away = false
		}
	}
	if time.Since(c.beaten) >= c.beats {
		if err := c.beat(limited); err != nil {
			return err
		}
	}
	if err := c.interrupt(limited); err != nil {
		return err
	}
	if err := c.enqueue(limited); err != nil {
		return err
	}
	return c.look(limited)
}
