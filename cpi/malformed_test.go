package cpi

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/golden"
)

// TestMalformedReplies contains every way in which a reply can be wrong, and compares the
// messages with testdata/malformed.golden. go test -update writes that file.
func TestMalformedReplies(t *testing.T) {
	t.Parallel()
	c := New(Config{})
	var got strings.Builder
	for _, out := range []output{
		{},
		{stdout: []byte(" \n")},
		{stdout: []byte("Traceback: oops\nline 2\n")},
		{stdout: []byte(`{"result":`)},
		{stdout: []byte(`{"result":"vm-1"} and more`)},
		{stdout: []byte(`["vm-1"]`)},
		{stdout: []byte(`{"result":1}`)},
		{stdout: []byte(`{"result":""}`)},
		{stdout: []byte(`{"result":"  "}`)},
		{stdout: []byte(`{"result":"vm-1\u001b[31m"}`)},
		{stdout: []byte(`{"result":["vm-\n1",{}]}`)},
		{stdout: []byte(`{"result":[]}`)},
		{stdout: []byte(`{"result":[7,{}]}`)},
		{stdout: []byte(`{"result":null}`)},
		{stdout: []byte(`{"error":{"type":"Bosh::Clouds::CloudError","message":"no quota"}}`)},
		{stdout: []byte(`{"error":{"message":"\u001b[31mred"}}`)},
		{stdout: []byte("\x00\xff\xfe")},
		{status: "exit status 3", stderr: "first\nlast\n"},
		{status: "signal: killed"},
		{status: "exit status 1", stdout: []byte("not json"), stderr: "why"},
	} {
		reply, err := decodeReply("create_vm", out, c.cfg.Redact)
		if err == nil && reply.Error != nil {
			err = c.refused("create_vm", reply.Error)
		} else if err == nil {
			_, err = c.decodeVM("create_vm", reply.Result)
		}
		if err == nil {
			t.Errorf("%q is accepted", out.stdout)
		}
		fmt.Fprintf(&got, "stdout %q, stderr %q, %s\n  %s\n", out.stdout, out.stderr, out.status, strings.ReplaceAll(fmt.Sprint(err), "\n", "\n  "))
	}
	golden.Assert(t, got.String(), "malformed.golden")
}
