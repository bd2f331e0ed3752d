package manifest

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"bootstrap/manifest/document"
)

// scopedPairs change the manifest several: each agent gets a password and a certificate of
// its own, and the web job a secret.
func scopedPairs() []string {
	return []string{
		"https://u:p@0.0.0.0:6868", "https://u:((pw))@0.0.0.0:6868\n  cert: ((tls))\n  ssh_tunnel: {host: 0.0.0.0, user: vcap, private_key: ((key.private_key))}",
		"  networks: [{name: default}]", "  networks: [{name: default}]\n  env: {bosh: {mbus: {cert: ((tls))}}}",
		"{title: x}", "{title: ((secret))}",
		"update:", `variables:
- {name: pw, type: password, scope: instance}
- {name: secret, type: password, scope: instance}
- {name: key, type: ssh}
- {name: ca, type: certificate, options: {is_ca: true, common_name: ca, key_type: ecdsa}}
- {name: tls, type: certificate, scope: instance, options: {ca: ca, common_name: agent, key_type: ecdsa}}
update:`,
	}
}

// webs returns instances of the group web with their addresses.
func webs(n int) (list []Member, blocks []map[string]netip.Prefix) {
	for i := range n {
		ip := fmt.Sprintf("10.0.0.%d", 20+i)
		list = append(list, Member{Group: "web", Identity: Identity{ID: fmt.Sprint("id-", i), Index: i, Hosts: []string{ip}}})
		blocks = append(blocks, map[string]netip.Prefix{"default": netip.MustParsePrefix(ip + "/32")})
	}
	return list, blocks
}

func TestIdentifyScoped(t *testing.T) {
	t.Parallel()
	path, opts := written(t, scopedPairs()...)
	opts.VarsStore, opts.Generate = filepath.Join(t.TempDir(), "creds.yml"), document.Write
	d, err := LoadDeployment(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	list, blocks := webs(3)
	web := &d.Groups[1]
	planned, err := d.Identify(t.Context(), web, list[0].Identity, "z1", blocks[0])
	if err != nil || !planned.CPI.MBusPending || !slices.Equal(planned.Own, []string{"pw", "secret", "tls"}) {
		t.Fatal(planned, err)
	}
	if _, of, err := d.GenerateFor(t.Context(), list); err != nil || len(of) != 3 {
		t.Fatal(of, err)
	}
	// Instances are identified at the same time.
	got := make([]*Manifest, len(list))
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, one := range list {
		all.Go(func() { got[i], errs[i] = d.Identify(t.Context(), web, one.Identity, "z1", blocks[i]) })
	}
	all.Wait()
	digests, passwords, secrets := map[string]bool{}, map[string]bool{}, map[any]bool{}
	for i, m := range got {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		ip := list[i].Hosts[0]
		password, _ := m.CPI.MBusURL.User.Password()
		digests[m.Digest], passwords[password], secrets[m.Group.Jobs[0].Properties["title"]] = true, true, true
		if m.CPI.MBusURL.Host != ip+":6868" || m.CPI.SSHTunnel.Host != ip || m.CPI.MBusPending || len(m.Own)+len(m.Generated) != len(d.Common.Generated) {
			t.Errorf("%s: %s, %s, %q", m.Instance(), m.CPI.MBusURL.Host, m.CPI.SSHTunnel.Host, m.Generated)
		}
		if !slices.Contains(m.Secrets, password) {
			t.Errorf("%s: the password is not a secret", m.Instance())
		}
	}
	if len(digests) != 3 || len(passwords) != 3 || len(secrets) != 3 {
		t.Errorf("%d digests, %d passwords and %d secrets of 3 instances", len(digests), len(passwords), len(secrets))
	}
	if name := d.Scoped(web.Manifest.Group.Jobs[0].Properties); name != "secret" {
		t.Errorf("the group has the variable %q", name)
	}
}

// Sources are asked for the values of each instance, by their names.
func TestScopedSources(t *testing.T) {
	t.Parallel()
	path, opts := written(t, scopedPairs()...)
	opts.VarsStore, opts.Generate = filepath.Join(t.TempDir(), "creds.yml"), document.Plan
	var asked []string
	opts.Ask = func(_ context.Context, names []string) (document.Answers, error) {
		asked = append(asked, names...)
		values := map[string]document.Answer{}
		for _, name := range names {
			if rest, found := strings.CutPrefix(name, "secret/web/"); found {
				values[name] = document.Answer{Source: "here", Value: "of " + rest}
			}
		}
		return document.Answers{Values: values, Asked: []string{"here"}}, nil
	}
	d, err := LoadDeployment(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	list, blocks := webs(2)
	for i, one := range list {
		m, err := d.Identify(t.Context(), &d.Groups[1], one.Identity, "z1", blocks[i])
		if err != nil || m.Group.Jobs[0].Properties["title"] != "of "+one.ID {
			t.Error(m.Group.Jobs, err)
		}
	}
	if slices.Contains(asked, "secret") || !slices.Contains(asked, "pw/web/id-1") {
		t.Errorf("asked for %q", asked)
	}
}
