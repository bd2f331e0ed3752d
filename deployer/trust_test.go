package deployer

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"bootstrap/artifact"
)

// A package that a new VM compiled may be used by deployments that compile everything
// that was compiled on that VM before.
func TestTrustInWhatWasCompiledBefore(t *testing.T) {
	r := deliveryRun(t, false)
	r.artifacts.Stemcell.Digest = "sha256:aa"
	if err := r.packages.planDelivery(context.Background(), nil, ""); err != nil {
		t.Fatal(err)
	}
	d := r.packages.delivery
	keep := func(name string, after []string) {
		t.Helper()
		_, err := r.t.Env.Store.KeepCompiled(context.Background(), artifact.NewCompiled{Keys: d.trust.keys(d.keys[name]), After: after, Fetch: gzipped(name)})
		if err != nil {
			t.Fatal(err)
		}
	}
	d.trust.fresh = true
	for _, l := range d.order { // in the order ruby, openssl, nginx
		keep(l.Package.Name, d.trust.compiles(l.Package, l.Package.Dependencies))
	}
	look := func(with ...string) string {
		t.Helper()
		other := newTrust([]string{"deployment 2"}, nil)
		for _, l := range d.order {
			if slices.Contains(with, l.Package.Name) {
				other.own[source(l.Package)] = true
			}
		}
		var found []string
		for _, name := range []string{"ruby", "openssl", "nginx"} {
			c, ok, err := other.find(context.Background(), r.t.Env.Store, d.keys[name])
			if err != nil {
				t.Fatal(err)
			}
			if ok && !c.Owned {
				found = append(found, name)
			}
		}
		return fmt.Sprint(found)
	}
	for want, with := range map[string][]string{
		"[ruby]":               {"openssl", "nginx"}, // ruby was compiled first, so no other script could change it
		"[ruby openssl]":       {"ruby"},
		"[ruby openssl nginx]": {"ruby", "openssl"},
	} {
		if got := look(with...); got != want {
			t.Errorf("with %v: found %s, want %s", with, got, want)
		}
	}
	changed := d.keys["ruby"]
	changed.Sources = []string{"sha256:aa", "ruby/r1/ee"}
	if _, ok, _ := d.trust.find(context.Background(), r.t.Env.Store, changed); !ok {
		t.Error("the deployment does not find what it compiled from an archive that was packed again")
	}
	stranger := newTrust([]string{"deployment 2"}, d.order)
	if _, ok, _ := stranger.find(context.Background(), r.t.Env.Store, changed); ok {
		t.Error("a fingerprint is believed")
	}
}

// If a VM has used packages that jobs could have changed, only its owners may use what it
// compiles.
func TestTrustEndsWithAPackageOfAnOwner(t *testing.T) {
	r := deliveryRun(t, false)
	r.artifacts.Stemcell.Digest = "sha256:aa"
	if err := r.packages.planDelivery(context.Background(), nil, ""); err != nil {
		t.Fatal(err)
	}
	d := r.packages.delivery
	d.trust.fresh = true
	d.trust.cached("openssl", artifact.Compiled{Owned: true})
	d.trust.compiles(d.order[0].Package, nil)
	if keys := d.trust.keys(d.keys["ruby"]); keys[0].Owner != "" {
		t.Errorf("ruby needs no openssl: %+v", keys)
	}
	d.trust.compiles(d.order[2].Package, []string{"openssl"})
	for _, name := range []string{"nginx", "ruby"} {
		for _, key := range d.trust.keys(d.keys[name]) {
			if key.Owner == "" {
				t.Errorf("%s is given to everybody", name)
			}
		}
	}
}

// A stemcell without a digest may have any content.
func TestTrustNeedsTheStemcellsDigest(t *testing.T) {
	r := deliveryRun(t, false)
	if err := r.packages.planDelivery(context.Background(), nil, ""); err != nil {
		t.Fatal(err)
	}
	d := r.packages.delivery
	d.trust.fresh = true
	if keys := d.trust.keys(d.keys["ruby"]); len(keys) != 1 || keys[0].Owner == "" {
		t.Errorf("%+v", keys)
	}
}
