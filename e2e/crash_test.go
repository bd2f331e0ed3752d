//go:build unix

package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/agent"
)

// trial is one scenario with one fault. After the fault, the run is repeated, and must
// then succeed.
type trial struct {
	name     string
	what     []string // the kinds of things that the trial covers; a sample covers each of them
	scenario scenario
	lab      func(*lab) error // prepares a new lab; nil: the lab needs no preparation
	// meet starts the run in which the fault happens.
	meet func(l *lab, args []string) (outcome, error)
	// leftovers is the largest allowed number of leftovers.
	leftovers int
	// forget removes the leftovers from the list, like a user who found nothing in the
	// cloud: the lab is used again, and must be empty at the end.
	forget bool
}

// figures are the numbers that a test reports at its end.
type figures struct {
	sync.Mutex
	cases, met, leftovers, failed int
	whats                         map[string]bool
}

// lane runs trials one after the other in its own lab.
type lane struct {
	t       *testing.T
	machine string // kind of machine of its VMs; empty: the same as in other tests
	store   string // where its states are stored: web, s3 or postgres; empty: in a file
	lab     *lab
	fit     func(*lab) error
	world   world
	has     bool // a deployment exists
	shape   string
}

// newLane returns the lane with the given number. The VMs of the first lane consist of
// namespaces, unless TEST_MACHINE chooses the kind for all lanes. The states of the next
// three lanes are in stores of teams, unless TEST_STORE chooses for all lanes.
func newLane(t *testing.T, number int) *lane {
	n := &lane{t: t, store: os.Getenv("TEST_STORE")}
	if stores := []string{"", "web", "s3", "postgres"}; n.store == "" && number < len(stores) {
		n.store = stores[number]
	}
	if number == 0 && os.Getenv("TEST_MACHINE") == "" && namespaces() {
		n.machine = agent.MachineNamespace
	}
	return n
}

// reset removes the lab, so that a fault in it does not affect the next trial.
func (n *lane) reset() {
	if n.lab != nil {
		n.lab.end()
	}
	n.lab, n.world, n.has, n.shape = nil, world{}, false, ""
}

// prepare brings the lab to the state in which the scenario begins.
func (n *lane) prepare(s scenario) error {
	if n.lab == nil {
		l, err := newLab(n.t)
		if err != nil {
			return err
		}
		l.machine = cmp.Or(n.machine, l.machine)
		n.lab = l
		if n.fit == nil {
			if err := l.useStore(n.store); err != nil {
				return err
			}
		}
		if n.fit != nil {
			if err := n.fit(l); err != nil {
				return err
			}
		}
	}
	l := n.lab
	if s.empty {
		if n.has {
			if err := l.must("delete"); err != nil {
				return err
			}
			if err := l.gone(); err != nil {
				return err
			}
		}
		n.has, n.world = false, world{}
	}
	w := newWish()
	w.Flaky = l.want.Flaky
	if make := shapes()[s.shape]; make != nil {
		make(&w)
	}
	// The version of the API cannot change on an existing VM, and other disks become orphans.
	if n.has && (w.V1 != l.want.V1 || (len(w.Named) > 0) != (len(l.want.Named) > 0)) {
		if err := l.must("delete"); err != nil {
			return err
		}
		n.has, n.world = false, world{}
	}
	if s.empty || !n.has || s.shape != n.shape {
		if len(w.Named) == 0 {
			w.Disk = max(w.Disk, l.want.Disk) // the disk must not shrink
		}
		l.want, n.shape = w, s.shape
		if err := l.write(); err != nil || s.empty {
			return err
		}
		if err := l.must("deploy"); err != nil {
			return err
		}
		n.has = true
	}
	if s.name == "shrink" && l.want.Disk <= 16 {
		l.want.Disk = 64
	}
	if s.before != nil {
		if err := l.must(s.before...); err != nil {
			return err
		}
	}
	st, err := l.state()
	if err != nil {
		return err
	}
	if d := st.Disk(); d != nil {
		n.world = world{disk: d.CID, born: l.born(d.CID)}
	}
	n.world.named = l.named(st)
	return nil
}

// try runs one trial. The error contains everything that is needed to understand
// it.
func (n *lane) try(tr trial, f *figures) error {
	s := tr.scenario
	if err := n.prepare(s); err != nil {
		return fmt.Errorf("cannot prepare: %w", err)
	}
	l := n.lab
	if s.change != nil {
		s.change(&l.want)
	}
	if err := l.write(); err != nil {
		return err
	}
	first, err := tr.meet(l, s.args)
	if err != nil {
		return err
	}
	story := fmt.Sprintf("=== the run that met it ended with %d:\n%s", first.status, first.text)
	f.Lock()
	if first.status != 0 {
		f.met++
	}
	f.Unlock()
	n.has = !s.gone
	if s.gone && first.status == 0 {
		return n.goneAfter(story)
	}
	if err := n.plans(s.args); err != nil {
		return fmt.Errorf("%w\n%s", err, story)
	}
	again, err := l.run(nil, s.args...)
	story += fmt.Sprintf("\n=== the run after it ended with %d:\n%s", again.status, again.text)
	if s.gone {
		if err == nil && again.status != 0 && again.status != 66 { // the run ended before the point
			err = fmt.Errorf("the second run failed")
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, story)
		}
		return n.goneAfter(story)
	}
	if err == nil && again.status != 0 {
		err = fmt.Errorf("the second run failed")
	}
	if err == nil && s.after != nil {
		err = l.must(s.after...)
	}
	if err == nil {
		err = l.converged(n.world)
	}
	if err == nil {
		err = n.nothingToDo()
	}
	if err == nil && len(n.world.named) > 0 {
		err = l.deleteOrphans()
	}
	if err == nil {
		err = n.count(tr, f)
	}
	if err != nil {
		state, _ := os.ReadFile(l.statePath())
		return fmt.Errorf("%w\n%s\n=== state:\n%s", err, story, state)
	}
	return nil
}

// plans checks that a deploy can be planned, whatever the fault has left; args are those of
// the run that met it.
func (n *lane) plans(args []string) error {
	plan := []string{"plan"}
	if args[0] == "deploy" {
		plan = append(plan, slices.DeleteFunc(slices.Clone(args[1:]), func(flag string) bool { return flag == "--yes" })...)
	}
	o, err := n.lab.run(nil, plan...)
	if err == nil && o.status != 0 && o.status != 2 {
		err = fmt.Errorf("after the fault, a plan ended with %d:\n%s", o.status, o.text)
	}
	return err
}

func (n *lane) goneAfter(story string) error {
	n.world = world{}
	if err := n.lab.gone(); err != nil {
		return fmt.Errorf("%w\n%s", err, story)
	}
	return nil
}

// nothingToDo checks that a plan has no changes.
func (n *lane) nothingToDo() error {
	o, err := n.lab.run(nil, "plan")
	if err == nil && o.status != 0 {
		err = fmt.Errorf("there is still something to do (%d):\n%s", o.status, o.text)
	}
	return err
}

// count counts the leftovers. A lab with leftovers is not used again.
func (n *lane) count(tr trial, f *figures) error {
	st, err := n.lab.state()
	if err != nil {
		return err
	}
	left := len(st.Own.Leftovers)
	f.Lock()
	f.leftovers += left
	f.Unlock()
	if left > tr.leftovers {
		return fmt.Errorf("%d leftovers are recorded: %v", left, st.Own.Leftovers)
	}
	switch {
	case left > 0 && tr.forget:
		for _, l := range st.Own.Leftovers {
			n.t.Logf("%s: a leftover is forgotten: %s: %s", tr.name, l.Method, l.Why)
			if err := n.lab.forget(l.ID); err != nil {
				return err
			}
		}
	case left > 0:
		n.reset()
	}
	return nil
}

// sample orders trials so that the first ones cover each kind of thing once, with few
// trials, and returns the number of these first trials.
func sample(all []trial, seed uint64) ([]trial, int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	seen := map[string]bool{}
	news := func(tr trial) (n int) {
		for _, what := range tr.what {
			if !seen[what] {
				n++
			}
		}
		return n
	}
	var first []trial
	rest := all
	for most := 2; most > 0; most-- {
		var other []trial
		for _, tr := range rest {
			if news(tr) < most {
				other = append(other, tr)
				continue
			}
			for _, what := range tr.what {
				seen[what] = true
			}
			first = append(first, tr)
		}
		rest = other
	}
	return append(together(first), rest...), len(first)
}

// together orders trials so that few deploys are needed for preparation alone: by
// scenario, and with a deploy after each delete.
func together(list []trial) []trial {
	var makes, takes, rest []trial
	for _, tr := range list {
		switch {
		case tr.scenario.empty:
			makes = append(makes, tr)
		case tr.scenario.gone:
			takes = append(takes, tr)
		default:
			rest = append(rest, tr)
		}
	}
	slices.SortStableFunc(rest, func(a, b trial) int { return cmp.Compare(a.scenario.name, b.scenario.name) })
	var all []trial
	for i := range max(len(makes), len(takes)) {
		if i < len(makes) {
			all = append(all, makes[i])
		}
		if i < len(takes) {
			all = append(all, takes[i])
		}
	}
	return append(rest, all...)
}

// chosen selects the trials for $CRASH: all, or those whose names match. Without $CRASH,
// it selects a sample, which is always the same: one trial for each kind of thing, and
// then others until $CRASH_TIME has passed.
func chosen(t *testing.T, all []trial) (list []trial, must int, until time.Time) {
	switch ask := os.Getenv("CRASH"); ask {
	case "":
		longer, _ := time.ParseDuration(os.Getenv("CRASH_TIME")) // zero if it is not set
		list, must = sample(all, 5)
		return list, must, time.Now().Add(longer)
	case "all":
		return together(all), len(all), time.Time{}
	default:
		re, err := regexp.Compile(ask)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range all {
			if re.MatchString(tr.name) {
				list = append(list, tr)
			}
		}
		return list, len(list), time.Time{}
	}
}

// lanes is the number of labs that run in parallel. Each needs a core for at
// most a third of its time, and otherwise waits for processes.
func lanes() int { return 3 * runtime.GOMAXPROCS(0) }

// matrix runs the trials.
func matrix(t *testing.T, all []trial) {
	t.Helper()
	began := time.Now()
	list, must, until := chosen(t, all)
	f := &figures{whats: map[string]bool{}}
	next := 0
	take := func() (trial, bool) {
		f.Lock()
		defer f.Unlock()
		if next >= len(list) || next >= must && time.Now().After(until) || f.failed >= 10 {
			return trial{}, false
		}
		tr := list[next]
		next++
		f.cases++
		for _, what := range tr.what {
			f.whats[what] = true
		}
		return tr, true
	}
	var group sync.WaitGroup
	for i := range lanes() {
		group.Go(func() {
			n := newLane(t, i)
			defer n.reset()
			for {
				tr, ok := take()
				if !ok {
					return
				}
				if (n.fit == nil) != (tr.lab == nil) {
					n.reset()
				}
				n.fit = tr.lab
				if err := n.try(tr, f); err != nil {
					f.Lock()
					f.failed++
					f.Unlock()
					t.Errorf("%s (alone: TEST_MACHINE=%s TEST_STORE=%s CRASH='^%s$'): %v", tr.name, cmp.Or(n.machine, machine()), n.store, regexp.QuoteMeta(tr.name), err)
					n.reset()
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d of %d cases with %d kinds of things in %v: %d cut, %d survived, %d leftovers recorded",
		f.cases, len(all), len(f.whats), time.Since(began).Round(time.Second), f.met, f.cases-f.failed, f.leftovers)
}

// uninterrupted stores the points, which two tests need.
var uninterrupted struct {
	sync.Once
	found map[string][]string
}

// points runs every scenario without interruption, and returns its points.
func points(t *testing.T) map[string][]string {
	t.Helper()
	uninterrupted.Do(func() { uninterrupted.found = findPoints(t) })
	if uninterrupted.found == nil {
		t.Fatal("the scenarios fail without interruption")
	}
	return uninterrupted.found
}

func findPoints(t *testing.T) map[string][]string {
	list := scenarios()
	found := map[string][]string{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range lanes() {
		group.Go(func() {
			n := newLane(t, i)
			defer n.reset()
			for j := i; j < len(list); j += lanes() {
				s := list[j]
				tr := trial{name: s.name, scenario: s, meet: func(l *lab, args []string) (outcome, error) {
					o, met, err := l.traced(args...)
					if err == nil && o.status != 0 {
						err = fmt.Errorf("it ended with %d:\n%s", o.status, o.text)
					}
					mu.Lock()
					defer mu.Unlock()
					found[s.name] = met
					return o, err
				}}
				if err := n.try(tr, &figures{}); err != nil {
					t.Errorf("%s: %v", s.name, err)
					n.reset()
				}
			}
		})
	}
	group.Wait()
	for _, kind := range []string{"cpi", "agent", "state"} {
		if !t.Failed() && !strings.Contains(strings.Join(found["deploy"], "\n"), kind+" ") {
			t.Errorf("no point of a deploy is about %s", kind)
		}
	}
	if t.Failed() {
		return nil
	}
	return found
}

// cuts lists the points at which a run can be killed. If a call is repeated until it
// succeeds, only its first few points are listed.
func cuts(met []string) []string {
	var list []string
	for _, p := range met {
		word := strings.Fields(p)
		if len(word) != 4 || word[1] == "get_task" {
			continue
		}
		n, err := strconv.Atoi(word[3])
		often := word[1] == "ping" || word[1] == "get_state"
		if err != nil || often && n > 3 {
			continue
		}
		list = append(list, p)
	}
	return list
}

// TestCrash kills the program at every point of every scenario, with and without
// the running CPI, and runs it again: nothing may be lost, and nothing unneeded
// may be left.
func TestCrash(t *testing.T) {
	t.Parallel()
	var all []trial
	rng := rand.New(rand.NewPCG(7, 7))
	for name, met := range sorted(points(t)) {
		s := scenarios()[slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == name })]
		for _, p := range cuts(met) {
			word := strings.Fields(p)
			what := word[0] + " " + word[1]
			if s.shape == "with named disks" && (strings.HasSuffix(word[1], "_disk") || word[1] == "update_settings") {
				what = "named: " + what
			}
			all = append(all, killed(s, p, what, nil))
			if word[2] == "running" {
				after := fmt.Sprintf("%dms", []int{0, 3, 10, 30, 60, 120}[rng.IntN(6)])
				if word[1] == "update_disk" {
					after = "0s" // if the disk was replaced already, only the reply of the CPI contains the CID of the new disk
				}
				all = append(all, killed(s, p, "with "+what, []string{"BOOTSTRAP_KILL_CPI=1", "BOOTSTRAP_KILL_AFTER=" + after}))
			}
		}
	}
	matrix(t, all)
}

// killed is a trial in which the program is killed at a point.
func killed(s scenario, point, what string, with []string) trial {
	tr := trial{name: s.name + "/" + point, what: []string{what}, scenario: s, meet: func(l *lab, args []string) (outcome, error) {
		o, err := l.run(append([]string{"BOOTSTRAP_KILL_AT=" + point}, with...), args...)
		if err == nil && l.want.V1 && len(with) > 0 && strings.HasPrefix(point, "cpi create_vm ") {
			// If a CPI was killed just after it had started the agent, its VM waits for a
			// registry, and uses the ports of the next VM; see withFlakyCPI.
			err = l.deleteUnknownVMs()
		}
		return o, err
	}}
	if len(with) > 0 {
		tr.name += " with the CPI"
		tr.leftovers = 1
	}
	return tr
}

// sorted iterates over a map in the order of its keys.
func sorted[V any](all map[string]V) func(func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for _, k := range sortedKeys(all) {
			if !yield(k, all[k]) {
				return
			}
		}
	}
}
