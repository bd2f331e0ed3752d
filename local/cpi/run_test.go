//go:build !windows

package cpi

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/cpi"
)

// run answers one request in this process; the configuration must have a root.
func (w *world) run(t *testing.T, cfg, self, request string) cpi.Response {
	t.Helper()
	var stdout bytes.Buffer
	if status := Run(t.Context(), cfg, self, strings.NewReader(request), &stdout, w.log); status != 0 {
		t.Errorf("status %d", status)
	}
	var reply cpi.Response
	if err := json.Unmarshal(stdout.Bytes(), &reply); err != nil {
		t.Fatalf("%v in %s", err, stdout.String())
	}
	if reply.Error != nil && string(reply.Result) != "null" {
		t.Errorf("result %s and error %v", reply.Result, reply.Error)
	}
	return reply
}

func TestProtocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, func(cfg map[string]any) { cfg["root"] = filepath.Join(t.TempDir(), "absent") })
	cfg := filepath.Join(w.jobs, "local_cpi", "config", "cpi.json")
	for _, tt := range []struct{ request, kind string }{
		{``, cpi.TypeCPIError},
		{`x`, cpi.TypeCPIError},
		{`[]`, cpi.TypeCPIError},
		{`null`, cpi.TypeCPIError},
		{`{}`, cpi.TypeCPIError},
		{`{"method":"info"}`, cpi.TypeCPIError},
		{`{"method":"info","arguments":null}`, cpi.TypeCPIError},
		{`{"method":"info","arguments":[],"api_version":"2"}`, cpi.TypeCPIError},
		{`{"method":"info","arguments":[]}{}`, cpi.TypeCPIError},
		{`{"method":"info","arguments":[]}`, ""},
		{`{"method":"info","arguments":["x"],"context":null,"api_version":0,"request_id":"x"}`, ""},
		{`{"method":"info","arguments":[],"api_version":3}`, cpi.TypeNotImplemented},
		{`{"method":"","arguments":[]}`, cpi.TypeCPIError},
		{`{"method":"fly","arguments":[]}`, cpi.TypeNotImplemented},
		{`{"method":"Info","arguments":[]}`, cpi.TypeNotImplemented},
		{`{"method":"update_disk","arguments":["d",1,{}],"api_version":1}`, cpi.TypeNotImplemented},
		{`{"method":"has_vm","arguments":[]}`, cpi.TypeCloudError},
		{`{"method":"has_vm","arguments":[""]}`, cpi.TypeCloudError},
		{`{"method":"has_vm","arguments":[null]}`, cpi.TypeCloudError},
		{`{"method":"has_vm","arguments":[5]}`, cpi.TypeCloudError},
		{`{"method":"has_vm","arguments":["../x"]}`, ""},
		{`{"method":"has_vm","arguments":["vm-0123456789ABCDEF"]}`, ""},
		{`{"method":"has_disk","arguments":["/etc/passwd"]}`, ""},
		{`{"method":"create_disk","arguments":["10",{},null]}`, cpi.TypeCloudError},
		{`{"method":"create_disk","arguments":[1.5,{},null]}`, cpi.TypeCloudError},
		{`{"method":"calculate_vm_cloud_properties","arguments":[{"cpu":-1}]}`, cpi.TypeCloudError},
		{`{"method":"calculate_vm_cloud_properties","arguments":[{"gpu":1}]}`, cpi.TypeCloudError},
		{`{"method":"delete_vm","arguments":["vms"]}`, cpi.TypeVMNotFound},
		{`{"method":"delete_disk","arguments":["."]}`, cpi.TypeDiskNotFound},
	} {
		reply := w.run(t, cfg, "/bin/false", tt.request)
		kind := ""
		if reply.Error != nil {
			kind = reply.Error.Type
		}
		if kind != tt.kind {
			t.Errorf("%s: %q, want %q", tt.request, kind, tt.kind)
		}
	}
	if _, err := os.Lstat(w.cfg["root"].(string)); !os.IsNotExist(err) {
		t.Errorf("these calls left a folder: %v", err)
	}
}

func TestConfig(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	file := filepath.Join(t.TempDir(), "cpi.json")
	for text, want := range map[string]string{ // the root, or a part of the error
		`{}`:                            home + "/.bosh/local",
		`{"root":"~/x"}`:                home + "/x",
		`{"root":"~"}`:                  home,
		`{"root":"/a/../b/"}`:           "/b",
		`{"root":"x"}`:                  "it must be absolute",
		`{"root":"~x"}`:                 "only ~/ is supported",
		`{"api_version":3}`:             home + "/.bosh/local",
		`{"api_version":4}`:             "must be 1, 2 or 3",
		`{"ssh":{"port":"22"}}`:         home + "/.bosh/local",
		`{"ssh":{"port":65536}}`:        "want a port",
		`{"registry":{"port":null}}`:    home + "/.bosh/local",
		`{"agent":{"mbus":["hunter2"]}`: "unexpected end",
	} {
		write(t, file, []byte(text), 0o600)
		cfg, err := readConfig(file)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && cfg.Root != want {
			t.Errorf("%s: %q, %v", text, cfg.Root, err)
		}
	}
	t.Setenv("HOME", "")
	write(t, file, []byte(`{}`), 0o600)
	if _, err := readConfig(file); err == nil || !strings.Contains(err.Error(), "HOME is not set") {
		t.Errorf("without a home: %v", err)
	}
	if _, err := readConfig(file + "x"); err == nil {
		t.Error("read a file that is absent")
	}
}
