package deployer

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
)

// web needs ruby and nginx, and nginx needs openssl. If compiled is true, the release has
// nginx compiled.
func deliveryRun(t *testing.T, compiled bool) *run {
	t.Helper()
	nginx := &artifact.Package{Name: "nginx", Fingerprint: "n1", Digest: "aa;sha256:bb", Dependencies: []string{"openssl"}, Archive: "nginx.tgz"}
	if compiled {
		nginx.Stemcell = "ubuntu-noble/1.2"
	}
	rel := &artifact.Release{
		Name: "web", Version: "1",
		Jobs: []*artifact.Job{{Name: "web", Packages: []string{"ruby", "nginx"}}},
		Packages: []*artifact.Package{
			{Name: "ruby", Fingerprint: "r1", Digest: "cc", Archive: "ruby.tgz"},
			nginx,
			{Name: "openssl", Fingerprint: "o1", Digest: "dd", Archive: "openssl.tgz"},
			{Name: "unused", Fingerprint: "u1"},
		},
	}
	r := newRun(Options{Config: instance.Config{Report: func(report.Event) {}}})
	r.reads(&manifest.Manifest{Group: manifest.InstanceGroup{Jobs: []manifest.JobRef{{Name: "web", Release: "web"}}}})
	r.fetched(map[string]*artifact.Release{"web": rel}, &artifact.Stemcell{Name: "s", OS: "ubuntu-noble", Version: "1.2"})
	r.t.Env.Store = artifact.Open(artifact.Config{Dir: t.TempDir()})
	t.Cleanup(func() { r.t.Env.Store.Close() })
	return r
}

func (d *delivery) told() string {
	names := func(list []instance.Located) string {
		var s []string
		for _, l := range list {
			s = append(s, l.Package.Name)
		}
		return strings.Join(s, " ")
	}
	return fmt.Sprintf("kept [%s] cached [%s] compiled [%s] missing [%s]", names(d.kept), names(d.cached), names(d.compiled), names(d.missing))
}

func onTheVM() map[string]agent.SpecPackage {
	have := map[string]agent.SpecPackage{}
	for name, version := range map[string]string{"ruby": "r1", "nginx": "n1", "openssl": "o1"} {
		have[name] = agent.SpecPackage{Name: name, Version: version, SHA1: "digest of " + name, BlobstoreID: "blob of " + name}
	}
	return have
}

func TestPlanDelivery(t *testing.T) {
	with := func(name string, change func(*agent.SpecPackage)) map[string]agent.SpecPackage {
		have := onTheVM()
		p := have[name]
		change(&p)
		have[name] = p
		return have
	}
	without := func(name string) map[string]agent.SpecPackage {
		have := onTheVM()
		delete(have, name)
		return have
	}
	for name, c := range map[string]struct {
		have     map[string]agent.SpecPackage
		compiled bool
		cached   []string
		want     string
	}{
		"new VM":                              {want: "kept [] cached [] compiled [] missing [ruby openssl nginx]"},
		"same VM":                             {have: onTheVM(), want: "kept [ruby openssl nginx] cached [] compiled [] missing []"},
		"another version":                     {have: with("ruby", func(p *agent.SpecPackage) { p.Version = "r0" }), want: "kept [openssl nginx] cached [] compiled [] missing [ruby]"},
		"another version of a dependency":     {have: with("openssl", func(p *agent.SpecPackage) { p.Version = "o0" }), want: "kept [ruby] cached [] compiled [] missing [openssl nginx]"},
		"a dependency nobody knows":           {have: without("openssl"), want: "kept [ruby] cached [] compiled [] missing [openssl nginx]"},
		"without a blob":                      {have: with("ruby", func(p *agent.SpecPackage) { p.BlobstoreID = "" }), want: "kept [openssl nginx] cached [] compiled [] missing [ruby]"},
		"without a digest":                    {have: with("ruby", func(p *agent.SpecPackage) { p.SHA1 = "" }), want: "kept [openssl nginx] cached [] compiled [] missing [ruby]"},
		"in the cache":                        {cached: []string{"ruby", "openssl"}, want: "kept [] cached [ruby openssl] compiled [] missing [nginx]"},
		"in the cache and on the VM":          {have: without("ruby"), cached: []string{"ruby", "openssl"}, want: "kept [openssl nginx] cached [ruby] compiled [] missing []"},
		"compiled in the release":             {compiled: true, want: "kept [] cached [] compiled [nginx] missing [ruby openssl]"},
		"compiled and on the VM":              {have: with("nginx", func(p *agent.SpecPackage) { p.SHA1 = "SHA256:BB" }), compiled: true, want: "kept [ruby openssl nginx] cached [] compiled [] missing []"},
		"compiled another time, on the VM":    {have: onTheVM(), compiled: true, want: "kept [ruby openssl] cached [] compiled [nginx] missing []"},
		"an initial spec, which names no one": {have: map[string]agent.SpecPackage{}, want: "kept [] cached [] compiled [] missing [ruby openssl nginx]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := deliveryRun(t, c.compiled)
			fillCache(t, r, c.cached)
			if err := r.packages.planDelivery(context.Background(), c.have, ""); err != nil {
				t.Fatal(err)
			}
			if got := r.packages.delivery.told(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if r.packages.missing() != len(r.packages.delivery.missing) {
				t.Errorf("compiles %d", r.packages.missing())
			}
			for _, l := range r.packages.delivery.kept {
				if r.packages.delivery.there[l.Package.Name] != c.have[l.Package.Name] {
					t.Errorf("%s is not repeated exactly", l.Package.Name)
				}
				if r.packages.delivery.blobs[l.Package.Name] != nil {
					t.Errorf("%s is uploaded", l.Package.Name)
				}
			}
			if n := len(r.packages.delivery.blobs) + len(r.packages.delivery.kept); n != len(r.packages.delivery.order) {
				t.Errorf("%d of %d packages get to the VM", n, len(r.packages.delivery.order))
			}
		})
	}
}

// gzipped returns a function that writes a package.
func gzipped(text string) func(io.Writer) error {
	return func(to io.Writer) error {
		w := gzip.NewWriter(to)
		_, err := io.WriteString(w, text)
		return errors.Join(err, w.Close())
	}
}

// fillCache adds compiled packages to the cache, as another run would.
func fillCache(t *testing.T, r *run, names []string) {
	t.Helper()
	if err := r.packages.planDelivery(context.Background(), nil, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		kept, err := r.t.Env.Store.KeepCompiled(context.Background(), artifact.NewCompiled{
			Keys:  r.packages.delivery.trust.keys(r.packages.delivery.keys[name]),
			Fetch: gzipped(name),
		})
		if err != nil || !kept {
			t.Fatal(kept, err)
		}
	}
}

// For a package in the cache, the compiled archive is uploaded.
func TestCachedPackagesAreTheCompiledOnes(t *testing.T) {
	r := deliveryRun(t, false)
	fillCache(t, r, []string{"ruby"})
	if err := r.packages.planDelivery(context.Background(), nil, ""); err != nil {
		t.Fatal(err)
	}
	if up := r.packages.delivery.blobs["ruby"]; up.path == "ruby.tgz" || up.digest == "cc" {
		t.Errorf("%+v", up)
	}
	if up := r.packages.delivery.blobs["openssl"]; up.path != "openssl.tgz" || up.digest != "dd" {
		t.Errorf("%+v", up)
	}
	ids := map[string]bool{}
	for up := range maps.Values(r.packages.delivery.blobs) {
		ids[up.id] = true
	}
	if len(ids) != 3 {
		t.Errorf("blob ids %v", ids)
	}
}

func TestCompiledKeyHasTheWholeClosure(t *testing.T) {
	r := deliveryRun(t, false)
	r.artifacts.Releases["web"].Package("openssl").Dependencies = []string{"perl"}
	r.artifacts.Releases["web"].Packages = append(r.artifacts.Releases["web"].Packages, &artifact.Package{Name: "perl", Fingerprint: "p1"})
	if err := r.packages.planDelivery(context.Background(), nil, ""); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(slices.Values(r.packages.delivery.keys["nginx"].Dependencies))
	if want := []string{"openssl/o1", "perl/p1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCompiledOn(t *testing.T) {
	sc := func(name string, formats ...string) string {
		return compiledOn(&artifact.Stemcell{Name: name, OS: "os", Version: "1.2", Formats: formats}, "")
	}
	if got := sc("bosh-aws-xen-hvm-os-go_agent", "aws-light"); got != "os/1.2" {
		t.Error(got)
	}
	if got := sc("bosh-vsphere-esxi-os-go_agent"); got != "os/1.2" {
		t.Errorf("%s: the cloud does not matter", got)
	}
	if got := sc("bosh-aws-os-arm64-go_agent"); got == "os/1.2" {
		t.Errorf("%s is as for another processor", got)
	}
	if got := sc("local", "local"); !strings.HasPrefix(got, "os/1.2 on ") {
		t.Errorf("%s does not say which machine", got)
	}
}

// Compiling removes all packages from the VM; a kept package whose blob the agent has
// lost cannot be installed again.
func TestKeptPackagesMustStillBeInTheBlobstore(t *testing.T) {
	r := deliveryRun(t, false)
	var asked atomic.Int32
	var server *httptest.Server
	r.look.Running, server = agentOf(t, func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		if strings.HasSuffix(req.URL.Path, "blob of openssl") {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	if err := r.packages.planDelivery(context.Background(), onTheVM(), ""); err != nil {
		t.Fatal(err)
	}
	if got := r.packages.delivery.told(); got != "kept [ruby openssl nginx] cached [] compiled [] missing []" || asked.Load() > 0 {
		t.Errorf("%d questions, %s", asked.Load(), got)
	}
	have := onTheVM()
	delete(have, "ruby")
	if err := r.packages.planDelivery(context.Background(), have, ""); err != nil {
		t.Fatal(err)
	}
	// A package that was compiled with the lost one can still be used.
	if got := r.packages.delivery.told(); got != "kept [nginx] cached [] compiled [] missing [ruby openssl]" {
		t.Error(got)
	}
	if have["openssl"].BlobstoreID == "" {
		t.Error("what the agent told was changed")
	}
	server.Close()
	if err := r.packages.planDelivery(context.Background(), have, ""); err == nil || !strings.Contains(err.Error(), "cannot find out which packages the VM has") {
		t.Error(err)
	}
}

// agentOf returns a client of an agent for which serve answers.
func agentOf(t *testing.T, serve http.HandlerFunc) (*agent.Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewTLSServer(serve)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := agent.New(agent.Config{URL: server.URL, CA: string(ca)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, server
}

// uploadRun returns a run with nothing to compile, and an agent that refuses blobs of
// this size.
func uploadRun(t *testing.T, refused int64) (r *run, stages func() []string) {
	t.Helper()
	r = deliveryRun(t, false)
	fillCache(t, r, []string{"ruby", "openssl", "nginx"})
	if err := r.packages.planDelivery(context.Background(), nil, ""); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 4321), 0o600); err != nil {
		t.Fatal(err)
	}
	r.packages.delivery.blobs["openssl"].path = large
	r.agent, _ = agentOf(t, func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.Copy(io.Discard, req.Body); err != nil || req.ContentLength == refused {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	var mu sync.Mutex
	var list []string
	r.t.Out.Root = report.New(func(e report.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == report.End {
			name, _, _ := strings.Cut(e.Name, "/")
			list = append(list, name+" "+string(e.Status))
		}
	})
	r.t.Out.Open = r.t.Out.Root
	return r, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(list) }
}

func TestUploadsEndBeforeTheDowntime(t *testing.T) {
	r, stages := uploadRun(t, -1)
	if err := r.packages.upload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := stages(); len(got) != 3 {
		t.Errorf("%q", got)
	}
	if err := r.packages.compile(t.Context(), plan.Step{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"Compiling package 'ruby skipped", "Compiling package 'openssl skipped", "Compiling package 'nginx skipped"}
	if got := stages(); !slices.Equal(got[3:], want) {
		t.Errorf("%q", got)
	}
	for name, p := range r.packages.spec {
		if up := r.packages.delivery.blobs[name]; p.BlobstoreID != up.id || p.SHA1 != up.digest || p.Version == "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if len(r.packages.spec) != 3 {
		t.Errorf("%v", r.packages.spec)
	}
}

func TestUploadsGoOnWhileTheAgentCompiles(t *testing.T) {
	r, _ := uploadRun(t, -1)
	if err := r.packages.compile(t.Context(), plan.Step{}); err != nil || len(r.packages.spec) != 3 {
		t.Fatal(r.packages.spec, err)
	}
}

func TestFailedUploadEndsEverything(t *testing.T) {
	for name, do := range map[string]func(*packages, context.Context) error{
		"before the downtime": (*packages).upload,
		"while it compiles":   func(pk *packages, ctx context.Context) error { return pk.compile(ctx, plan.Step{}) },
	} {
		t.Run(name, func(t *testing.T) {
			r, stages := uploadRun(t, 4321)
			err := do(r.packages, t.Context())
			if err == nil || !strings.Contains(err.Error(), "cannot upload package openssl") {
				t.Error(err)
			}
			if got := stages(); !slices.Contains(got, "Uploading package 'openssl failed") || slices.Contains(got, "Compiling package 'nginx skipped") {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestInterruptEndsUploads(t *testing.T) {
	r, _ := uploadRun(t, -1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.packages.compile(ctx, plan.Step{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
