package cpi

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		`{"result":"vm","error":null,"log":""}`,
		`{"result":["vm",{"default":{"ip":"1.2.3.4"}}],"error":null,"log":"x"}`,
		`{"result":[],"error":null}`, `{"result":[[[]]]}`, `{"result":{"stemcell_formats":["a"],"api_version":2}}`,
		`{"result":null,"error":{"type":"Bosh::Clouds::CloudError","message":"m","ok_to_retry":true},"log":""}`,
		"", "null", "{}", "[]", "\xEF\xBB\xBF{}", "{}{}", `{"result":1e999}`,
	} {
		f.Add([]byte(seed), "", false)
		f.Add([]byte(seed), "exit status 1", true)
	}
	c := New(Config{})
	f.Fuzz(func(t *testing.T, stdout []byte, status string, late bool) {
		out := output{stdout: stdout, status: status}
		if late {
			out.timeout = time.Second
		}
		reply, err := decodeReply("m", out, c.cfg.Redact)
		if err != nil {
			switch err.(type) {
			case *ExitError, *GarbageError, *TimeoutError:
			default:
				t.Fatalf("error of type %T", err)
			}
			if len(err.Error()) > 8000 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if !json.Valid(bytes.TrimPrefix(bytes.TrimSpace(stdout), []byte("\xEF\xBB\xBF"))) {
			t.Fatalf("took %q for JSON", stdout)
		}
		if late && reply.Error != nil {
			t.Fatal("an error after the deadline counts as the CPI's")
		}
		if vm, err := c.decodeVM("m", reply.Result); (err == nil) == (vm.CID == "") {
			t.Fatalf("CID %q, error %v", vm.CID, err)
		}
		if info, err := c.decodeInfo(reply.Result); err == nil && info.APIVersion != 1 && info.APIVersion != 2 {
			t.Fatalf("version %d", info.APIVersion)
		}
		_, _ = c.decodeBool("m", reply.Result)
		_, _ = c.decodeHint("m", reply.Result)
		_, _ = c.decodeMap("m", reply.Result)
		_, _ = c.decodeCIDs("m", reply.Result)
	})
}
