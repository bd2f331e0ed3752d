package cmd

import (
	"fmt"
	"sync"
	"testing"

	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/manifest/document"
)

// TestWithTarget completes the commands in messages, each with the arguments that it
// accepts, and changes nothing else.
func TestWithTarget(t *testing.T) {
	t.Parallel()
	whole := &deployer.Options{Options: instance.Options{Manifest: "my lab.yml", StateFile: "s.json", Inputs: document.Options{
		Ops: []string{"a.yml", ""}, CloudConfigs: []string{"cloud.yml"}, VarsFiles: []string{"$v.yml"}, VarsStore: "creds.yml", VarSources: []string{"exec=./get it"}, PassEnv: []string{"TOKEN"}, Vars: []string{"pw=s3cret"},
	}}}
	const all = "'my lab.yml' --state s.json -o a.yml --cloud-config cloud.yml -l '$v.yml' --var-source 'exec=./get it' --pass-env TOKEN --vars-store creds.yml -v pw=<…>"
	ledger := func(address string) *deployer.Options {
		return &deployer.Options{Config: instance.Config{Database: address}, Options: instance.Options{Manifest: "m.yml"}}
	}
	state := &deployer.Options{Options: instance.Options{StateFile: "s.json"}}
	one := &deployer.Options{Options: instance.Options{Manifest: "m.yml", Instance: "web/1"}}
	for _, c := range []struct {
		target     *deployer.Options
		text, want string
	}{
		{one, "`bootstrap deploy MANIFEST`, `bootstrap status MANIFEST --instance db/0`", "`bootstrap deploy m.yml --instance web/1`, `bootstrap status m.yml --instance db/0`"},
		{one, "`bootstrap deploy MANIFEST` for all instances, `bootstrap deploy MANIFEST` without --instance", "`bootstrap deploy m.yml` for all instances, `bootstrap deploy m.yml` without --instance"},
		{nil, "`bootstrap deploy MANIFEST`", "`bootstrap deploy MANIFEST`"},
		{whole, `try "bootstrap deploy MANIFEST --fix": it`, `try "bootstrap deploy ` + all + ` --fix": it`},
		{whole, "(bootstrap state leftovers MANIFEST)", "(bootstrap state leftovers 'my lab.yml' --state s.json)"},
		{whole, "bootstrap disks forget MANIFEST --current", "bootstrap disks forget " + all + " --current"},
		{whole, "bootstrap disks attach MANIFEST disk-1", "bootstrap disks attach 'my lab.yml' --state s.json disk-1"},
		{whole, "--adopt-from MANIFEST, stemcell.MANIFEST, bootstrap deploy MANIFESTO", "--adopt-from MANIFEST, stemcell.MANIFEST, bootstrap deploy MANIFESTO"},
		{whole, "bootstrap nosuch MANIFEST", "bootstrap nosuch MANIFEST"},
		{ledger("/x/l.db"), "bootstrap deploy MANIFEST, bootstrap logs MANIFEST", "bootstrap deploy m.yml --database /x/l.db, bootstrap logs m.yml"},
		{ledger("postgres://h/d"), "bootstrap delete MANIFEST", "bootstrap delete m.yml --database postgres://h/d"},
		{ledger("postgres://u:s3cret@h/d"), "bootstrap delete MANIFEST", "bootstrap delete m.yml --database <…>"},
		{ledger("postgres://h/d?password=s3cret"), "bootstrap delete MANIFEST", "bootstrap delete m.yml --database <…>"},
		{ledger("/from/environment.db"), "bootstrap delete MANIFEST", "bootstrap delete m.yml"},
		{state, "bootstrap logs MANIFEST and bootstrap deploy MANIFEST", "bootstrap logs --state s.json and bootstrap deploy MANIFEST --state s.json"},
	} {
		console := newConsole(nil, nil, nil, nil, []string{"BOOTSTRAP_DATABASE=/from/environment.db"})
		newRoot(console)
		console.NameTarget(c.target)
		if console.WithTarget(c.text) != c.want {
			t.Errorf("%q became %q, not %q", c.text, console.WithTarget(c.text), c.want)
		}
	}
}

// TestWithTargetOfMember names the fleet, or the state of the member, also of one of its
// instances.
func TestWithTargetOfMember(t *testing.T) {
	t.Parallel()
	console := newConsole(nil, nil, nil, nil, []string{"BOOTSTRAP_MEMBER=a=fleet.yml"})
	newRoot(console)
	console.NameTarget(&deployer.Options{Options: instance.Options{Manifest: "/f/a.yml"}})
	for text, want := range map[string]string{
		"bootstrap deploy MANIFEST --fix":                           "bootstrap fleet deploy fleet.yml --only a --fix",
		"bootstrap state restore MANIFEST 5":                        "bootstrap state restore --state /f/a-state.json 5",
		"`bootstrap state restore MANIFEST --instance web/1 5` ...": "`bootstrap state restore --state /f/a-state.json --instance web/1 5` ...",
	} {
		if got := console.WithTarget(text); got != want {
			t.Errorf("%q became %q, not %q", text, got, want)
		}
	}
}

// TestWithTargetAtTheSameTime completes texts about different instances in goroutines, as
// commands about several do.
func TestWithTargetAtTheSameTime(t *testing.T) {
	t.Parallel()
	console := newConsole(nil, nil, nil, nil, nil)
	newRoot(console)
	console.NameTarget(&deployer.Options{Options: instance.Options{Manifest: "m.yml"}})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := fmt.Sprintf("web/%d", i)
			other := &deployer.Options{Options: instance.Options{Manifest: "other.yml", Instance: name}}
			for range 50 {
				for got, want := range map[string]string{
					console.WithTarget("bootstrap logs MANIFEST --instance " + name): "bootstrap logs m.yml --instance " + name,
					console.WithTargetOf(other, "bootstrap logs MANIFEST"):           "bootstrap logs other.yml --instance " + name,
					console.WithTarget("bootstrap deploy MANIFEST"):                  "bootstrap deploy m.yml",
				} {
					if got != want {
						t.Errorf("got %q, not %q", got, want)
					}
				}
			}
		})
	}
	all.Wait()
}
