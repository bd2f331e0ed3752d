//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestSoak deploys, changes and deletes, $SOAK times (once by itself), and kills
// the program at random moments: in the end nothing has grown.
func TestSoak(t *testing.T) {
	cycles := 1
	if n, err := strconv.Atoi(os.Getenv("SOAK")); err == nil {
		cycles = n
	}
	l, err := newLab(t)
	if err != nil {
		t.Fatal(err)
	}
	defer l.end()
	rng := rand.New(rand.NewPCG(uint64(cycles), 3))
	list := scenarios()
	n := &lane{t: t, lab: l}
	kills := 0
	var before load
	began := time.Now()
	for i := range cycles {
		for range 3 {
			s := list[rng.IntN(len(list))]
			if s.name == "snapshot" {
				continue // nothing deletes these
			}
			tr := trial{name: s.name, scenario: s, leftovers: 1, meet: func(l *lab, args []string) (outcome, error) {
				o, err := l.killedAfter(time.Duration(rng.IntN(2000))*time.Millisecond, args)
				if o.status == -1 {
					kills++
				}
				return o, err
			}}
			if err := n.try(tr, &figures{}); err != nil {
				t.Fatalf("cycle %d, %s: %v", i+1, s.name, err)
			}
			if n.lab == nil {
				t.Fatalf("cycle %d, %s: a leftover, though the CPI was not killed", i+1, s.name)
			}
		}
		if n.has {
			if err := l.must("delete"); err != nil {
				t.Fatal(err)
			}
			if err := l.gone(); err != nil {
				t.Fatalf("cycle %d: %v", i+1, err)
			}
			n.has = false
		}
		if i == 0 {
			before = l.load()
		}
	}
	after := l.load()
	// What a cycle needs for a moment may still be on its way out.
	for deadline := time.Now().Add(30 * time.Second); !after.within(before) && time.Now().Before(deadline); <-time.After(time.Second) {
		after = l.load()
	}
	t.Logf("%d cycles with %d kills in %v; after the first: %v; after the last: %v", cycles, kills, time.Since(began).Round(time.Second), before, after)
	if !after.within(before) {
		t.Errorf("something grows: %v after one cycle, %v after %d: %v", before, after, cycles, l.written())
	}
}

// load is what may grow.
type load struct {
	processes, files, goroutines, descriptors int
}

func (a load) within(b load) bool {
	return a.processes <= b.processes && a.files <= b.files && a.goroutines <= b.goroutines && a.descriptors <= b.descriptors
}

func (a load) String() string {
	return fmt.Sprintf("%d processes, %d files and folders, %d goroutines and %d descriptors of the test", a.processes, a.files, a.goroutines, a.descriptors)
}

// written lists what the program wrote, outside of the caches, which keep what
// was made once.
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

// load counts what the lab has.
func (l *lab) load() load {
	now := load{processes: len(allOf(l.dir)), goroutines: runtime.NumGoroutine(), files: len(l.written())}
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if fds, err := os.ReadDir(dir); err == nil {
			now.descriptors = len(fds)
			break
		}
	}
	return now
}

// killedAfter makes a run and kills it after a while, if it still runs then.
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
