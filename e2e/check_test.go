//go:build unix

package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/state"
)

// world lists the VMs, disks and stemcells that must survive an interrupted deploy.
type world struct {
	disk  string // CID; migrations change it
	born  string // the mark on the disk
	named map[string]namedDisk
}

// namedDisk is a disk of persistent_disks.
type namedDisk struct {
	cid  string
	size int
	born string
}

// named returns the recorded named disks, with the marks of the jobs that found them.
func (l *lab) named(st state.State) map[string]namedDisk {
	all := map[string]namedDisk{}
	for _, n := range st.Own.NamedDisks {
		d := st.Named(n.Name)
		all[n.Name] = namedDisk{d.CID, d.Size, l.born(d.CID)}
	}
	return all
}

// keepsNamed checks that the named disks are those of the manifest, and that all earlier
// ones are in use or orphans, with their data. It returns the CIDs of both.
func (l *lab) keepsNamed(before map[string]namedDisk, st state.State) (want []string, err error) {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	now := l.named(st)
	if len(now) != len(l.want.Named) {
		fail("the named disks are %v, and %v are wanted", now, l.want.Named)
	}
	for name, size := range l.want.Named {
		d, was := now[name], before[name]
		want = append(want, d.cid)
		if d.size != size || d.born == "" || !st.Attached(name) {
			fail("disk %s is %+v, attached: %v", name, d, st.Attached(name))
		}
		if was.size == size && was != d {
			fail("disk %s was %+v and is %+v", name, was, d)
		}
	}
	var kept, orphans []string
	for name, d := range before {
		if now[name].cid == d.cid {
			continue
		}
		kept = append(kept, d.cid)
		if born := l.born(d.cid); born != d.born {
			fail("the data of the orphan %s are not what they were: %q, then %q", d.cid, d.born, born)
		}
	}
	for _, o := range st.Own.Orphans {
		orphans = append(orphans, o.CID)
	}
	slices.Sort(kept)
	slices.Sort(orphans)
	if !slices.Equal(kept, orphans) {
		fail("the orphans are %v, and not %v", orphans, kept)
	}
	return append(want, kept...), errors.Join(errs...)
}

// converged checks that the lab is as its manifest says, and that nothing else exists.
// Leftovers in the state are allowed.
func (l *lab) converged(before world) error {
	st, err := l.state()
	if err != nil {
		return err
	}
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	own := st.Own
	if len(own.Intents) > 0 || own.Swap != nil {
		fail("open: %d intents, swap %v", len(own.Intents), own.Swap)
	}
	if st.CurrentManifestSHA == "" {
		fail("the manifest is not recorded as deployed")
	}
	wantStemcell := []string{}
	wantDisk, err := l.keepsNamed(before.named, st)
	errs = append(errs, err)
	if d := st.Disk(); d != nil {
		wantDisk = append(wantDisk, d.CID)
		if d.Size != l.want.Disk {
			fail("the disk has %d MiB and %d are wanted", d.Size, l.want.Disk)
		}
		if born := l.born(d.CID); born == "" || before.born != "" && born != before.born {
			fail("the data of the disk are not what they were: %q, then %q", before.born, born)
		}
	} else if l.want.Disk > 0 {
		fail("no disk")
	}
	if sc := st.Stemcell(); sc != nil {
		wantStemcell = []string{sc.CID}
	}
	if len(st.Disks)+len(own.Orphans) != len(wantDisk) || len(st.Stemcells) != 1 {
		fail("the state has %d disks and %d stemcells", len(st.Disks), len(st.Stemcells))
	}
	errs = append(errs, l.exactly("vms", []string{st.CurrentVMCID}, st), l.exactly("disks", wantDisk, st), l.exactly("stemcells", wantStemcell, st))
	errs = append(errs, l.serves(), l.isRotated(), l.onlyProcessesOf(st.CurrentVMCID), l.tidy(st))
	return errors.Join(errs...)
}

// exactly checks that these things exist. Others may exist only if they may be leftovers.
func (l *lab) exactly(kind string, want []string, st state.State) error {
	have := l.cids(kind)
	var surplus, missing []string
	for _, cid := range have {
		if !slices.Contains(want, cid) {
			surplus = append(surplus, cid)
		}
	}
	for _, cid := range want {
		if !slices.Contains(have, cid) {
			missing = append(missing, cid)
		}
	}
	allowed := 0
	for _, left := range st.Own.Leftovers {
		if strings.HasPrefix("create_"+kind, left.Method) {
			allowed++
		}
	}
	if len(missing) > 0 || len(surplus) > allowed {
		return fmt.Errorf("%s: missing %v, surplus %v (%d leftovers)", kind, missing, surplus, allowed)
	}
	return nil
}

// serves checks the page.
func (l *lab) serves() error {
	if !slices.Contains(l.want.Jobs, "page") {
		return nil
	}
	client := http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(fmt.Sprintf("http://%s:%d/", cmp.Or(l.want.Address, "127.0.0.1"), l.page))
	if err != nil {
		return fmt.Errorf("the page is away: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(body), "<h1>"+l.want.Title+"</h1>") {
		return fmt.Errorf("the page is not %q: %s %v", l.want.Title, body, err)
	}
	return nil
}

// onlyProcessesOf checks that, of the processes that belong to the lab, only those of the
// given VM run; if vm is empty, none may run.
func (l *lab) onlyProcessesOf(vm string) error {
	var stray []string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		stray = nil
		agents := map[int]bool{}
		for _, p := range slices.Concat(allOf(l.dir), inVMs(filepath.Join(filepath.Base(l.dir), "home"))) {
			switch {
			case vm == "" || !strings.Contains(p.command, filepath.Join("vms", vm)):
				stray = append(stray, p.command)
			case strings.Contains(p.command, "plugin agent"):
				agents[p.pid] = true
			}
		}
		if vm != "" && len(agents) != 1 {
			stray = append(stray, fmt.Sprintf("and there are %d agents", len(agents)))
		}
		if len(stray) == 0 {
			return nil
		}
	}
	for i, s := range stray {
		stray[i], _, _ = strings.Cut(s, " HOME=")
	}
	return fmt.Errorf("stray processes: %q", stray)
}

// tidy checks that no folder contains temporary files.
func (l *lab) tidy(st state.State) error {
	var left []string
	look := func(dir string, fine func(name string) bool) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if !fine(e.Name()) {
				left = append(left, filepath.Join(strings.TrimPrefix(dir, l.dir), e.Name()))
			}
		}
	}
	none := func(string) bool { return false }
	look(l.path("tmp"), none)
	look(l.path("state"), func(name string) bool { return strings.HasPrefix(name, "state.json") })
	dir := l.path("home/.bosh", st.InstallationID)
	look(filepath.Join(dir, "replies"), none)
	look(dir, func(name string) bool {
		return !strings.HasPrefix(name, "rendered-") && !strings.HasPrefix(name, "stemcell-") && !strings.HasPrefix(name, ".")
	})
	look(l.path("home/.bosh/local"), func(name string) bool { return !strings.HasPrefix(name, ".") || name == ".lock" })
	if len(left) > 0 {
		return fmt.Errorf("left behind: %v", left)
	}
	return nil
}

// gone checks that nothing is left after a delete, and after deleting the snapshots, for
// which delete keeps the state.
func (l *lab) gone() error {
	if st, err := l.state(); err == nil && len(st.Own.Snapshots) > 0 {
		if err := l.deleteSnapshots(); err != nil {
			return err
		}
	}
	var errs []error
	kinds := []string{"vms", "disks", "stemcells"}
	if len(l.cids("snapshots")) == 0 { // otherwise a killed run has taken them
		kinds = append(kinds, "")
	}
	for _, kind := range kinds {
		if left := l.cids(kind); len(left) > 0 {
			errs = append(errs, fmt.Errorf("in the embedded CPI's folder %s there is %v", kind, left))
		}
	}
	if _, err := os.Stat(l.statePath()); err == nil {
		errs = append(errs, errors.New("the state file is still there"))
	}
	if l.inStore != nil && len(l.cids("snapshots")) == 0 { // otherwise an old version records them
		names := slices.DeleteFunc(l.inStore(), func(name string) bool { return path.Base(name) == "deleted.json" }) // says who has deleted it
		if len(names) > 0 {
			errs = append(errs, fmt.Errorf("in the store there is %v", names))
		}
	}
	if left, err := os.ReadDir(l.path("home/.bosh/team")); err == nil && len(left) > 0 && len(l.cids("snapshots")) == 0 {
		errs = append(errs, fmt.Errorf("of the copy of a store there is %v", filesBelow(l.path("home/.bosh/team"))))
	}
	entries, _ := os.ReadDir(l.path("home/.bosh"))
	for _, e := range entries {
		if len(e.Name()) == 36 && strings.Count(e.Name(), "-") == 4 {
			inside, _ := os.ReadDir(l.path("home/.bosh", e.Name()))
			var names []string
			for _, i := range inside {
				names = append(names, i.Name())
			}
			// A run that could not write any state leaves only the lock.
			if len(names) > 0 && !slices.Equal(names, []string{"lock"}) {
				errs = append(errs, fmt.Errorf("of the installation there is %v", names))
			}
		}
	}
	return errors.Join(append(errs, l.onlyProcessesOf(""))...)
}
