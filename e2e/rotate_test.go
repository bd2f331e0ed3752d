//go:build unix

package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bootstrap/agent"
)

// TestRotate changes the agent's password, certificate and CA on a running VM,
// alone and together, with both layouts of the manifest, and checks from outside
// what the agent then serves.
func TestRotate(t *testing.T) {
	t.Parallel()
	changes := []struct {
		name   string
		change func(*wish)
	}{
		{"password", func(w *wish) { w.Password++ }},
		{"certificate", func(w *wish) { w.Leaf++ }},
		{"CA and certificate", func(w *wish) { w.CA++ }},
		{"all", func(w *wish) { w.Password++; w.CA++; w.Leaf++ }},
		{"all, and a job", func(w *wish) { w.Password++; w.CA++; w.Leaf++; w.Title += "x" }},
	}
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprint("with the CA in env.bosh.mbus.cert: ", whole), func(t *testing.T) {
			t.Parallel()
			l, err := newLab(t)
			if err != nil {
				t.Fatal(err)
			}
			defer l.end()
			l.want.Whole = whole
			if err := l.write(); err != nil {
				t.Fatal(err)
			}
			if err := l.must("deploy"); err != nil {
				t.Fatal(err)
			}
			st, err := l.state()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				c.change(&l.want)
				if err := l.write(); err != nil {
					t.Fatal(err)
				}
				o, err := l.run(nil, "deploy")
				if err != nil || o.status != 0 || !strings.Contains(o.text, "update in place  agent") {
					t.Fatalf("%s: %v, status %d:\n%s", c.name, err, o.status, o.text)
				}
				now, err := l.state()
				if err != nil {
					t.Fatal(err)
				}
				if now.CurrentVMCID != st.CurrentVMCID {
					t.Fatalf("%s: the VM was replaced:\n%s", c.name, o.text)
				}
				if err := l.isRotated(); err != nil {
					t.Fatalf("%s: %v\n%s", c.name, err, o.text)
				}
				if o, err := l.run(nil, "plan"); err != nil || o.status != 0 {
					t.Fatalf("%s: there is still something to do: %v\n%s", c.name, err, o.text)
				}
			}
		})
	}
}

// rotated returns a lab with a deployed VM, whose manifest then gets another password,
// certificate and CA.
func rotated(t *testing.T, before func(*lab) error) *lab {
	t.Helper()
	l, err := newLab(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.end)
	if before != nil {
		if err := before(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.write(); err != nil {
		t.Fatal(err)
	}
	if err := l.must("deploy"); err != nil {
		t.Fatal(err)
	}
	l.want.Password++
	l.want.CA++
	l.want.Leaf++
	if err := l.write(); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestRotateHalf has an agent that has adopted only part of a change: the deploy reaches
// it and finishes the change.
func TestRotateHalf(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]struct{ password, certificate bool }{
		"the password":    {true, false},
		"the certificate": {false, true},
		"both":            {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rotated(t, nil)
			old := l.want
			old.Password, old.CA, old.Leaf = 0, 0, 0
			taken := old
			if part.password {
				taken.Password = l.want.Password
			}
			if part.certificate {
				taken.CA, taken.Leaf = l.want.CA, l.want.Leaf
			}
			if err := l.giveSettings(old, taken, part.certificate); err != nil {
				t.Fatal(err)
			}
			if o, err := l.run(nil, "status"); err != nil || o.status != 0 {
				t.Errorf("status: %v, %d:\n%s", err, o.status, o.text)
			}
			o, err := l.run(nil, "deploy")
			if err != nil || o.status != 0 || !strings.Contains(o.text, "update in place  agent") {
				t.Fatalf("deploy: %v, %d:\n%s", err, o.status, o.text)
			}
			if err := l.isRotated(); err != nil {
				t.Fatalf("%v\n%s", err, o.text)
			}
			if o, err := l.run(nil, "plan"); err != nil || o.status != 0 {
				t.Errorf("there is still something to do: %v\n%s", err, o.text)
			}
		})
	}
}

// giveSettings gives the agent other settings, as another machine would, and
// waits until it uses them.
func (l *lab) giveSettings(have, want wish, certificate bool) error {
	id, err := l.identity(want)
	if err != nil {
		return err
	}
	key, err := x509.MarshalECPrivateKey(id.key)
	if err != nil {
		return err
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	mbus := &agent.MBusSettings{URLs: []string{l.agentURL(want)}}
	if certificate {
		mbus.Cert = agent.Cert{CA: encode("CERTIFICATE", id.ca.Raw), Certificate: encode("CERTIFICATE", id.leaf.Raw), PrivateKey: encode("EC PRIVATE KEY", key)}
	}
	c, err := agent.New(agent.Config{URL: l.agentURL(have)})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := c.BeginUpdateSettings(ctx, agent.UpdateSettings{MBus: mbus}); err != nil {
		return err
	}
	for ctx.Err() == nil {
		leaf, status, err := askAgent(l.agentURL(want))
		if err == nil && status == http.StatusOK && (!certificate || leaf.Equal(id.leaf)) {
			return nil
		}
	}
	return errors.New("the agent does not take the settings")
}

// TestRotateRefused gives settings to agents that do not adopt them: the deploy does not
// report a success, and the agent can still be reached.
func TestRotateRefused(t *testing.T) {
	t.Parallel()
	meet := func(t *testing.T, fault string) (*lab, outcome) {
		l := rotated(t, (*lab).addProxy)
		l.proxy.arm(fault, "update_settings")
		o, err := l.run(nil, "deploy")
		if err != nil {
			t.Fatal(err)
		}
		l.proxy.arm("", "")
		return l, o
	}
	expect := func(t *testing.T, o outcome, status int, text string) {
		t.Helper()
		if o.status != status || !strings.Contains(o.text, text) {
			t.Fatalf("it ended with %d, want %d and %q:\n%s", o.status, status, text, o.text)
		}
	}
	run := func(t *testing.T, l *lab, args ...string) outcome {
		t.Helper()
		o, err := l.run(nil, args...)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for fault, message := range map[string]string{
		"ignored": "it still uses its old password",
		"half":    "instead of the one with",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			l, o := meet(t, fault)
			expect(t, o, 1, message)
			expect(t, run(t, l, "status"), 0, "All is well")
			expect(t, run(t, l, "plan"), 2, "update in place  agent")
			expect(t, run(t, l, "deploy"), 0, "Succeeded")
			if err := l.isRotated(); err != nil {
				t.Error(err)
			}
			expect(t, run(t, l, "plan"), 0, "")
		})
	}
	t.Run("never taken", func(t *testing.T) {
		t.Parallel()
		l, err := newLab(t)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.end)
		if err := errors.Join(l.addProxy(), l.write(), l.must("deploy")); err != nil {
			t.Fatal(err)
		}
		other := l.want
		other.Leaf++
		if err := l.giveSettings(l.want, other, true); err != nil {
			t.Fatal(err)
		}
		l.proxy.arm("ignored", "update_settings")
		expect(t, run(t, l, "deploy"), 0, "Warning: the agent does not serve the certificate of the manifest, and does not accept it")
		expect(t, run(t, l, "plan"), 0, "certificate of the agent differs from the manifest")
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		const warning = "stays until the VM is replaced, with deploy --recreate: this agent cannot change its settings"
		l, o := meet(t, "unknown")
		expect(t, o, 0, "Warning: the agent cannot change its settings")
		expect(t, run(t, l, "plan"), 0, warning)
		expect(t, run(t, l, "deploy"), 0, warning)
		expect(t, run(t, l, "stop"), 0, "Succeeded")
		expect(t, run(t, l, "start"), 0, "Succeeded")
		expect(t, run(t, l, "deploy", "--recreate"), 0, "Stopping jobs")
		if err := l.isRotated(); err != nil {
			t.Error(err)
		}
		if o := run(t, l, "plan"); o.status != 0 || strings.Contains(o.text, warning) {
			t.Errorf("a new VM has what the manifest says: %d\n%s", o.status, o.text)
		}
	})
}

// TestRotateRestart has an agent to which a killed run gave new settings, and which
// restarts while the next run asks it.
func TestRotateRestart(t *testing.T) {
	t.Parallel()
	l := rotated(t, (*lab).addProxy)
	old := l.want
	old.Password, old.CA, old.Leaf = 0, 0, 0
	if o, err := l.run([]string{"BOOTSTRAP_KILL_AT=agent update_settings before 1"}, "deploy"); err != nil || o.status == 0 {
		t.Fatalf("%v, %d:\n%s", err, o.status, o.text)
	}
	l.proxy.meanwhile = func() error { return l.giveSettings(old, l.want, true) }
	l.proxy.arm("meanwhile", "list_disk")
	o, err := l.run(nil, "deploy")
	if err != nil || o.status != 0 || !strings.Contains(o.text, "update in place  agent") && !strings.Contains(o.text, "Skipping deploy") {
		t.Fatalf("deploy: %v, %d:\n%s", err, o.status, o.text)
	}
	if err := l.isRotated(); err != nil {
		t.Error(err)
	}
	if o, err := l.run(nil, "plan"); err != nil || o.status != 0 {
		t.Errorf("there is still something to do: %v\n%s", err, o.text)
	}
}

// TestRotateForgotten reboots a VM whose agent keeps its settings in memory: it
// then has the password and the certificate with which the VM was created.
func TestRotateForgotten(t *testing.T) {
	t.Parallel()
	l := rotated(t, func(l *lab) error { l.want.TmpFS = true; return nil })
	for _, args := range [][]string{{"deploy"}, {"deploy", "--fix"}} {
		before, err := l.state()
		if err != nil {
			t.Fatal(err)
		}
		if args[0] == "deploy" && len(args) > 1 {
			l.want.CA++ // and the manifest changes once more
			if err := l.write(); err != nil {
				t.Fatal(err)
			}
			endAll(func() []process { return ofVMs(l.dir) })
		}
		o, err := l.run(nil, args...)
		if err != nil || o.status != 0 {
			t.Fatalf("%v: %v, status %d:\n%s", args, err, o.status, o.text)
		}
		if err := l.isRotated(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, o.text)
		}
		if after, err := l.state(); err != nil || after.CurrentVMCID != before.CurrentVMCID {
			t.Fatalf("%v: the VM was replaced: %v\n%s", args, err, o.text)
		}
	}
}

// TestRotateRandom makes random changes of the agent's settings, with deploys that are
// killed at random points: the agent can always be reached, and the VM stays. $ROTATE is
// the number of sequences, or the number of one sequence as in ROTATE==17.
func TestRotateRandom(t *testing.T) {
	t.Parallel()
	first, last := 1, 2
	if ask := os.Getenv("ROTATE"); ask != "" {
		one, single := strings.CutPrefix(ask, "=")
		n, err := strconv.Atoi(one)
		if err != nil {
			t.Fatalf("ROTATE: %v", err)
		}
		if last = n; single {
			first = n
		}
	}
	var group sync.WaitGroup
	slots := make(chan bool, lanes())
	for n := first; n <= last; n++ {
		slots <- true
		group.Go(func() {
			defer func() { <-slots }()
			if story, err := rotateAtRandom(t, rand.New(rand.NewPCG(uint64(n), 12))); err != nil {
				t.Errorf("sequence %d (alone: ROTATE==%d): %v\n%s", n, n, err, strings.Join(story, "\n"))
			}
		})
	}
	group.Wait()
}

func rotateAtRandom(t *testing.T, rng *rand.Rand) (story []string, err error) {
	l, err := newLab(t)
	if err != nil {
		return nil, err
	}
	defer l.end()
	l.want.Whole, l.want.TmpFS = rng.IntN(2) == 0, rng.IntN(2) == 0
	do := func(status int, env []string, args ...string) {
		if err != nil {
			return
		}
		var o outcome
		o, err = l.run(env, args...)
		story = append(story, fmt.Sprintf("--- %v %v ended with %d:\n%s", env, args, o.status, o.text))
		if err == nil && o.status != status && (env == nil || o.status != 0) {
			err = fmt.Errorf("%v ended with %d, want %d", args, o.status, status)
		}
	}
	if err := l.write(); err != nil {
		return nil, err
	}
	do(0, nil, "deploy")
	before, err2 := l.state()
	for range 4 + rng.IntN(5) {
		if rng.IntN(4) > 0 {
			l.want.Password += rng.IntN(2)
			l.want.CA += rng.IntN(2)
			l.want.Leaf += rng.IntN(2)
			err = errors.Join(err, l.write())
		}
		moment := []string{"before", "after"}[rng.IntN(2)]
		switch rng.IntN(8) {
		case 0:
			do(0, nil, "deploy")
		case 1:
			do(0, nil, "restart")
		case 2:
			do(0, nil, "status")
		case 3:
			story = append(story, "--- the VM is rebooted")
			endAll(func() []process { return ofVMs(l.dir) })
			do(0, nil, "start")
		case 4:
			do(-1, []string{"BOOTSTRAP_KILL_AT=" + fmt.Sprintf("state write %s %d", moment, 1+rng.IntN(2))}, "deploy")
		case 5:
			do(-1, []string{"BOOTSTRAP_KILL_AT=" + fmt.Sprintf("agent ping %s %d", moment, 1+rng.IntN(8))}, "deploy")
		default:
			do(-1, []string{"BOOTSTRAP_KILL_AT=" + fmt.Sprintf("agent update_settings %s 1", moment)}, "deploy")
		}
	}
	do(0, nil, "deploy")
	do(0, nil, "plan")
	if err = errors.Join(err, err2); err != nil {
		return story, err
	}
	after, err := l.state()
	if err == nil && after.CurrentVMCID != before.CurrentVMCID {
		err = errors.New("the VM was replaced")
	}
	return story, errors.Join(err, l.isRotated())
}
