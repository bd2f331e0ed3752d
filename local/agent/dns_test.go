//go:build linux || darwin

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSyncDNS(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	data := []byte(`{"version":2,"records":[["10.1.2.3","a.example"]]}`)
	id := m.put(data)
	for range 2 {
		if got := m.must("sync_dns", id, sha1Of(data), 2); got != `"synced"` {
			t.Errorf("sync_dns: %s", got)
		}
	}
	if got := m.read("instance", "dns", "records.json"); got != string(data) {
		t.Errorf("records.json: %q", got)
	}
	if got := m.must("sync_dns", "gone", sha1Of(nil), 1); got != `"synced"` {
		t.Errorf("sync_dns of an older version: %s", got)
	}
	for want, args := range map[string][]any{
		"version from unpacked dns blob does not match version supplied by director": {id, sha1Of(data), 3},
		"getting " + id + " from blobstore: Checking blob '" + id + "': ":            {id, sha1Of(nil), 4},
		"getting gone from blobstore: Getting blob":                                  {"gone", sha1Of(nil), 4},
	} {
		if r := m.reply("sync_dns", 0, args...); r.Exception == nil || !strings.HasPrefix(r.Exception.Message, "Action Failed sync_dns: "+want) {
			t.Errorf("sync_dns %v: %s %+v", args, r.Value, r.Exception)
		}
	}
}

// A hosts file gets the names of the last records, and keeps the lines of others.
func TestWriteHosts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("127.0.0.1 localhost"), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(pairs ...[2]string) string {
		t.Helper()
		if err := writeHosts(file, pairs); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write([2]string{"10.0.0.1", "old.bosh"})
	other, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.WriteString("192.0.2.1 of.a.job\n")
	if err := errors.Join(err, other.Close()); err != nil {
		t.Fatal(err)
	}
	got := write([2]string{"10.0.0.2", "db.bosh"}, [2]string{"10.0.0.3", "db.bosh"}, [2]string{"db", "no.address"}, [2]string{"10.0.0.4", "two\n10.0.0.5 lines"})
	want := "127.0.0.1 localhost\n192.0.2.1 of.a.job\n" + hostsBegin + "\n10.0.0.2 db.bosh\n10.0.0.3 db.bosh\n" + hostsEnd + "\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("got %v, %v: not everybody can read it", info, err)
	}
	if err := writeHosts("", nil); err != nil {
		t.Error(err)
	}
}
