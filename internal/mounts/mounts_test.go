package mounts

import (
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got := parse(`22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
36 22 0:31 /a\040b /opt/we\134ird\040one rw,nosuid master:3 propagate_from:2 - fuse.sshfs me@there:/ - rw
half a line
`)
	want := []Mount{{"/", "/", "8:1", "ext4"}, {"/a b", `/opt/we\ird one`, "0:31", "fuse.sshfs"}}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
