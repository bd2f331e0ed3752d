package deployer

import (
	"context"
	"io"
	"testing"

	"bootstrap/artifact"
	"bootstrap/artifact/tartest"
	"bootstrap/deployer/instance"
)

func TestWarden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asked, os, source string
		ok                bool
	}{
		{"", "ubuntu-noble", "", false},
		{"local", "ubuntu-noble", boshIO, true},
		{"local", "ubuntu-jammy", boshIO + "-go_agent", true},
		{"local=a=b.tgz", "ubuntu-jammy", "a=b.tgz", true},
	} {
		if source, ok := warden(c.asked, c.os); source != c.source || ok != c.ok {
			t.Errorf("%s, %s: %s, %t", c.asked, c.os, source, ok)
		}
	}
}

func TestRunsHere(t *testing.T) {
	t.Parallel()
	for want, list := range map[bool][]*artifact.Stemcell{
		true: {
			{Formats: []string{"warden-tar"}}, {Formats: []string{"local"}}, {}, {Formats: []string{"docker-light"}},
			{CloudProperties: map[string]any{"infrastructure": "warden"}},
		},
		false: {{Formats: []string{"aws-raw"}, CloudProperties: map[string]any{"infrastructure": "aws"}}, {Formats: []string{"openstack-qcow2"}}},
	} {
		for _, sc := range list {
			if runsHere(sc) != want {
				t.Errorf("%+v: %t", sc, !want)
			}
		}
	}
}

// Others trust only what VMs without jobs have compiled: an export contains nothing else, and
// nothing of another stemcell is given to deployments that did not ask for it.
func TestWhoGetsWhatWasCompiled(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := artifact.Open(artifact.Config{Dir: t.TempDir(), Getenv: func(string) string { return "" }})
	cloud, local := &artifact.Stemcell{Digest: "sha256:cloud"}, &artifact.Stemcell{Digest: "sha256:local"}
	p := &artifact.Package{Name: "web", Fingerprint: "f", Digest: "d"}
	key := artifact.CompiledKey{Name: "web", Fingerprint: "f", Stemcell: "ubuntu-noble/1", Sources: []string{cloud.Digest, source(p)}}
	keep := func(key artifact.CompiledKey, body string) {
		t.Helper()
		data := tartest.Tgz(t, tartest.File("./x", body))
		kept, err := store.KeepCompiled(ctx, artifact.NewCompiled{Keys: []artifact.CompiledKey{key}, Fetch: func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}})
		if !kept || err != nil {
			t.Fatal(kept, err)
		}
	}
	owned := func(owner string) artifact.CompiledKey {
		k := key
		k.Owner = owner
		return k
	}
	begin := func(original *artifact.Stemcell) (*workers, *toCompile) {
		w := &workers{store: store, owners: []string{"deployment 1"}, artifacts: &instance.Artifacts{Stemcell: local}, original: original, packages: map[string]*toCompile{}}
		of := &toCompile{Located: instance.Located{Release: "r", Package: p}, key: w.keyOf(key), own: map[string]bool{source(p): true}}
		w.packages["web"], w.order = of, []string{"web"}
		return w, of
	}

	keep(owned("deployment 1"), "a VM with jobs")
	w, of := begin(nil)
	if err := w.wantAll(ctx); err != nil || !of.wanted {
		t.Errorf("what a VM with jobs has compiled is exported: %v", err)
	}
	w, of = begin(cloud)
	of.wanted = true
	if err := w.spare(ctx); err != nil || !of.wanted {
		t.Errorf("nothing compiles it: %v", err)
	}

	keep(of.key, "a VM on this machine")
	found, ok, err := w.find(ctx, of)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.spare(ctx); err != nil || of.wanted {
		t.Errorf("it is compiled twice: %v", err)
	}
	if err := w.adopt(ctx); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got, ok, err := store.Compiled(ctx, owned("deployment 1")); err != nil || !ok || got.Path != found.Path {
		t.Errorf("the deployment that asked for it does not get it: %v", err)
	}
	if _, ok, _ := store.Compiled(ctx, owned("deployment 2")); ok {
		t.Error("another deployment gets it")
	}
	if _, ok, _ := store.Compiled(ctx, key); ok {
		t.Error("all deployments with the cloud's stemcell get it")
	}
}
