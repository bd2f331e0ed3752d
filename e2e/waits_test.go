//go:build unix

package e2e

import (
	"fmt"
	"regexp"
	"testing"
)

// TestAgentThatHangs makes the agent hang at one message or blob: the run ends by itself
// and gives the reason, and the next run succeeds.
func TestAgentThatHangs(t *testing.T) {
	t.Parallel()
	l, err := newLab(t)
	if err != nil {
		t.Fatal(err)
	}
	defer l.end()
	if err := l.addProxy(); err != nil {
		t.Fatal(err)
	}
	l.want.Source = 4711 // labs share a cache of compiled packages; no other lab has this source, so the package is compiled
	for i, c := range []struct {
		fault, method string
		line          string
		code          int
		says          string
	}{
		// This deploy compiles the package, and succeeds even if the package does not get
		// into the cache.
		{"hang", "get_blob", "deploy MANIFEST", 0, "is not kept in the cache: the VM sent no data(?s).*Succeeded"},
		{"hang", "put_blob", "deploy MANIFEST --task-timeout 5s", 69, "no data was transferred for too long"},
		{"hang", "start", "deploy MANIFEST --task-timeout 5s", 1, "cannot start the jobs: not done after 5s, the time limit of --task-timeout"},
		{"huge", "get_blob", "logs MANIFEST", 1, "larger than the limit of 8192 MiB for an archive of logs; ask for less, with --job or --only"},
	} {
		l.want.Title = fmt.Sprint("page ", i)
		if err := l.write(); err != nil {
			t.Fatal(err)
		}
		l.proxy.arm(c.fault, c.method)
		o, err := l.shell(nil, "bootstrap "+c.line)
		l.proxy.arm("", "")
		if err != nil {
			t.Fatal(err)
		}
		if o.status != c.code || !regexp.MustCompile(c.says).MatchString(o.text) {
			t.Fatalf("%s at %s: ended with %d, want %d and %q:\n%s", c.fault, c.method, o.status, c.code, c.says, o.text)
		}
		if err := l.must("deploy"); err != nil {
			t.Fatal(err)
		}
		if err := l.serves(); err != nil {
			t.Fatal(err)
		}
	}
}
