package templates

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bootstrap/templates/cruby"
)

// TestWarm starts Ruby before it is needed, in several orders.
func TestWarm(t *testing.T) {
	t.Parallel()
	each(t, testWarm)
}

func testWarm(t *testing.T, cfg Config) {
	e := start(t, cfg)
	e.Warm()
	e.Warm()
	e.warm.Wait()
	first := e.ruby
	if first == nil {
		t.Fatal("no Ruby was started")
	}
	dir := t.TempDir()
	if err := e.Render(t.Context(), []Job{newJob(t, "job", map[string]string{"f": "<%= 1 %>"})}, dir); err != nil {
		t.Fatal(err)
	}
	if e.ruby != first {
		t.Error("another Ruby was started")
	}
	closed := Start(t.Context(), cfg)
	closed.Warm()
	if err := closed.Close(); err != nil {
		t.Error(err)
	}
	closed.Warm()
	closed.warm.Wait()
	if closed.ruby != nil {
		t.Error("a closed engine starts Ruby")
	}
}

// TestNothingLeaks renders a job that changes the Ruby in which the next job would run.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	cfg := embedded(t)
	whole(t, cfg)
	spoil := newJob(t, "spoil", map[string]string{"f": `<%
		class String; def to_s; "spoiled"; end; def shout; 1; end; end
		class Hash; def to_json(*) "{}"; end; end
		module Kernel; def spoiled; 1; end; end
		Object.const_set(:SPOILED, 1); $spoiled = 1; ENV["SPOILED"] = "1"; srand(1)
		ObjectSpace.each_object(Class) { |c| c.class_eval { def spoilt; end } if c.name.to_s.start_with?("Bootstrap") }
		BootstrapTemplates::LIBRARIES << "x"; JSON.singleton_class.send(:undef_method, :dump)
		Encoding.default_external = "ISO-8859-1"; require "prime"; $LOAD_PATH.clear
	%>`})
	look := newJob(t, "look", map[string]string{"f": `<%= [JSON.dump("a"), "x".respond_to?(:shout), respond_to?(:spoiled, true), defined?(SPOILED), $spoiled, ENV["SPOILED"], respond_to?(:spoilt),
		BootstrapTemplates::LIBRARIES.include?("x"), Encoding.default_external.to_s, defined?(Prime), $LOAD_PATH.empty?, {"a" => 1}.to_json].inspect %>`})
	dir := t.TempDir()
	if err := start(t, cfg).Render(t.Context(), []Job{spoil, look}, dir); err != nil {
		t.Fatal(err)
	}
	const want = `["\"a\"", false, false, nil, nil, nil, false, false, "UTF-8", nil, false, "{\"a\":1}"]`
	if got := read(t, dir, "look", "f"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestLibraries loads libraries for networks and terminals: templates use parts of them
// that need neither.
func TestLibraries(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds of a processor")
	}
	job := newJob(t, "job", map[string]string{"f": `<% %w[resolv net/http net/https drb open-uri socket io/console io/wait io/nonblock].each { |name| require name } %><%=
		[Resolv::IPv4::Regex.match?("10.0.0.1"), Net::HTTP::Get.new("/x").path, URI("http://h/p").host, IO.console, DRb::DRbObject.name].inspect %>`})
	dir := t.TempDir()
	if err := start(t, embedded(t)).Render(t.Context(), []Job{job}, dir); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, dir, "job", "f"), `[true, "/x", "h", nil, "DRb::DRbObject"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestOfNow checks that each run, and each job, gets the current time and new random
// numbers.
func TestOfNow(t *testing.T) {
	t.Parallel()
	cfg := embedded(t)
	whole(t, cfg)
	text := `<%= [Time.now.to_i, SecureRandom.hex, rand(1 << 60), Random.new_seed, OpenSSL::Random.random_bytes(8).unpack1("H*")].to_json %>`
	jobs := []Job{newJob(t, "one", map[string]string{"f": text}), newJob(t, "two", map[string]string{"f": text})}
	dir := t.TempDir()
	if err := start(t, cfg).Render(t.Context(), jobs, dir); err != nil {
		t.Fatal(err)
	}
	var one, two []any
	for name, into := range map[string]*[]any{"one": &one, "two": &two} {
		if err := json.Unmarshal([]byte(read(t, dir, name, "f")), into); err != nil {
			t.Fatal(err)
		}
	}
	if past := time.Since(time.Unix(int64(one[0].(float64)), 0)); past < 0 || past > time.Hour {
		t.Errorf("the time is wrong by %v", past)
	}
	for i := 1; i < len(one); i++ {
		if one[i] == two[i] {
			t.Errorf("%v came twice", one[i])
		}
	}
}

// TestNoImage runs a program without the embedded image.
func TestNoImage(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("cruby/image/*")
	if err != nil {
		t.Fatal(err)
	}
	gone := map[string]map[string]string{"Replace": {}}
	for _, name := range files {
		if filepath.Base(name) == "README.md" {
			continue
		}
		if name, err = filepath.Abs(name); err != nil {
			t.Fatal(err)
		}
		gone["Replace"][name] = ""
	}
	text, err := json.Marshal(gone)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "overlay"), string(text))
	path := filepath.Join(dir, "engine.exe")
	if err := build(path, "-overlay", filepath.Join(dir, "overlay")); err != nil {
		t.Fatal(err)
	}
	e := start(t, Config{Self: path, Cache: filepath.Join(dir, "cache")})
	if err := e.Render(t.Context(), []Job{newJob(t, "job", map[string]string{"f": "no tag"})}, t.TempDir()); err != nil {
		t.Errorf("a template without tags needs Ruby: %v", err)
	}
	err = e.Render(t.Context(), []Job{newJob(t, "job", map[string]string{"f": "<%= 1 %>"})}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "cannot render template 'f' of job 'job' of release 'rel'") || !strings.Contains(err.Error(), cruby.ErrNoImage.Error()) {
		t.Errorf("got %v", err)
	}
}

// TestNotice prints the licences, if the image exists.
func TestNotice(t *testing.T) {
	t.Parallel()
	text, err := Notice()
	if errors.Is(err, cruby.ErrNoImage) {
		t.Skip("no image")
	}
	if err != nil || !strings.Contains(text, "MIT License") || !strings.Contains(text, "2-clause BSDL") || !strings.Contains(text, "OpenSSL") {
		t.Errorf("%v: %.200s", err, text)
	}
}

// TestPackageIsPinned checks that the lock file names the version and digest of the npm
// package.
func TestPackageIsPinned(t *testing.T) {
	t.Parallel()
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	if err := json.Unmarshal([]byte(read(t, "cruby/package-lock.json")), &lock); err != nil {
		t.Fatal(err)
	}
	var pinned struct{ Dependencies map[string]string }
	if err := json.Unmarshal([]byte(read(t, "cruby/package.json")), &pinned); err != nil {
		t.Fatal(err)
	}
	for name, version := range pinned.Dependencies {
		if got := lock.Packages["node_modules/"+name].Version; got != version {
			t.Errorf("%s is pinned as %s and locked as %s", name, version, got)
		}
	}
	for name, p := range lock.Packages {
		if name != "" && !strings.HasPrefix(p.Integrity, "sha512-") || p.Resolved != "" {
			t.Errorf("%q: integrity %q, resolved %q", name, p.Integrity, p.Resolved)
		}
	}
	about, err := cruby.Embedded()
	if errors.Is(err, cruby.ErrNoImage) {
		return
	}
	name, version, _ := strings.Cut(about.Package[1:], "@")
	if err != nil || len(pinned.Dependencies) != 1 || pinned.Dependencies["@"+name] != version {
		t.Errorf("the image is of %s, and %v is pinned: %v", about.Package, pinned.Dependencies, err)
	}
	if _, err := os.Stat("cruby/image/README.md"); err != nil {
		t.Error(err)
	}
}

// The embedded Ruby is that of today's Director, and prints what that one prints.
func TestEmbeddedVersion(t *testing.T) {
	t.Parallel()
	job := newJob(t, "job", map[string]string{
		"x": `<%= RUBY_VERSION[/\d+/] %> <%= { "a" => 1, b: nil }.inspect %> <%= [1, 2].map { it * 2 } %> <%= JSON.pretty_generate("a" => {}, "b" => []).delete("\n") %>` +
			` <%= begin; require "bigdecimal"; rescue LoadError => e; e.class; end %>`,
	})
	dir := t.TempDir()
	if err := start(t, embedded(t)).Render(t.Context(), []Job{job}, dir); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, dir, "job", "x"), `4 {"a" => 1, b: nil} [2, 4] {  "a": {},  "b": []} LoadError`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
