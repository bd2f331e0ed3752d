package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/internal/atomicfile"
	"bootstrap/local/machine"
)

// dnsRecords are the DNS records that jobs read from a file.
type dnsRecords struct {
	vm    machine.VM
	blobs blobs
}

// sync is the message sync_dns: it stores the records if they are newer than the VM's.
func (r dnsRecords) sync(_ context.Context, c *call) (any, error) {
	var id string
	var sum digest
	var version uint64
	if err := c.bind(3, &id, &sum, &version); err != nil {
		return nil, err
	}
	if !r.outdated(version) {
		return "synced", nil
	}
	blob, err := r.blobs.path(id, sum)
	if err != nil {
		return nil, failf("getting %s from blobstore: %w", id, err)
	}
	return r.save(blob, version)
}

// records are the contents of a file of DNS records.
type records struct {
	Version uint64      `json:"version"`
	Records [][2]string `json:"records"`
}

func (r dnsRecords) file() string { return r.vm.Path("instance", "dns", "records.json") }

// outdated reports whether the VM has no records of this or a later version.
func (r dnsRecords) outdated(version uint64) bool {
	var have records
	return !exists(r.file()) || readJSON(r.file(), &have) != nil || have.Version < version
}

// save replaces the records of the VM by those in the file of a blob.
func (r dnsRecords) save(blob string, version uint64) (any, error) {
	file := r.file()
	var got records
	data, err := os.ReadFile(blob)
	if err != nil {
		return nil, failf("reading %s from blobstore: %w", filepath.Base(blob), err)
	}
	if err := json.Unmarshal(data, &got); err != nil {
		return nil, failf("unmarshalling DNS records: %w", err)
	}
	if got.Version != version {
		return nil, failf("version from unpacked dns blob does not match version supplied by director")
	}
	if err := makeFolder(filepath.Dir(file), 0o755); err != nil {
		return nil, failf("saving local DNS state: %w", err)
	}
	if err := writeHosts(r.vm.OwnHosts(), got.Records); err != nil {
		return nil, failf("saving DNS records in /etc/hosts: %w", err)
	}
	if err := atomicfile.WriteMode(file, data, 0o640); err != nil {
		return nil, failf("saving local DNS state: %w", err)
	}
	return "synced", nil
}

// Lines around the names that writeHosts writes.
const (
	hostsBegin = "# The names of instances, written by the agent for each sync_dns:"
	hostsEnd   = "# The names of instances end here."
)

// writeHosts writes pairs of address and name into a hosts file, in place of those that it
// has from before. It keeps all other lines, which a real agent does not. An empty file
// name is no file.
func writeHosts(file string, pairs [][2]string) error {
	if file == "" {
		return nil
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	others := string(old)
	if before, rest, found := strings.Cut(others, hostsBegin); found {
		if _, after, found := strings.Cut(rest, hostsEnd+"\n"); found {
			others = before + after
		}
	}
	if others != "" && !strings.HasSuffix(others, "\n") {
		others += "\n"
	}
	out := bytes.NewBufferString(others)
	out.WriteString(hostsBegin + "\n")
	for _, pair := range pairs {
		// The file comes from outside: a pair must not make two lines.
		if _, err := netip.ParseAddr(pair[0]); err == nil && !strings.ContainsAny(pair[1], " \t\r\n#") {
			fmt.Fprintf(out, "%s %s\n", pair[0], pair[1])
		}
	}
	out.WriteString(hostsEnd + "\n")
	return atomicfile.WriteMode(file, out.Bytes(), 0o644)
}
