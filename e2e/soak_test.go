//go:build unix

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSoak deploys, changes and deletes $SOAK times (default: once) in several labs in
// parallel, and kills the program at random moments: at the end, the load must not have
// grown.
func TestSoak(t *testing.T) {
	cycles := 1
	if n, err := strconv.Atoi(os.Getenv("SOAK")); err == nil {
		cycles = n
	}
	var all []*soaker
	for i := range min(lanes(), cycles) {
		l, err := newLab(t)
		if err != nil {
			t.Fatal(err)
		}
		defer l.end()
		all = append(all, &soaker{lane: lane{t: t, lab: l}, rng: rand.New(rand.NewPCG(uint64(cycles), uint64(i)))})
	}
	began := time.Now()
	soak(t, all, len(all))
	before := loadOf(all)
	soak(t, all, cycles-len(all))
	after := loadOf(all)
	// Processes of a cycle may still be ending.
	for deadline := time.Now().Add(30 * time.Second); !after.within(before) && time.Now().Before(deadline); <-time.After(time.Second) {
		after = loadOf(all)
	}
	kills := 0
	var written []string
	for _, s := range all {
		kills += s.kills
		written = append(written, s.lab.written()...)
	}
	t.Logf("%d cycles in %d labs with %d kills in %v; after the first ones: %v; after the last ones: %v", cycles, len(all), kills, time.Since(began).Round(time.Second), before, after)
	if !after.within(before) {
		t.Errorf("something grows: %v after one cycle in each lab, %v after %d in all: %v", before, after, cycles, written)
	}
}

// soak runs n cycles in the labs.
func soak(t *testing.T, all []*soaker, n int) {
	t.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	for _, s := range all {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := s.cycle(); err != nil {
					t.Error(err)
					left.Store(0)
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// soaker runs cycles in its own lab.
type soaker struct {
	lane
	rng   *rand.Rand
	kills int
}

// cycle runs three scenarios, each killed at some moment and repeated, and then
// a delete.
func (s *soaker) cycle() error {
	list := scenarios()
	for range 3 {
		sc := list[s.rng.IntN(len(list))]
		if sc.name == "snapshot" {
			continue // no command deletes these
		}
		// After a kill between the announcement of a call and its start, it is
		// unknown whether the call was started.
		tr := trial{name: sc.name, scenario: sc, leftovers: 1, forget: true, meet: func(l *lab, args []string) (outcome, error) {
			o, err := l.killedAfter(time.Duration(s.rng.IntN(2000))*time.Millisecond, args)
			if o.status == -1 {
				s.kills++
			}
			return o, err
		}}
		if err := s.try(tr, &figures{}); err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
	}
	if !s.has {
		return nil
	}
	s.has = false
	if err := s.lab.must("delete"); err != nil {
		return err
	}
	return s.lab.gone()
}

// load contains the numbers that must not grow.
type load struct {
	processes, files, goroutines, descriptors int
}

func (a load) within(b load) bool {
	return a.processes <= b.processes && a.files <= b.files && a.goroutines <= b.goroutines && a.descriptors <= b.descriptors
}

func (a load) String() string {
	return fmt.Sprintf("%d processes, %d files and folders, %d goroutines and %d descriptors of the test", a.processes, a.files, a.goroutines, a.descriptors)
}

// written lists the files of the program outside of the caches, which keep files
// on purpose.
func (l *lab) written() (list []string) {
	for _, dir := range []string{"home", "state", "tmp"} {
		_ = filepath.WalkDir(l.path(dir), func(path string, d os.DirEntry, err error) error {
			if err == nil && !strings.HasPrefix(path, l.path("home/.bosh/downloads")) {
				list = append(list, strings.TrimPrefix(path, l.dir))
			}
			return nil
		})
	}
	return list
}

// loadOf returns the load of the test and its labs.
func loadOf(all []*soaker) load {
	now := load{goroutines: runtime.NumGoroutine()}
	for _, s := range all {
		now.processes += len(allOf(s.lab.dir))
		now.files += len(s.lab.written())
	}
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if fds, err := os.ReadDir(dir); err == nil {
			now.descriptors = len(fds)
			break
		}
	}
	return now
}

// killedAfter starts a run and kills it after a while, if it still runs.
func (l *lab) killedAfter(pause time.Duration, args []string) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	cmd, text := l.command(ctx, nil, args...)
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	timer := time.AfterFunc(pause, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	return l.judge(ctx, cmd, text, cmd.Wait())
}
