package deployer

import (
	"strings"
	"testing"

	"bootstrap/artifact"
)

// Groups with different stemcells of the same operating system and version have a compiled
// release each: the second must not replace the file of the first.
func TestExportSameFile(t *testing.T) {
	t.Parallel()
	r := &artifact.Release{Name: "r", Version: "1.2"}
	list := []*exported{{stemcell: "ubuntu-noble/1.99", release: r}, {stemcell: "ubuntu-jammy/1.99", release: r}}
	x := &exports{path: "compiled", list: list}
	if err := x.check(); err != nil {
		t.Errorf("with two operating systems: %v", err)
	}
	x.list = append(x.list, &exported{stemcell: "ubuntu-noble/1.99", release: r})
	err := x.check()
	if err == nil || !strings.Contains(err.Error(), "r-1.2-ubuntu-noble-1.99.tgz would be written twice") || !strings.Contains(err.Error(), "give these groups the same stemcell") {
		t.Error(err)
	}
}
