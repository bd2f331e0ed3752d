//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/deployer/plan"
)

// mutations are the ways in which two manifests may differ, with the flags that the
// deploy of the second one needs.
func mutations() []func(*rand.Rand, *wish) (what string, flags []string) {
	type r = *rand.Rand
	type flags = []string
	return []func(r, *wish) (string, flags){
		func(_ r, w *wish) (string, flags) { w.Title += "!"; return "property", nil },
		func(_ r, w *wish) (string, flags) { w.Source++; return "package", nil },
		func(_ r, w *wish) (string, flags) { w.Idle++; return "package of the second job", nil },
		func(rng r, w *wish) (string, flags) {
			w.Jobs = [][]string{{"page"}, {"idle"}, {"page", "idle"}, {"idle", "page"}}[rng.IntN(4)]
			return "jobs", nil
		},
		func(_ r, w *wish) (string, flags) { w.Disk += 8; return "disk size", nil },
		func(_ r, w *wish) (string, flags) {
			w.Disk = max(8, w.Disk-8)
			return "smaller disk", flags{"--allow-shrink", "--yes"}
		},
		func(_ r, w *wish) (string, flags) {
			w.Disk = 64 - w.Disk&64
			return "disk or none", flags{"--allow-shrink", "--yes"}
		},
		func(_ r, w *wish) (string, flags) { w.Stemcell = 3 - w.Stemcell; return "stemcell", nil },
		func(_ r, w *wish) (string, flags) { w.CPU++; return "cloud_properties", nil },
		func(_ r, w *wish) (string, flags) { w.Env += "x"; return "env", nil },
		func(_ r, w *wish) (string, flags) {
			w.Tags = maps.Clone(w.Tags)
			if w.Tags == nil {
				w.Tags = map[string]string{}
			}
			w.Tags["n"] += "x"
			return "tags", nil
		},
		func(_ r, w *wish) (string, flags) { w.Dynamic = !w.Dynamic; return "network", nil },
		func(_ r, w *wish) (string, flags) { w.MBus = 1 - w.MBus; return "address of the agent", nil },
		func(_ r, w *wish) (string, flags) { w.Snapshot = !w.Snapshot; return "snapshots", nil },
		func(rng r, w *wish) (string, flags) {
			w.Strategy = []string{"", "delete-create", "create-swap-delete"}[rng.IntN(3)]
			return "strategy " + w.Strategy, nil
		},
		func(r, *wish) (string, flags) { return "--recreate", flags{"--recreate"} },
		func(r, *wish) (string, flags) {
			return "--recreate-persistent-disks", flags{"--recreate-persistent-disks"}
		},
		func(r, *wish) (string, flags) { return "--skip-drain", flags{"--skip-drain"} },
		func(r, *wish) (string, flags) { return "--keep-old-disk", flags{"--keep-old-disk"} },
		func(_ r, w *wish) (string, flags) { w.Password++; return "password of the agent", nil },
		func(_ r, w *wish) (string, flags) { w.Leaf++; return "certificate of the agent", nil },
		func(_ r, w *wish) (string, flags) { w.CA++; return "CA of the agent", nil },
	}
}

// pair returns the n-th pair of manifests, which is always the same.
func pair(n int) (a, b wish, flags []string, what string) {
	rng := rand.New(rand.NewPCG(uint64(n), 4711))
	all := mutations()
	a = newWish()
	// Labs share a cache of compiled packages: no other pair compiles these.
	a.Source, a.Idle = 1000*n, 1000*n
	for range rng.IntN(4) {
		all[rng.IntN(len(all))](rng, &a)
	}
	b = a
	var names []string
	for range rng.IntN(4) {
		name, with := all[rng.IntN(len(all))](rng, &b)
		names = append(names, name)
		for _, f := range with {
			if !slices.Contains(flags, f) {
				flags = append(flags, f)
			}
		}
	}
	if b.Disk < a.Disk && !slices.Contains(flags, "--allow-shrink") {
		flags = append(flags, "--allow-shrink", "--yes")
	}
	return a, b, flags, strings.Join(names, ", ")
}

// TestPlanIsWhatIsDone deploys pairs of manifests and checks that a deploy makes exactly
// those calls of CPI and agent that the plan before it has named. $MATRIX is the number
// of pairs, or the number of one pair as in MATRIX==17.
func TestPlanIsWhatIsDone(t *testing.T) {
	t.Parallel()
	first, last := 1, 12
	if ask := os.Getenv("MATRIX"); ask != "" {
		one, single := strings.CutPrefix(ask, "=")
		n, err := strconv.Atoi(one)
		if err != nil {
			t.Fatalf("MATRIX: %v", err)
		}
		if last = n; single {
			first = n
		}
	}
	next := first
	var mu sync.Mutex
	var group sync.WaitGroup
	for range lanes() {
		group.Go(func() {
			for {
				mu.Lock()
				n := next
				next++
				mu.Unlock()
				if n > last {
					return
				}
				_, _, flags, what := pair(n)
				if err := flow(t, n); err != nil {
					t.Errorf("pair %d (alone: MATRIX==%d), %s %v: %v", n, n, what, flags, err)
				}
			}
		})
	}
	group.Wait()
}

func flow(t *testing.T, n int) error {
	l, err := newLab(t)
	if err != nil {
		return err
	}
	defer l.end()
	a, b, flags, _ := pair(n)
	for _, deploy := range []struct {
		want  wish
		flags []string
	}{{a, nil}, {b, flags}} {
		l.want = deploy.want
		if err := l.asPlanned(deploy.flags, n%2 == 0); err != nil {
			return err
		}
		if err := l.serves(); err != nil {
			return err
		}
	}
	o, err := l.run(nil, "plan")
	if err == nil && o.status != 0 {
		err = fmt.Errorf("there is still something to do (%d):\n%s", o.status, o.text)
	}
	return err
}

// asPlanned makes a plan, deploys, and compares the calls. If file is true, the deploy
// runs the saved plan.
func (l *lab) asPlanned(flags []string, file bool) error {
	if err := l.write(); err != nil {
		return err
	}
	saved := l.path("plan.json")
	o, err := l.run(nil, slices.Concat([]string{"plan"}, flags, []string{"--out", saved})...)
	if err != nil {
		return err
	}
	if o.status != 0 && o.status != 2 {
		return fmt.Errorf("plan ended with %d:\n%s", o.status, o.text)
	}
	data, err := os.ReadFile(saved)
	if err != nil {
		return err
	}
	var shown struct{ Plan plan.Plan }
	if err := json.Unmarshal(data, &shown); err != nil {
		return err
	}
	must, may := shown.Plan.Calls()
	args := slices.Concat([]string{"deploy"}, flags)
	if file {
		args = []string{"deploy", "--plan", saved}
	}
	did, met, err := l.traced(args...)
	if err == nil && did.status != 0 {
		err = fmt.Errorf("%v ended with %d", args, did.status)
	}
	if err == nil {
		err = compare(must, may, calls(met))
	}
	if err != nil {
		return fmt.Errorf("%w\n=== plan:\n%s\n=== deploy:\n%s", err, o.text, did.text)
	}
	return nil
}

// calls returns the different calls in a trace, without blobs and without the calls that
// only ask for the progress of another call.
func calls(met []string) []string {
	set := map[string]bool{}
	for _, p := range met {
		word := strings.Fields(p)
		if len(word) == 4 && word[0] != "state" && word[1] != "get_task" && !strings.HasSuffix(word[1], "_blob") {
			set[word[0]+" "+word[1]] = true
		}
	}
	return sortedKeys(set)
}

func compare(must, may, did []string) error {
	var missing, surplus []string
	for _, c := range must {
		if !slices.Contains(did, c) {
			missing = append(missing, c)
		}
	}
	for _, c := range did {
		if !slices.Contains(must, c) && !slices.Contains(may, c) {
			surplus = append(surplus, c)
		}
	}
	if len(missing)+len(surplus) > 0 {
		return fmt.Errorf("planned and not done: %q; done and not planned: %q", missing, surplus)
	}
	return nil
}

// TestDowntime measures how long a page is down while its deployment changes, and
// compares that with the time that the run records.
func TestDowntime(t *testing.T) {
	l, err := newLab(t)
	if err != nil {
		t.Fatal(err)
	}
	defer l.end()
	if err := l.write(); err != nil {
		t.Fatal(err)
	}
	if err := l.must("deploy"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		change func(*wish)
		args   []string
	}{
		{"a property", func(w *wish) { w.Title = "two" }, []string{"deploy"}},
		{"a package", func(w *wish) { w.Source++ }, []string{"deploy"}},
		{"a bigger disk", func(w *wish) { w.Disk++ }, []string{"deploy"}},
		{"a migration to another disk", func(*wish) {}, []string{"deploy", "--recreate-persistent-disks"}},
		{"another VM", func(*wish) {}, []string{"deploy", "--recreate"}},
	} {
		c.change(&l.want)
		if err := l.write(); err != nil {
			t.Fatal(err)
		}
		end := l.probe()
		began := time.Now()
		err := l.must(c.args...)
		took := time.Since(began)
		from, to := end()
		if err != nil {
			t.Fatal(err)
		}
		downFrom, downTo, err := l.recordedOutage()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: the page was away for %v of %v; recorded: %v", c.what, to.Sub(from).Round(10*time.Millisecond), took.Round(10*time.Millisecond), downTo.Sub(downFrom))
		if !to.After(downFrom) || !from.Before(downTo) {
			t.Errorf("%s: the page was away from %v to %v, and the record says from %v to %v", c.what, from, to, downFrom, downTo)
		}
	}
}

// recordedOutage returns when the service was down in the last run, by its timeline.
func (l *lab) recordedOutage() (from, to time.Time, err error) {
	found, err := filepath.Glob(l.path("home/.bosh/*/timeline.json"))
	if err != nil || len(found) != 1 {
		return from, to, fmt.Errorf("%d timelines: %w", len(found), err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		return from, to, err
	}
	var kept struct {
		Runs []struct {
			Began time.Time
			Down  []struct{ From, To float64 }
		}
	}
	if err := json.Unmarshal(data, &kept); err != nil || len(kept.Runs) == 0 || len(kept.Runs[0].Down) != 1 {
		return from, to, fmt.Errorf("no time when the service was down is recorded: %w\n%s", err, data)
	}
	run := kept.Runs[0]
	at := func(seconds float64) time.Time { return run.Began.Add(time.Duration(seconds * float64(time.Second))) }
	return at(run.Down[0].From), at(run.Down[0].To), nil
}

// probe requests the page continuously; end returns between which two answers it was
// longest refused.
func (l *lab) probe() (end func() (from, to time.Time)) {
	ctx, cancel := context.WithCancel(context.Background())
	longest := make(chan [2]time.Time)
	go func() {
		var away [2]time.Time
		client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		last, refused := time.Now(), false
		for ctx.Err() == nil {
			resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", l.page))
			if err == nil {
				resp.Body.Close()
				if now := time.Now(); refused && now.Sub(last) > away[1].Sub(away[0]) {
					away = [2]time.Time{last, now}
				}
				last = time.Now()
			}
			refused = err != nil
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		longest <- away
	}()
	return func() (from, to time.Time) {
		cancel()
		away := <-longest
		return away[0], away[1]
	}
}
