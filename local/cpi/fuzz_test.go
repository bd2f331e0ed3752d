package cpi

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"bootstrap/cpi"
)

// FuzzRequest searches for requests that the embedded CPI misunderstands or does not
// answer.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"method":"has_vm","arguments":["vm-1"],"context":{"director_uuid":"d"},"api_version":2}`,
		`{"method":"create_disk","arguments":[10,{},null]}`, `{"method":"delete_vm","arguments":[""]}`,
		`{"method":"info"}`, `{"arguments":[]}`, `[]`, `{`, ``, `{"method":1,"arguments":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req, err := readRequest(bytes.NewReader(data))
		if err == nil {
			if req.Method == "" || req.Arguments == nil {
				t.Fatalf("accepted: %+v", req)
			}
			var cid string
			if err = (&call{req: req}).args((*cidArg)(&cid)); err == nil && cid == "" {
				t.Fatalf("an empty CID is accepted: %s", data)
			}
		}
		reply, line := respond(nil, err)
		if text, err := json.Marshal(reply); err != nil || !json.Valid(text) || line == "" {
			t.Fatalf("reply %s, %q, %v", text, line, err)
		}
		if err != nil && (reply.Error == nil || !strings.HasPrefix(reply.Error.Type, "Bosh::Clouds::") || reply.Error.Type == cpi.TypeVMNotFound) {
			t.Fatalf("reply %+v to %v", reply.Error, err)
		}
	})
}
