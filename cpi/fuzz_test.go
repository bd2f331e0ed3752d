package cpi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		`{"result":"vm","error":null,"log":""}`,
		`{"result":["vm",{"default":{"ip":"1.2.3.4"}}],"error":null,"log":"x"}`,
		`{"result":[],"error":null}`, `{"result":[[[]]]}`, `{"result":{"stemcell_formats":["a"],"api_version":2}}`,
		`{"result":null,"error":{"type":"Bosh::Clouds::CloudError","message":"m","ok_to_retry":true},"log":""}`,
		"", "null", "{}", "[]", "\xEF\xBB\xBF{}", "\xEF\xBB\xBF\f{}", "{}{}", `{"result":1e999}`,
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
		if !json.Valid(bytes.TrimSpace(bytes.TrimPrefix(stdout, []byte("\xEF\xBB\xBF")))) {
			t.Fatalf("took %q for JSON", stdout)
		}
		if late && reply.Error != nil {
			t.Fatal("an error after the deadline counts as the CPI's")
		}
		if vm, err := c.decodeVM("m", reply.Result); (err == nil) == (vm.CID == "") {
			t.Fatalf("CID %q, error %v", vm.CID, err)
		}
		if info, err := c.decodeInfo(reply.Result); err == nil && (info.APIVersion < 1 || info.APIVersion > MaxAPIVersion) {
			t.Fatalf("version %d", info.APIVersion)
		}
		_, _ = c.decodeBool("m", reply.Result)
		_, _ = c.decodeHint("m", reply.Result)
		_, _ = c.decodeCIDs("m", reply.Result)
	})
}

// FuzzRecover reads the reply and the pid file of an earlier run: whatever they
// contain, it ends and invents no CID.
func FuzzRecover(f *testing.F) {
	child := `{"pid": 4194304, "host": "elsewhere", "since": "2025-01-02T03:04:05Z", "birth": "1"}`
	for _, reply := range []string{`{"result":"vm-1","error":null,"log":""}`, `{"result":["vm-1",{}],"error":null}`, `{"result":"","error":null}`, `{"result":`, "", "null"} {
		f.Add("create_vm", reply, child)
		f.Add("delete_vm", reply, `{"pid": -1}`)
	}
	f.Add("create_disk", `{"result":" "}`, `{"pid": 1, "birth": ""}`)
	c := New(Config{})
	f.Fuzz(func(t *testing.T, method, reply, child string) {
		file := filepath.Join(t.TempDir(), "reply")
		for path, text := range map[string]string{file: reply, childFile(file): child} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c, known := childOf(file); known && c.PID <= 1 {
			t.Fatalf("process %d", c.PID)
		}
		cid, err := c.Recover(context.Background(), method, file, nil)
		if err != nil && (cid != "" || errors.Is(err, fs.ErrNotExist)) {
			t.Fatalf("CID %q, error %v", cid, err)
		}
		if err == nil && !bytes.Contains([]byte(reply), []byte("{")) {
			t.Fatalf("took %q for a reply", reply)
		}
	})
}
