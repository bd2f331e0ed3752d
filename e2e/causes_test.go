//go:build unix

package e2e

import (
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// cause is a reason for which a deploy fails: how the test produces it, the expected
// message, and the command after which the deployment works again. docs/reliability.md
// has the same table.
type cause struct {
	name  string
	make  func(*lab) error // produces it, after the manifest was written
	env   []string         // environment of the run that fails
	args  []string         // arguments of the run that fails
	code  int              // exit code of the run that fails
	says  string           // expected message, a pattern
	later bool             // the cause is only detected while the service is down
	mend  func(*lab) error // undoes the cause, as the message asks
	next  []string         // environment of the commands that follow
	then  [][]string       // the commands that the user runs then; the last one is a deploy
}

// TestCauses produces one cause after the other on a VM that serves a page. If a cause is
// detected in time, the VM still serves the page. After every cause, the commands that
// the message names succeed.
func TestCauses(t *testing.T) {
	t.Parallel()
	for shape, list := range map[string]struct {
		want   func(*wish)
		causes []cause
	}{
		"plain": {func(w *wish) { w.Flaky = true }, causes()},
		"v1":    {func(w *wish) { w.V1 = true }, tunnelCauses()},
		"dynamic": {func(w *wish) { w.Dynamic = true }, []cause{
			{name: "template that fails, dynamic address", make: badTemplate, args: recreate(), code: 1, says: "page.html.erb", then: [][]string{recreate()}},
		}},
	} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			l, err := newLab(t)
			if err != nil {
				t.Fatal(err)
			}
			defer l.end()
			list.want(&l.want)
			if err := l.write(); err != nil {
				t.Fatal(err)
			}
			if err := l.must("deploy"); err != nil {
				t.Fatal(err)
			}
			for _, c := range list.causes {
				if err := l.meet(c); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
			}
		})
	}
}

func recreate() []string { return []string{"deploy", "--recreate"} }

func deploy() []string { return []string{"deploy"} }

// meet produces the cause, deploys, and follows the message.
func (l *lab) meet(c cause) error {
	before, err := l.state()
	if err != nil {
		return err
	}
	was := l.want
	if err := c.make(l); err != nil {
		return err
	}
	o, err := l.run(c.env, c.args...)
	if err != nil {
		return err
	}
	if o.status != c.code || !regexp.MustCompile(c.says).MatchString(o.text) {
		return fmt.Errorf("ended with %d, want %d and %q:\n%s", o.status, c.code, c.says, o.text)
	}
	after, err := l.state()
	if err != nil {
		return err
	}
	wanted := l.want
	l.want = was // the page still shows the old title
	away := l.serves()
	l.want = wanted
	switch {
	case c.code == 0:
	case c.later && away == nil:
		return fmt.Errorf("the page is served:\n%s", o.text)
	case !c.later && (away != nil || after.CurrentVMCID != before.CurrentVMCID):
		return fmt.Errorf("the VM that served the page does not any more (%v, VM %q):\n%s", away, after.CurrentVMCID, o.text)
	}
	if c.mend != nil {
		err = c.mend(l)
	} else {
		err = l.write()
	}
	for _, args := range c.then {
		if err != nil {
			return err
		}
		if o, err = l.run(c.next, args...); err == nil && o.status != 0 {
			err = fmt.Errorf("%v ended with %d:\n%s", args, o.status, o.text)
		}
	}
	if err == nil {
		err = l.serves()
	}
	return err
}

// causes returns the causes for a VM on this machine.
func causes() []cause {
	return []cause{
		{
			name: "stemcell that is gone, the CPI can tell", args: recreate(), code: 0,
			make: func(l *lab) error { return os.RemoveAll(l.path("home/.bosh/local/stemcells")) },
			says: `(?s)stemcell sc-\S+ is recorded, but the CPI says that it does not exist: uploading it again.*Uploading stemcell.*Finished.*Deleting VM`,
			then: [][]string{{"deploy"}},
		}, {
			name: "stemcell that is gone, only create_vm tells", args: recreate(), code: 0,
			make: func(l *lab) error { return l.put("home/faults/create_vm", "before-Bosh::Clouds::StemcellNotFound") },
			says: `(?s)Creating VM .*Failed.*uploading it again.*Creating VM .*Finished`,
			then: [][]string{{"deploy"}},
		}, {
			name: "CPI that looks in the wrong place", args: recreate(), code: 1,
			make: func(l *lab) error { return l.put("home/faults/has_vm", "says-false") },
			says: "the CPI does not know VM vm-.* looks in the wrong place", then: [][]string{recreate()},
		}, {
			name: "CPI that the cloud does not let in", args: recreate(), code: 70,
			make: func(l *lab) error { return l.put("home/faults/has_vm", "before-Bosh::Clouds::CloudError") },
			says: "the CPI refuses has_vm", then: [][]string{recreate()},
		}, {
			name: "CPI that cannot tell whether the VM exists", args: recreate(), code: 0,
			make: func(l *lab) error { return l.put("home/faults/has_vm", "before-Bosh::Clouds::NotImplemented") },
			says: `Looking for VM 'vm-.* Skipped \[not supported by the CPI\]`, then: [][]string{deploy()},
		}, {
			name: "template that fails", args: recreate(), code: 1,
			make: badTemplate, says: "page.html.erb", then: [][]string{recreate()},
		}, {
			name: "port of the agent that is taken", args: deploy(), code: 1,
			make: func(l *lab) (err error) {
				l.want.MBus = 1
				l.held, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", l.mbus[1]))
				if err != nil {
					return err
				}
				return l.write()
			},
			says: portHolder(),
			mend: func(l *lab) error { return l.held.Close() },
			then: [][]string{{"deploy"}},
		}, {
			name: "certificate of the agent by another authority", args: recreate(), code: 65,
			make: func(l *lab) error {
				return l.withLeaf(l.want.CA+100, time.Now().AddDate(1, 0, 0))
			},
			says: "cloud_provider.cert.ca: must be the CA that signed the agent's certificate",
			then: [][]string{recreate()},
		}, {
			name: "certificate of the agent that has expired", args: recreate(), code: 65,
			make: func(l *lab) error {
				return l.withLeaf(l.want.CA, time.Now().Add(-time.Minute))
			},
			says: "mbus.cert.certificate: .*expired", then: [][]string{recreate()},
		}, {
			name: "disk that is gone", args: recreate(), code: 1,
			make: func(l *lab) error { return l.put("home/faults/has_disk", "says-false") },
			says: "its VM has it mounted.*nothing was changed.*bootstrap disks forget .* --current",
			mend: func(l *lab) error { return l.put("home/faults/has_disk", "says-false") },
			then: [][]string{{"disks", "forget", "--current"}, recreate()},
		}, {
			name: "package that does not compile, in place", args: deploy(), code: 1,
			make: func(l *lab) error { l.want.Source++; return l.badPackage() },
			says: `(?s)package page-server of release lab fails to compile \(exit code 3\); the previous jobs were put back and run again; correct release lab and run .bootstrap deploy \S.*. again\n.*no compiler here`,
			then: [][]string{{"deploy"}},
		}, {
			name: "package that does not compile, new VM", args: recreate(), code: 1, later: true,
			make: func(l *lab) error { l.want.Source++; return l.badPackage() },
			says: `fails to compile \(exit code 3\); the service is down, and the VM that ran it was deleted; correct release lab and run .bootstrap deploy \S.*. again`,
			then: [][]string{{"deploy"}},
		}, {
			name: "cloud_properties that the CPI refuses", args: deploy(), code: 70, later: true,
			make: func(l *lab) error {
				l.want.CPU = 2
				return l.edit(`"cpu": 2`, `"cpu": "many"`)
			},
			says: `(?s)Warning: VM vm-.* the old one cannot be brought back.*the CPI refuses create_vm`,
			then: [][]string{{"deploy"}},
		}, {
			name: "jobs that do not start", args: deploy(), code: 1, later: true,
			make: func(l *lab) error {
				if err := l.write(); err != nil {
					return err
				}
				return l.put("releases/lab/jobs/page/templates/pre-start.erb", "#!/bin/bash\nexit 1\n")
			},
			says: "pre-start",
			then: [][]string{{"deploy", "--previous"}, {"deploy"}},
		},
	}
}

// tunnelCauses returns the causes for a VM whose agent reaches a registry
// through a tunnel.
func tunnelCauses() []cause {
	passphrase := "the-passphrase-of-the-key"
	return []cause{
		{
			name: "key with a passphrase that nobody gave", args: recreate(), code: 1,
			make: func(l *lab) error { return l.protectKey(passphrase) },
			says: "set the environment variable BOOTSTRAP_SSH_PASSPHRASE",
			next: []string{"BOOTSTRAP_SSH_PASSPHRASE=" + passphrase}, then: [][]string{recreate()},
		}, {
			name: "wrong passphrase", args: recreate(), code: 1,
			make: func(l *lab) error { return nil }, env: []string{"BOOTSTRAP_SSH_PASSPHRASE=another"},
			says: "BOOTSTRAP_SSH_PASSPHRASE does not belong to the private key",
			next: []string{"BOOTSTRAP_SSH_PASSPHRASE=" + passphrase}, then: [][]string{recreate()},
		}, {
			name: "key in a wrong format", args: recreate(), code: 65,
			make: func(l *lab) error { return keep(l.path("ssh.key"), "no key") },
			says: "cloud_provider.ssh_tunnel.private_key: .* is not a private key",
			mend: func(l *lab) error { return os.Rename(l.path("ssh.key.kept"), l.path("ssh.key")) },
			next: []string{"BOOTSTRAP_SSH_PASSPHRASE=" + passphrase}, then: [][]string{recreate()},
		}, {
			name: "key that cannot be read", args: recreate(), code: 65,
			make: func(l *lab) error { return os.Rename(l.path("ssh.key"), l.path("ssh.key.kept")) },
			says: "cloud_provider.ssh_tunnel.private_key: cannot read",
			mend: func(l *lab) error { return os.Rename(l.path("ssh.key.kept"), l.path("ssh.key")) },
			next: []string{"BOOTSTRAP_SSH_PASSPHRASE=" + passphrase}, then: [][]string{recreate()},
		}, {
			name: "port of the registry that is taken", args: recreate(), code: 1,
			env: []string{"BOOTSTRAP_SSH_PASSPHRASE=" + passphrase},
			make: func(l *lab) error {
				port, err := freePort() // which no connection takes after it is free again
				if err != nil {
					return err
				}
				if l.held, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
					return err
				}
				return l.edit(`"port": 0`, fmt.Sprintf(`"port": %d`, port))
			},
			says: "the registry cannot listen at .*cloud_provider.registry.port",
			mend: func(l *lab) error { return l.held.Close() },
			next: []string{"BOOTSTRAP_SSH_PASSPHRASE=" + passphrase}, then: [][]string{recreate()},
		},
	}
}

// portHolder returns the name of this process in the message, if the program can find it
// out.
func portHolder() string {
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		return "the agent of the new VM cannot listen at 127.0.0.1:"
	}
	return fmt.Sprintf(`the agent of the new VM cannot listen at 127.0.0.1:.*process %d \(.*\) uses the port: stop it`, os.Getpid())
}

func badTemplate(l *lab) error {
	if err := l.write(); err != nil {
		return err
	}
	return l.put("releases/lab/jobs/page/templates/page.html.erb", `<%= raise "not with me" %>`)
}

// badPackage writes the wanted manifest, and a package that does not compile.
func (l *lab) badPackage() error {
	if err := l.write(); err != nil {
		return err
	}
	return l.put("releases/lab/packages/page-server/packaging", "echo no compiler here\nexit 3\n")
}

// edit changes the text of the manifest.
func (l *lab) edit(old, new string) error {
	if err := l.write(); err != nil {
		return err
	}
	data, err := os.ReadFile(l.path("manifest.yml"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(data), old) {
		return fmt.Errorf("the manifest has no %q", old)
	}
	return os.WriteFile(l.path("manifest.yml"), []byte(strings.Replace(string(data), old, new, 1)), 0o600)
}

// withLeaf writes a manifest with another certificate of the agent, signed by the lab's
// CA with the number ca.
func (l *lab) withLeaf(ca int, end time.Time) error {
	was, err := l.identity(l.want)
	if err != nil {
		return err
	}
	if _, err := l.identity(wish{CA: ca}); err != nil {
		return err
	}
	signer := l.cas[ca]
	leaf, key, err := certificate(&x509.Certificate{NotAfter: end, Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, signer.Certificate, signer.key)
	if err != nil {
		return err
	}
	at := [2]int{l.want.CA, l.want.Leaf}
	l.leaves[at] = identity{was.ca, leaf, key}
	defer func() { l.leaves[at] = was }()
	return l.write()
}

// protectKey gives the VM's SSH server another key, with a passphrase.
func (l *lab) protectKey(passphrase string) error {
	data, err := os.ReadFile(l.path("ssh.key"))
	if err != nil {
		return err
	}
	raw, err := ssh.ParseRawPrivateKey(data)
	if err != nil {
		return err
	}
	key, ok := raw.(*ed25519.PrivateKey)
	if !ok {
		return fmt.Errorf("the lab's key is a %T", raw)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(*key, "", []byte(passphrase))
	if err != nil {
		return err
	}
	return os.WriteFile(l.path("ssh.key"), pem.EncodeToMemory(block), 0o600)
}

// keep replaces a file and stores its content in path.kept.
func keep(path, text string) error {
	if err := os.Rename(path, path+".kept"); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// TestCausesNoRoom deploys while the file system of the state is full.
func TestCausesNoRoom(t *testing.T) {
	t.Parallel()
	if can, why := canMount(t); !can {
		t.Skip(why)
	}
	l, err := newLab(t)
	if err != nil {
		t.Fatal(err)
	}
	defer l.end()
	if err := l.write(); err != nil {
		t.Fatal(err)
	}
	if err := l.must("deploy"); err != nil {
		t.Fatal(err)
	}
	before, err := l.state()
	if err != nil {
		t.Fatal(err)
	}
	const small = `set -eu
cp -a "$1" "$1-before"
mount -t tmpfs -o size=200k,mode=700 none "$1"
cp -a "$1-before/state.json" "$1"
shift
exec "$@"`
	words := append(alone(), "sh", "-c", small, "sh", l.path("state"), l.bin, "deploy", "--recreate", l.path("manifest.yml"), "--state", l.statePath())
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = []string{"HOME=" + l.path("home"), "TMPDIR=" + l.path("tmp"), "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err == nil || !regexp.MustCompile(`file system of .*/state has .* MiB free and the state file needs .*make room.*nothing was changed`).Match(out) {
		t.Fatalf("%v: %s", err, out)
	}
	after, err := l.state()
	if err != nil || after.CurrentVMCID != before.CurrentVMCID {
		t.Errorf("VM %q, then %q, %v", before.CurrentVMCID, after.CurrentVMCID, err)
	}
	if err := l.serves(); err != nil {
		t.Error(err)
	}
	if err := l.must("deploy", "--recreate"); err != nil {
		t.Fatal(err)
	}
	if err := l.serves(); err != nil {
		t.Error(err)
	}
}
