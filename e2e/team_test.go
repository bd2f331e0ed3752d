//go:build unix

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bootstrap/addresses"
	"bootstrap/internal/postgrestest"
	"bootstrap/network"
)

// The password in the URL of the team's ledger: as it is, and as it is written in the
// URL.
const (
	teamPassword = "s3cret/of?the@ledger"
	teamSpelled  = "s3cret%2Fof%3Fthe%40ledger"
)

// TestTeamLedger deploys with a ledger on a PostgreSQL server. Its password is
// only in the command line and in this machine's own record of the deployment.
func TestTeamLedger(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	url := strings.Replace(server.Schema(t), "bootstrap@", "bootstrap:"+teamSpelled+"@", 1)
	l, err := newLab(t)
	if err != nil {
		t.Fatal(err)
	}
	defer l.end()
	l.want.Shared = true
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ends := func(status int, line, says string) {
		t.Helper()
		o, err := l.shell(nil, "bootstrap "+strings.ReplaceAll(line, "URL", "'"+url+"'"))
		check(err)
		if o.status != status || !regexp.MustCompile("(?m)"+says).MatchString(o.text) {
			t.Fatalf("%s: ended with %d, want %d and %q:\n%s", line, o.status, status, says, o.text)
		}
		check(noPassword(line, []byte(o.text)))
	}

	check(l.write())
	ends(0, "addresses list --database URL", "No address is reserved in postgres://bootstrap@")
	ends(2, "plan MANIFEST --database URL", "address 127.0.0.1 of default")
	ends(0, "addresses check MANIFEST --database URL", "Nothing is wrong")
	o, err := l.while("cpi create_vm running 1", "deploy --database "+url, func(*os.Process) error {
		for _, p := range allOf(l.dir) {
			if own := strings.Contains(p.command, "deploy --database"); !own && noPassword("", []byte(p.command)) != nil {
				return fmt.Errorf("a child process has the password: %s", p.command)
			}
		}
		return nil
	})
	check(err)
	check(noPassword("deploy", []byte(o.text)))
	check(l.serves())

	// The next commands know the ledger without an argument.
	const mine = "^127.0.0.1 +default +lab +web/0 +static +vm-"
	ends(0, "deploy MANIFEST", "Skipping deploy")
	ends(0, "addresses list --database URL", mine)
	ends(0, "addresses list --database URL --json", `"address":"127.0.0.1"`)
	ends(0, "addresses list MANIFEST", mine)
	ends(0, "addresses adopt MANIFEST", "The ledger has all of these addresses already")
	ends(1, "addresses release lab --database URL", "still exists on this machine")

	// On another machine with the state, the ledger must be given.
	for line, status := range map[string]int{
		"deploy MANIFEST": 1, "plan MANIFEST": 1, "delete MANIFEST --yes": 1, "addresses list MANIFEST": 1, "addresses adopt MANIFEST": 1,
		"addresses list MANIFEST --database '" + url + "'": 0,
	} {
		o, err := l.shell([]string{"HOME=" + l.path("second")}, "bootstrap "+line)
		check(err)
		check(noPassword(line, []byte(o.text)))
		if named := strings.Contains(o.text, "are in the ledger postgres:///"); o.status != status || named != (status == 1) {
			t.Fatalf("%s: ended with %d, want %d:\n%s", line, o.status, status, o.text)
		}
	}
	check(l.serves())

	// Another deployment has the address that this deployment wants.
	l.want.Address = "127.0.0.2"
	check(l.write())
	check(hold(url, "127.0.0.2"))
	ends(1, "deploy MANIFEST --yes", `127\.0\.0\.2 .* held by web/0 of "other"(?s:.*)bootstrap addresses release 127\.0\.0\.2 --database <…>`)
	ends(0, "addresses release other --database URL --yes", `^127\.0\.0\.2 `)
	ends(0, "deploy MANIFEST --yes", `is running at 127\.0\.0\.2`)
	check(l.serves())

	// The server does not answer: nothing is changed, and a delete continues later.
	server.Stop()
	ends(1, "deploy MANIFEST --recreate --yes", "cannot use the address ledger postgres://bootstrap@.*; start the server")
	ends(1, "addresses list MANIFEST --json", `"status":"failed","exit_code":1`)
	check(l.serves())
	ends(1, "delete MANIFEST --yes", "cannot use the address ledger")
	server.Restart(t)
	check(l.tellsNoPassword())
	ends(0, "delete MANIFEST --yes", "Succeeded")
	ends(0, "addresses list --database URL", "No address is reserved")
	check(l.tellsNoPassword())
}

// hold reserves an address for another deployment.
func hold(ledger, addr string) error {
	l, err := addresses.Open(context.Background(), ledger, time.Now)
	if err != nil {
		return err
	}
	defer l.Close()
	_, err = l.Adopt(context.Background(), []network.Reservation{{
		Owner:   network.Owner{Deployment: "other", Name: "other", Instance: "web/0"},
		Network: "default", Kind: network.Static, Block: netip.PrefixFrom(netip.MustParseAddr(addr), 32),
	}})
	return err
}

// noPassword returns an error if the text contains the password of the team's ledger.
func noPassword(where string, text []byte) error {
	for _, spelled := range []string{teamPassword, teamSpelled} {
		if bytes.Contains(text, []byte(spelled)) {
			return fmt.Errorf("%s tells %q:\n%s", where, spelled, text)
		}
	}
	return nil
}

// tellsNoPassword checks that the files of the lab contain no password: the state, logs,
// requests to the CPI, and the files of the VM.
func (l *lab) tellsNoPassword() error {
	return filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if d.Name() != "installation.json" {
			return noPassword(path, data)
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm() != 0o600 {
			err = fmt.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
}
