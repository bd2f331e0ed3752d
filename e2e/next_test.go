//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bootstrap/addresses"
	"bootstrap/network"
)

// ending is a state in which a run can end. It contains a function with which the test
// produces the state by a run that reports it, and the expected message.
type ending struct {
	name string
	make func(*lab) (outcome, error)
	says string // pattern
	// pick is the index of the command to use, if the message names several.
	pick int
	// again is the command that ended in the state; it is used if the message only says
	// to run the command again.
	again string
	// mend does what the message asks the user to do before the command; may be nil.
	mend func(*lab) error
	// then is a command that is run after the named one; empty: none.
	then string
	gone bool // true: at the end nothing is left; false: the page is served and there is nothing to do
}

// TestNextCommand produces each state in which a run can end, and leaves it with the
// command that the message names, exactly as printed.
func TestNextCommand(t *testing.T) {
	t.Parallel()
	// All endings of VMs in one lab would take longer than all other tests.
	shapes := map[string][]ending{"disk": diskEndings(), "state": stateEndings(), "addresses": addressEndings()}
	for part := range slices.Chunk(endings(), 4) {
		shapes["vm, from "+part[0].name] = part
	}
	for shape, list := range shapes {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			l, err := newLab(t)
			if err != nil {
				t.Fatal(err)
			}
			defer l.end()
			l.want.Flaky, l.want.Shared = true, shape == "addresses"
			if err := l.write(); err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				if err := l.walkOut(e); err != nil {
					t.Fatalf("%s: %v", e.name, err)
				}
			}
		})
	}
}

// walkOut begins with a working deployment, and must end with a working one.
func (l *lab) walkOut(e ending) error {
	if err := l.must("deploy"); err != nil {
		return err
	}
	o, err := e.make(l)
	if err != nil {
		return err
	}
	if !regexp.MustCompile(e.says).MatchString(o.text) {
		return fmt.Errorf("ended with %d and does not say %q:\n%s", o.status, e.says, o.text)
	}
	commands := named(o.text)
	for _, command := range commands {
		theirs := strings.Contains(command, "=…") // the process of the run that holds the lock
		ledger := strings.HasPrefix(command, "bootstrap addresses release 1")
		if !theirs && !ledger && !strings.Contains(command, " "+l.target()) {
			return fmt.Errorf("names %q, which cannot be pasted:\n%s", command, o.text)
		}
	}
	if e.again != "" {
		if !strings.Contains(o.text, "run the same command again") {
			return fmt.Errorf("does not say to run it again:\n%s", o.text)
		}
		commands = []string{"bootstrap " + e.again}
	}
	if e.pick >= len(commands) {
		return fmt.Errorf("names %q, and none of number %d:\n%s", commands, e.pick, o.text)
	}
	if e.mend != nil {
		if err := e.mend(l); err != nil {
			return err
		}
	}
	for _, line := range []string{commands[e.pick], e.then} {
		if line == "" {
			continue
		}
		text := o.text
		if o, err = l.shell(nil, line+" --yes"); err != nil {
			return err
		}
		if o.status != 0 {
			return fmt.Errorf("%s\nnames %q, which ended with %d:\n%s", text, line, o.status, o.text)
		}
	}
	if e.gone {
		if left := allOf(l.path("home/.bosh/local")); len(left) > 0 || len(l.cids("vms")) > 0 {
			return fmt.Errorf("left: %v, %v", left, l.cids("vms"))
		}
		return nil
	}
	if err := l.serves(); err != nil {
		return err
	}
	if o, err = l.run(nil, "plan"); err == nil && o.status != 0 {
		err = fmt.Errorf("there is something left to do:\n%s", o.text)
	}
	return err
}

// named finds the commands in a text: between quotes, at the beginning of a
// line, or after a colon.
func named(text string) []string {
	var list []string
	for _, m := range regexp.MustCompile("[\"`](bootstrap [^\"`]+)[\"`]|(?m:(?:^ *|: )(bootstrap [^\n;(]+))").FindAllStringSubmatch(text, -1) {
		command := strings.TrimSpace(m[1] + m[2])
		if !strings.HasPrefix(command, "bootstrap explain ") { // this command only explains
			list = append(list, command)
		}
	}
	return list
}

// shell runs a line as a user types it, in the lab. MANIFEST is the lab's.
func (l *lab) shell(env []string, line string) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	line = strings.ReplaceAll(line, "MANIFEST", l.target())
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = l.dir
	cmd.Env = append(l.environ(), env...)
	cmd.WaitDelay = 10 * time.Second
	out, err := os.CreateTemp(l.dir, "out-shell-")
	if err != nil {
		return outcome{}, err
	}
	cmd.Stdout, cmd.Stderr = out, out
	return l.judge(ctx, cmd, out, cmd.Run())
}

func (l *lab) target() string { return "manifest.yml --state " + l.statePath() }

func (l *lab) environ() []string {
	return append([]string{"HOME=" + l.path("home"), "TMPDIR=" + l.path("tmp"), "PATH=" + filepath.Dir(l.bin) + ":" + os.Getenv("PATH")}, l.env...)
}

// says runs a command of the deployment and checks the message of its end.
func says(line string) func(*lab) (outcome, error) {
	return func(l *lab) (outcome, error) { return l.shell(nil, "bootstrap "+line) }
}

// after runs a function first.
func after(do func(*lab) error, then func(*lab) (outcome, error)) func(*lab) (outcome, error) {
	return func(l *lab) (outcome, error) {
		if err := do(l); err != nil {
			return outcome{}, err
		}
		return then(l)
	}
}

// killAgent kills the agents. The jobs keep running.
func killAgent(l *lab) error {
	for _, p := range allOf(l.path("home/.bosh/local/vms")) {
		if strings.Contains(p.command, "plugin agent") {
			if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
				return err
			}
		}
	}
	return nil
}

// otherAgent changes the agent id in the state, so that it differs from that of the VM.
func otherAgent(l *lab) error {
	data, err := os.ReadFile(l.statePath())
	if err != nil {
		return err
	}
	data = regexp.MustCompile(`"agent_id": "[^"]*"`).ReplaceAll(data, []byte(`"agent_id": "another"`))
	return os.WriteFile(l.statePath(), data, 0o600)
}

// hangingPackage makes the next compilation on the VM hang.
func hangingPackage(l *lab) error {
	l.want.Source++
	if err := l.write(); err != nil {
		return err
	}
	path := l.path("releases/lab/packages/page-server/packaging")
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, "\nsleep 1000000\n"...), 0o600)
}

// writeAgain writes the wanted manifest and releases.
func writeAgain(l *lab) error { return l.write() }

// wrongPort changes the manifest's port to one on which the agent does not
// listen.
func wrongPort(l *lab) error {
	data, err := os.ReadFile(l.path("manifest.yml"))
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	wrong := regexp.MustCompile(`:\d+",(\s+"properties": \{\s+"agent")`).ReplaceAll(data, fmt.Appendf(nil, `:%d",$1`, port))
	return os.WriteFile(l.path("manifest.yml"), wrong, 0o600)
}

func endings() []ending {
	var before string // the title to which a command returns
	return []ending{
		{
			name: "silent agent", make: after(killAgent, says("deploy MANIFEST --agent-timeout 1s")),
			says: "does not answer(?s).*Exit code 69",
		}, {
			name: "silent agent, met by stop", make: after(killAgent, says("stop MANIFEST --agent-timeout 1s")),
			says: "does not answer(?s).*Exit code 69",
		}, {
			name: "another VM's agent", make: after(otherAgent, says("deploy MANIFEST --agent-timeout 1s")),
			says: "another VM's agent answers(?s).*Exit code 69",
		}, {
			name: "busy agent", says: "which was waited for 1s(?s).*Exit code 69",
			make: after(hangingPackage, func(l *lab) (outcome, error) {
				if o, err := says("deploy MANIFEST --task-timeout 1s")(l); err != nil || !strings.Contains(o.text, "not done after 1s") {
					return o, errors.Join(err, fmt.Errorf("the compilation does not hang:\n%s", o.text))
				}
				return says("deploy MANIFEST --agent-timeout 1s")(l)
			}),
			mend: writeAgain,
		}, {
			name: "task that is over its limit", says: "not done after 1s",
			make: after(hangingPackage, says("deploy MANIFEST --task-timeout 1s")), mend: writeAgain,
		}, {
			name: "half-done deploy", says: "did not finish",
			make: func(l *lab) (outcome, error) {
				l.want.Title += "!"
				if err := l.write(); err != nil {
					return outcome{}, err
				}
				if o, err := l.shell([]string{"BOOTSTRAP_KILL_AT=agent apply before 1"}, "bootstrap deploy MANIFEST"); err != nil || o.status == 0 {
					return o, errors.Join(err, fmt.Errorf("not killed:\n%s", o.text))
				}
				return says("status MANIFEST")(l)
			},
		}, {
			name: "agent that never answered", says: "does not answer(?s).*Exit code 69",
			make: after(wrongPort, says("deploy MANIFEST --agent-timeout 2s --yes")), mend: writeAgain,
		}, {
			name: "stopped jobs", says: "bootstrap stop stopped them",
			make: after(func(l *lab) error { return l.must("stop") }, says("status MANIFEST")),
		}, {
			name: "bad reply", again: "recreate MANIFEST", says: "the result of create_vm is unknown",
			make: func(l *lab) (outcome, error) {
				if err := l.put("home/faults/create_vm", "before-garbage"); err != nil {
					return outcome{}, err
				}
				defer os.RemoveAll(l.path("home/faults"))
				return says("recreate MANIFEST --yes")(l)
			},
		}, {
			name: "failing jobs", says: "update_watch_time", pick: 1,
			make: after(func(l *lab) error {
				before = l.want.Title
				l.want.Title = "Broken"
				return errors.Join(l.write(), l.brokenPage())
			}, says("deploy MANIFEST")),
			mend: func(l *lab) error { l.want.Title = before; return l.write() },
		},
	}
}

// brokenPage makes the page named Broken end at once, and limits the time that
// the deploy waits for it.
func (l *lab) brokenPage() error {
	ctl := l.path("releases/lab/jobs/page/templates/ctl.erb")
	data, err := os.ReadFile(ctl)
	if err != nil {
		return err
	}
	first, rest, _ := strings.Cut(string(data), "\n")
	manifest, err2 := os.ReadFile(l.path("manifest.yml"))
	return errors.Join(err2,
		os.WriteFile(ctl, []byte(first+"\n<% if p('page.title') == 'Broken' %>exit 1<% end %>\n"+rest), 0o600),
		os.WriteFile(l.path("manifest.yml"), []byte(strings.Replace(string(manifest), "0-120000", "0-2000", 1)), 0o600),
	)
}

func diskEndings() []ending {
	return []ending{
		{
			name: "missing disk", says: "does not exist", then: "bootstrap deploy MANIFEST",
			make: after(func(l *lab) error {
				for _, cid := range l.cids("vms") {
					dir := l.path("home/.bosh/local/vms", cid)
					endAll(func() []process { return ofVMs(dir) })
				}
				return os.RemoveAll(l.path("home/.bosh/local/disks"))
			}, says("deploy MANIFEST --agent-timeout 1s --fix")),
		}, {
			name: "deleted with the disk kept", make: says("delete MANIFEST --keep-disk --yes"),
			says: "Disk 'disk-.*' is kept", then: "bootstrap deploy MANIFEST",
		}, {
			name: "silent agent, met by delete", gone: true, says: "does not answer(?s).*Exit code 69",
			make: after(killAgent, says("delete MANIFEST --agent-timeout 1s --yes")),
		},
	}
}

// while runs a command up to a point, calls a function, and then lets the command
// continue.
func (l *lab) while(point, line string, do func(*os.Process) error) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	words := strings.Fields(line)
	waits := l.path("waits")
	cmd, text := l.command(ctx, []string{"BOOTSTRAP_WAIT_AT=" + point, "BOOTSTRAP_WAIT_FILE=" + waits}, words...)
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(waits); err == nil {
			break
		}
		select {
		case err := <-ended:
			o, _ := l.judge(ctx, cmd, text, err)
			return o, fmt.Errorf("%s never came to %q:\n%s", line, point, o.text)
		case <-tick.C:
		}
	}
	err := errors.Join(do(cmd.Process), os.Remove(waits))
	o, err2 := l.judge(ctx, cmd, text, <-ended)
	return o, errors.Join(err, err2)
}

func stateEndings() []ending {
	return []ending{
		{
			name: "interrupted", again: "deploy MANIFEST", says: "Exit code 130",
			make: func(l *lab) (outcome, error) {
				l.want.Title += "?"
				if err := l.write(); err != nil {
					return outcome{}, err
				}
				return l.while("agent apply before 1", "deploy", func(p *os.Process) error { return p.Signal(os.Interrupt) })
			},
		}, {
			name: "locked", again: "deploy MANIFEST", says: "Exit code 75",
			make: func(l *lab) (result outcome, err error) {
				l.want.Title += "?"
				if err := l.write(); err != nil {
					return result, err
				}
				_, err = l.while("agent apply before 1", "deploy", func(*os.Process) (err error) {
					result, err = says("deploy MANIFEST")(l)
					return err
				})
				return result, err
			},
		}, {
			name: "plan moved", says: "Exit code 73", pick: 1,
			make: func(l *lab) (outcome, error) {
				l.want.Title = "two"
				if err := l.write(); err != nil {
					return outcome{}, err
				}
				if o, err := says("plan MANIFEST --out plan.json")(l); err != nil {
					return o, err
				}
				l.want.Title = "three"
				if err := l.write(); err != nil {
					return outcome{}, err
				}
				return says("deploy MANIFEST --plan plan.json")(l)
			},
		}, {
			name: "lost state file", says: "a deploy would create a second VM",
			make: after(func(l *lab) error { return os.Remove(l.statePath()) }, says("deploy MANIFEST")),
		},
	}
}

// othersAddress makes a deployment that does not exist any more hold an address in the
// ledger.
func othersAddress(addr string) func(*lab) error {
	return func(l *lab) error {
		ledger, err := addresses.Open(context.Background(), l.path("home/.bosh/addresses.db"), time.Now)
		if err != nil {
			return err
		}
		defer ledger.Close()
		block := netip.PrefixFrom(netip.MustParseAddr(addr), 32)
		_, err = ledger.Adopt(context.Background(), []network.Reservation{{
			Owner: network.Owner{Deployment: "gone", Name: "gone", Instance: "web/0"}, Network: "default", Kind: network.Static, Block: block,
		}})
		return err
	}
}

// edit replaces a text in the manifest or the cloud config.
func edit(name, old, text string) func(*lab) error {
	return func(l *lab) error {
		data, err := os.ReadFile(l.path(name))
		if err == nil && !strings.Contains(string(data), old) {
			err = fmt.Errorf("%s does not contain %q:\n%s", name, old, data)
		}
		if err != nil {
			return err
		}
		return os.WriteFile(l.path(name), []byte(strings.ReplaceAll(string(data), old, text)), 0o600)
	}
}

// both runs two functions.
func both(first, second func(*lab) error) func(*lab) error {
	return func(l *lab) error { return errors.Join(first(l), second(l)) }
}

// moveLedger moves the file of the ledger away.
func moveLedger(l *lab) error {
	return os.Rename(l.path("home/.bosh/addresses.db"), l.path("away.db"))
}

// addressEndings returns the endings of a deployment whose address comes from the ledger.
func addressEndings() []ending {
	deploy := says("deploy MANIFEST --yes")
	again := "deploy MANIFEST"
	return []ending{
		{
			name: "address of a deployment that is gone, for adopt", says: `AlreadyInUse`, then: "bootstrap addresses adopt MANIFEST",
			make: after(both(moveLedger, othersAddress("127.0.0.1")), says("addresses adopt MANIFEST")),
		}, {
			name: "no free address", says: `NotEnoughCapacity(?s).*Exit code 1`, then: "bootstrap deploy MANIFEST", mend: writeAgain,
			make: after(both(edit("cloud.yml", `"gateway": "127.0.0.254"`, `"gateway": "127.0.0.254", "reserved": ["127.0.0.3-127.0.0.253"]`), edit("manifest.yml", `"static_ips"`, `"ignored"`)), deploy),
		}, {
			name: "lost ledger", says: `addresses.db: it does not exist(?s).*Exit code 1`, then: "bootstrap deploy MANIFEST",
			make: after(moveLedger, deploy),
		}, {
			name: "damaged ledger", says: `the file is damaged(?s).*Exit code 1`, mend: moveLedger, then: "bootstrap deploy MANIFEST",
			make: after(func(l *lab) error {
				return os.WriteFile(l.path("home/.bosh/addresses.db"), []byte(strings.Repeat("no ledger ", 1000)), 0o600)
			}, deploy),
		}, {
			name: "server that does not answer", says: `cannot use the address ledger postgres://127.0.0.1:1/d(?s).*Exit code 1`, again: again,
			make: says("deploy MANIFEST --database postgres://127.0.0.1:1/d"),
		}, {
			// This must be the last ending, because the wanted address stays changed.
			name: "address of a deployment that is gone", says: `AlreadyInUse(?s).*Exit code 1`, then: "bootstrap deploy MANIFEST",
			make: after(both(othersAddress("127.0.0.2"), func(l *lab) error { l.want.Address = "127.0.0.2"; return l.write() }), deploy),
		},
	}
}
