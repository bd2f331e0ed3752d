package team

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"bootstrap/internal/failure"
	"bootstrap/internal/guard"
	"bootstrap/internal/process"
	"bootstrap/internal/wait"
	"bootstrap/state"
)

// The defaults for how long a lease lasts without renewal, and for the time between
// renewals.
const (
	TTL   = 60 * time.Second
	Renew = 15 * time.Second
)

// wallClock returns the time of a clock that runs while the machine sleeps. The
// monotonic clock, which time.Since would use, stops then on some systems.
func wallClock() time.Time { return time.Now().Round(0) }

// held is the content of the lease's document.
type held struct {
	Fence   int          `json:"fence"` // grows with every holder
	Holder  state.Holder `json:"holder"`
	Renewed int          `json:"renewed"`            // number of renewals by the holder
	Seconds int          `json:"seconds"`            // how long it lasts without renewal
	Ended   bool         `json:"released,omitempty"` // true: it was given up, or taken away
	Broken  bool         `json:"broken,omitempty"`   // true: it was taken away
}

// HeldError says that another run holds the lease.
type HeldError struct {
	Place  string
	Holder state.Holder
	Fence  int
	Left   time.Duration // time until the lease ends if it is not renewed; negative: unknown
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("the deployment state %s is locked by %s", e.Place, e.Holder)
}

func (e *HeldError) Name() string { return "state-locked" }

func (e *HeldError) ExitCode() failure.Code { return failure.Locked }

func (e *HeldError) Hint() string {
	return `run the same command again when the other run has ended, or with --lock-wait 10m to wait for it; "bootstrap state unlock MANIFEST" takes the lock from a run that cannot end`
}

// LostError says that this run has lost its lease: another run took it because it was not
// renewed in time, or somebody took it away with `bootstrap state unlock`.
type LostError struct {
	Place string
	By    *state.Holder // the run that took it; nil: none yet, but it could not be renewed
	Err   error         // why it could not be renewed; nil: somebody took it
	TTL   time.Duration // how long it lasts without renewal
}

func (e *LostError) Error() string {
	switch {
	case e.By != nil:
		return fmt.Sprintf("the lock of the deployment state %s was lost to %s", e.Place, e.By)
	case e.Err != nil:
		return fmt.Sprintf("the lock of the deployment state %s was lost: it could not be renewed for %v: %v", e.Place, e.TTL, e.Err)
	}
	return fmt.Sprintf("the lock of the deployment state %s was taken away", e.Place)
}

func (e *LostError) Name() string { return "state-lock-lost" }

func (e *LostError) ExitCode() failure.Code { return failure.Unsent }

func (e *LostError) Hint() string {
	return "look at what the other run does, then run the same command again"
}

func (e *LostError) Unwrap() error { return e.Err }

// lease is the lock that this run holds.
type lease struct {
	store *Store
	ttl   time.Duration
	end   context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex // held during a renewal, and protects the fields below
	now     held
	version string
	renewed time.Time
	lost    *LostError
}

// Lock takes the lease. If another run holds it, Lock waits as long as the configuration
// says. taken reports whether the previous holder had not given it up: its process has
// ended, or it has lost the lease, and may still write. The error is a *HeldError if
// another run keeps the lease.
func (s *Store) Lock(ctx context.Context) (taken bool, err error) {
	until := time.Now().Add(s.cfg.Wait)
	seen := sighting{}
	waiting := false
	err = wait.Poll(ctx, s.cfg.retry(), func() (bool, error) {
		taken, err = s.tryLock(ctx, &seen)
		other, isHeld := errors.AsType[*HeldError](err)
		switch {
		case errors.Is(err, ErrChanged) && seen.refused < maxRefused: // another run was faster
			return false, nil
		case !isHeld || !time.Now().Before(until):
			return true, err
		}
		if !waiting && s.cfg.Waiting != nil {
			s.cfg.Waiting(other)
			waiting = true
		}
		return false, nil
	})
	return taken, err
}

// sighting records when this run first saw a version of the lease, for places that do
// not report the age of their documents.
type sighting struct {
	version string
	at      time.Time
	age     time.Duration // age of the document, as in Document

	// tried is the version whose replacement was refused, and refused is the number of
	// refusals.
	tried   string
	refused int
}

// maxRefused is how often a place may refuse to replace the same version. If another run
// were faster, the version would change.
const maxRefused = 5

// tryLock takes the lease if it is free.
func (s *Store) tryLock(ctx context.Context, seen *sighting) (taken bool, err error) {
	now, version, age, err := s.readLease(ctx)
	if err != nil {
		return false, err
	}
	taken = now.Broken
	if version != "" && !now.Ended {
		seen.age = age
		over, left := s.over(now, version, seen)
		if !over {
			return false, &HeldError{Place: s.Place(), Holder: now.Holder, Fence: now.Fence, Left: left}
		}
		taken = true
	}
	l := &lease{store: s, ttl: s.cfg.ttl(), now: held{Fence: now.Fence + 1, Holder: s.cfg.Holder, Seconds: int(s.cfg.ttl() / time.Second)}, version: version, ended: make(chan struct{})}
	began := wallClock()
	if l.version, err = s.put(ctx, lockName, l.now.text(), version); err != nil {
		if errors.Is(err, ErrChanged) {
			seen.refuse(version)
		}
		return false, fmt.Errorf("cannot lock the deployment state %s: %w", s.Place(), err)
	}
	l.renewed = began
	if err := s.lockServer(ctx, now.Holder.Run); err != nil {
		// The next run must know from whom the lease was taken.
		now.Fence, now.Ended, now.Broken = l.now.Fence, true, taken
		_, _ = s.put(context.WithoutCancel(ctx), lockName, now.text(), l.version) // if this fails, the lease ends by itself
		return false, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	l.end = end
	s.lease = l
	guard.Go(running, func() { l.renewUntil(running, s.cfg.every()) })
	return taken, nil
}

// refuse counts the refusals to replace the same version.
func (s *sighting) refuse(version string) {
	if s.tried != version {
		s.tried, s.refused = version, 0
	}
	s.refused++
}

// lockServer also takes the lock of an HTTP server with locks, for other programs, which
// know only that lock. It also takes such a lock that the previous run left.
func (s *Store) lockServer(ctx context.Context, before string) error {
	w, ok := s.docs.(*web)
	if !ok || !w.locks || s.folder != "" {
		return nil
	}
	h := s.cfg.Holder
	mine := ticket{ID: h.Run, Who: h.Who(), Info: h.Command, Created: h.Since.UTC()}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var other *ticket
	// After a lost answer, the server names this run as the holder.
	err := retry(ctx, func(ctx context.Context) (err error) {
		other, err = w.lock(ctx, mine)
		if err == nil && other != nil && before != "" && other.ID == before {
			if err = w.unlock(ctx, *other); err == nil {
				other, err = w.lock(ctx, mine)
			}
		}
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("cannot lock the deployment state %s: %w", s.Place(), err)
	case other == nil || other.ID == mine.ID:
		return nil
	}
	user, host, _ := strings.Cut(other.Who, "@")
	return &HeldError{Place: s.Place(), Holder: state.Holder{User: user, Host: host, Command: other.Info, Since: other.Created, Run: other.ID}, Left: -1}
}

// unlockServer gives up the lock of lockServer. After an error, the next run that takes
// the lease also takes that lock, as long as the lease has the name of the run.
func (s *Store) unlockServer(ctx context.Context, run string) error {
	w, ok := s.docs.(*web)
	if !ok || !w.locks || s.folder != "" || run == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return w.unlock(ctx, ticket{ID: run})
}

// errDamaged says that the lease's document cannot be read.
var errDamaged = fmt.Errorf("its %s is damaged; `bootstrap state unlock` replaces it", lockName)

// readLease reads the lease; version is empty if there is none. age is the age of the
// document.
func (s *Store) readLease(ctx context.Context) (now held, version string, age time.Duration, err error) {
	d, err := s.get(ctx, lockName)
	if errors.Is(err, fs.ErrNotExist) {
		return now, "", 0, nil
	}
	if err == nil && (json.Unmarshal(d.Data, &now) != nil || now.Seconds < 0 || now.Seconds > longestLease) {
		err = errDamaged
	}
	if err != nil {
		return held{}, "", 0, fmt.Errorf("cannot lock the deployment state %s: %w", s.Place(), err)
	}
	return now, d.Version, d.Age, nil
}

// longestLease is the longest time in seconds that a lease may last without renewal.
const longestLease = 24 * 60 * 60

// over reports whether a lease has ended that was not given up: its process has ended, or
// it was not renewed in time.
func (s *Store) over(now held, version string, seen *sighting) (bool, time.Duration) {
	if s.dead(now.Holder) {
		return true, 0
	}
	lasts := time.Duration(now.Seconds) * time.Second
	age := seen.age
	if age < 0 { // The place does not report the age, so this run must observe the version.
		if seen.version != version {
			// The wall clock may jump, which would take the lease from a run that renews it.
			seen.version, seen.at = version, time.Now()
		}
		age = time.Since(seen.at)
	}
	return age > lasts, lasts - age
}

// dead reports whether the holder is a process of this machine, or of this container,
// that does not exist any more.
func (s *Store) dead(h state.Holder) bool {
	switch {
	case h.PID <= 0 || h.Machine == "" || h.Machine != s.cfg.Holder.Machine:
		return false
	case h.Born == "":
		return !process.Lives(h.PID)
	}
	return process.Birth(h.PID) != h.Born
}

func (h held) text() []byte {
	data, _ := json.MarshalIndent(h, "", "    ") // its fields can always be encoded
	return append(data, '\n')
}

// renewUntil renews the lease until ctx ends or the lease is lost. It soon repeats a
// renewal that failed: the outage of the place may be short.
func (l *lease) renewUntil(ctx context.Context, every time.Duration) {
	defer close(l.ended)
	pause := every
	for wait.For(ctx, pause) == nil {
		pause = every
		if err := l.renew(ctx); err != nil {
			pause = every / 5
		}
		if l.Lost() != nil {
			return
		}
	}
}

// renew renews the lease. The error is a *LostError if this run does not hold it any
// more.
func (l *lease) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	began, next := wallClock(), l.now
	next.Renewed++
	version, err := l.store.put(ctx, lockName, next.text(), l.version)
	switch {
	case err == nil:
		l.now, l.version, l.renewed = next, version, began
		return nil
	case errors.Is(err, ErrChanged):
		l.lost = &LostError{Place: l.store.Place(), By: l.other(ctx)}
		return l.lost
	case time.Since(l.renewed) > l.ttl && ctx.Err() == nil:
		l.lost = &LostError{Place: l.store.Place(), Err: err, TTL: l.ttl}
		return l.lost
	}
	return err
}

// other returns the run that holds the lease, if it is not this one; nil: no run does.
func (l *lease) other(ctx context.Context) *state.Holder {
	now, version, _, err := l.store.readLease(ctx)
	if err != nil || version == "" || now.Ended {
		return nil
	}
	return &now.Holder
}

// Lost returns an error if the lease was lost; nil: this run holds it.
func (l *lease) Lost() *LostError {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// hold returns an error unless this run holds the lease. It is called before writes: a
// process that was stopped for a while may have lost the lease.
func (l *lease) hold(ctx context.Context) error {
	if l == nil {
		return errUnlocked
	}
	l.mu.Lock()
	late, lost := time.Since(l.renewed) > l.ttl, l.lost
	l.mu.Unlock()
	switch {
	case lost != nil:
		return lost
	case late:
		return l.renew(ctx)
	}
	return nil
}

// confirm returns an error unless this run holds the lease now. It is called before
// removals, which are unconditional: another run may have taken the lease since.
func (l *lease) confirm(ctx context.Context) error {
	if l == nil {
		return errUnlocked
	}
	return l.renew(ctx)
}

// Confirm returns a *LostError if this run does not hold the lease any more. It is
// called before each step of a run. While the place does not answer, the lease lasts as
// long as other runs respect it.
func (s *Store) Confirm(ctx context.Context) error {
	l := s.lease
	if l == nil {
		return nil
	}
	if lost := l.Lost(); lost != nil {
		return lost
	}
	if lost, ok := errors.AsType[*LostError](l.renew(ctx)); ok {
		return lost
	}
	return nil
}

var errUnlocked = errors.New("cannot write the deployment state: it is not locked")

// Unlock gives up the lease, if this run holds one. If there is no state, it removes
// the lease's document.
func (s *Store) Unlock(ctx context.Context) error {
	l := s.lease
	if l == nil {
		return nil
	}
	s.lease = nil
	l.end()
	<-l.ended
	if l.lost != nil {
		return nil // it belongs to another run
	}
	left := s.unlockServer(ctx, l.now.Holder.Run)
	if s.removed && left == nil && s.removeLease(ctx, l) {
		return nil
	}
	l.now.Ended = true
	_, err := s.put(ctx, lockName, l.now.text(), l.version)
	if err != nil && !errors.Is(err, ErrChanged) {
		return fmt.Errorf("cannot unlock the deployment state %s: %w; the lock ends by itself after %v", s.Place(), err, l.ttl)
	}
	return nil
}

// removeLease removes the lease's document if this run still holds the lease. It does
// not repeat a removal that failed: by then the document may belong to another run.
func (s *Store) removeLease(ctx context.Context, l *lease) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return l.renew(ctx) == nil && s.docs.Remove(ctx, s.full(lockName)) == nil
}

// Holder returns the holder of the lease; nil: there is none. If the lease's document
// is damaged, the result is empty.
func (s *Store) Holder(ctx context.Context) (*HeldError, error) {
	now, version, age, err := s.readLease(ctx)
	if errors.Is(err, errDamaged) {
		return &HeldError{Place: s.Place(), Left: -1}, nil
	}
	if err != nil || version == "" || now.Ended {
		return nil, err
	}
	seen := sighting{age: age}
	_, left := s.over(now, version, &seen)
	if age < 0 {
		left = -1
	}
	return &HeldError{Place: s.Place(), Holder: now.Holder, Fence: now.Fence, Left: left}, nil
}

// Break takes the lease away from the run with this fencing number: the next write of
// that run fails. If another run holds the lease, the error wraps ErrChanged.
func (s *Store) Break(ctx context.Context, fence int) error {
	d, err := s.get(ctx, lockName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("cannot unlock the deployment state %s: %w", s.Place(), err)
	}
	var now held
	if json.Unmarshal(d.Data, &now) == nil && now.Fence != fence {
		return fmt.Errorf("cannot unlock the deployment state %s: %w", s.Place(), ErrChanged)
	}
	_ = s.unlockServer(ctx, now.Holder.Run) // if this fails, the next run repeats it
	now.Fence, now.Ended, now.Broken = max(now.Fence, fence)+1, true, true
	if _, err := s.put(ctx, lockName, now.text(), d.Version); err != nil {
		return fmt.Errorf("cannot unlock the deployment state %s: %w", s.Place(), err)
	}
	return nil
}
