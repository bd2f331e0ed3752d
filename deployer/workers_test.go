package deployer

import (
	"context"
	"errors"
	"testing"

	"bootstrap/artifact"
	"bootstrap/deployer/report"
)

// A VM that could not be deleted is reported, also if a package fails or a person interrupts
// the run.
func TestOutcome(t *testing.T) {
	t.Parallel()
	failed, left := errors.New("a package fails"), errors.New("a VM may be left")
	for _, f := range []error{nil, failed} {
		for _, l := range []error{nil, left} {
			a := &workers{failed: f}
			err := a.outcome(t.Context(), l)
			if (err == nil) != (f == nil && l == nil) || f != nil && !errors.Is(err, f) || l != nil && !errors.Is(err, l) {
				t.Errorf("failed %v, left %v: got %v", f, l, err)
			}
			stopped, cancel := context.WithCancel(t.Context())
			cancel()
			err = a.outcome(stopped, l)
			if _, ok := errors.AsType[*report.InterruptedError](err); !ok || l != nil && !errors.Is(err, l) {
				t.Errorf("interrupted, left %v: got %v", l, err)
			}
		}
	}
}

// An export has nothing that a VM with jobs may have compiled, also if the manifest has no
// digest of the stemcell.
func TestExportWithoutDigest(t *testing.T) {
	t.Parallel()
	r := deliveryRun(t, false)
	if r.artifacts.Stemcell.Digest != "" {
		t.Fatal("the stemcell has a digest")
	}
	if err := r.packages.planDelivery(t.Context(), nil, ""); err != nil {
		t.Fatal(err)
	}
	d, store := r.packages.delivery, r.t.Env.Store
	keep := func(keys []artifact.CompiledKey) {
		t.Helper()
		if _, err := store.KeepCompiled(t.Context(), artifact.NewCompiled{Keys: keys, Fetch: gzipped("x")}); err != nil {
			t.Fatal(err)
		}
	}
	count := func(exports bool) (wanted int) {
		t.Helper()
		a := &workers{store: store, exports: exports, packages: map[string]*toCompile{}}
		a.add(d, d.trust.owners)
		for _, id := range a.order { // the deployment's VM lacks none
			a.packages[id].wanted = false
		}
		if exports {
			if err := a.wantAll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range a.order {
			p := a.packages[id]
			_, found, err := a.find(t.Context(), p)
			if err != nil || exports && found == p.wanted {
				t.Errorf("%s: found %v, wanted %v, %v", p.Package.Name, found, p.wanted, err)
			}
			if !found {
				wanted++
			}
		}
		return wanted
	}
	all := len(d.order)
	for _, l := range d.order {
		keep(d.trust.keys(d.keys[l.Package.Name])) // compiled on a VM with jobs
	}
	if own, others := count(false), count(true); own != 0 || others != all {
		t.Errorf("after a VM with jobs: %d to compile for the deployment, %d for an export of %d", own, others, all)
	}
	a := &workers{owners: d.trust.owners}
	for _, l := range d.order {
		keep(a.keys(&toCompile{key: d.keys[l.Package.Name]}))
	}
	if own, others := count(false), count(true); own != 0 || others != 0 {
		t.Errorf("after a VM without jobs: %d to compile for the deployment, %d for an export", own, others)
	}
}
