//go:build !windows

package cpitest_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"bootstrap/cpi"
	"bootstrap/cpi/cpitest"
	"bootstrap/internal/programtest"
)

// replay is a CPI that stores the request and gives the reply from the file
// beside it. To info, which the client calls first, it returns its API version.
const replay = `#!/bin/bash
cd "${0%/*}"
IFS= read -r -d '' request # without processes: hundreds of these scripts run
if [[ ! -e asked ]]; then
	: >asked
	read -r version <version
	[[ -e info-only ]] || { echo "{\"result\":{\"stemcell_formats\":[\"x\"],\"api_version\":$version}}"; exit; }
fi
printf '%s' "$request" >request
IFS= read -r -d '' reply <reply
read -r status <exit
printf '%s' "$reply"
exit "$status"
`

// sent is a request whose arguments are not decoded.
type sent struct {
	Method    string
	Arguments []json.RawMessage
	Context   struct {
		DirectorUUID *string `json:"director_uuid"`
		VM           struct {
			Stemcell struct {
				APIVersion int `json:"api_version"`
			}
		}
	}
	APIVersion *int `json:"api_version"`
}

// TestClientAgainstTranscripts makes the client send what real CPIs have received, and
// read what those CPIs replied.
func TestClientAgainstTranscripts(t *testing.T) {
	t.Parallel()
	for _, transcript := range cpitest.Transcripts(t) {
		t.Run(transcript.Name, func(t *testing.T) {
			t.Parallel()
			replayed := 0
			for _, exchange := range transcript.Exchanges {
				if exchange.Request != nil && againstClient(t, exchange) {
					replayed++
				}
			}
			if replayed < 60 {
				t.Errorf("only %d exchanges were such that the client may send them", replayed)
			}
		})
	}
}

// againstClient replays one exchange; it returns false if the client would never send the
// request.
func againstClient(t *testing.T, exchange cpitest.Exchange) bool {
	t.Helper()
	var request sent
	if json.Unmarshal(exchange.Request, &request) != nil || request.APIVersion == nil || request.Context.DirectorUUID == nil {
		return false
	}
	dir := t.TempDir()
	files := map[string]string{"version": strconv.Itoa(*request.APIVersion), "exit": strconv.Itoa(exchange.Exit), "reply": string(exchange.Stdout), "cpi": replay}
	if exchange.Text != nil {
		files["reply"] = *exchange.Text
	}
	if request.Method == "info" {
		files["info-only"] = ""
	}
	for name, text := range files {
		programtest.Write(t, filepath.Join(dir, name), text)
	}
	c := cpi.New(cpi.Config{Path: filepath.Join(dir, "cpi"), Env: []string{"PATH=" + os.Getenv("PATH")},
		DirectorID: *request.Context.DirectorUUID, StemcellAPI: request.Context.VM.Stemcell.APIVersion})
	got, err, ok := drive(t.Context(), c, request)
	if !ok {
		return false
	}
	wrote, readErr := os.ReadFile(filepath.Join(dir, "request"))
	if readErr != nil {
		t.Errorf("%s: nothing was sent: %v", exchange.Name, err)
		return true
	}
	if !sameJSON(t, wrote, exchange.Request) {
		// The client does not send surplus arguments and fields.
		if request.Method == "info" || len(request.Arguments) != arguments(t, wrote) || hasMore(t, exchange.Request, wrote) {
			return false
		}
		t.Errorf("%s: sent\n%s\nwant\n%s", exchange.Name, wrote, exchange.Request)
	}
	checkRead(t, exchange, request.Method, got, err)
	return true
}

func arguments(t *testing.T, text []byte) int {
	var request sent
	if err := json.Unmarshal(text, &request); err != nil {
		t.Error(err)
	}
	return len(request.Arguments)
}

// hasMore reports whether the recorded request has keys that the client does not know, in
// its context or beside it.
func hasMore(t *testing.T, seen, wrote []byte) bool {
	var a, b map[string]any
	if json.Unmarshal(seen, &a) != nil || json.Unmarshal(wrote, &b) != nil {
		t.Errorf("no JSON: %s, %s", seen, wrote)
	}
	inA, _ := a["context"].(map[string]any)
	inB, _ := b["context"].(map[string]any)
	return len(a) > len(b) || len(inA) > len(inB)
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		t.Errorf("no JSON: %s, %s", a, b)
	}
	return reflect.DeepEqual(x, y)
}

// checkRead compares what the client returned with the reply.
func checkRead(t *testing.T, exchange cpitest.Exchange, method string, got any, err error) {
	t.Helper()
	if exchange.Text != nil {
		var exit *cpi.ExitError
		if !errors.As(err, &exit) {
			t.Errorf("%s: got %v, %v", exchange.Name, got, err)
		}
		return
	}
	var reply cpi.Response
	if err := json.Unmarshal(exchange.Stdout, &reply); err != nil {
		t.Fatal(err)
	}
	var refused *cpi.Error
	var wrong *cpi.ResultError
	switch {
	case reply.Error != nil:
		if !errors.As(err, &refused) || refused.Type != reply.Error.Type || refused.Message != reply.Error.Message {
			t.Errorf("%s: got %v, want %+v", exchange.Name, err, reply.Error)
		}
	case method == "snapshot_disk" && string(reply.Result) == `""`: // a CPI without snapshots
		if !errors.As(err, &wrong) {
			t.Errorf("%s: got %v, %v", exchange.Name, got, err)
		}
	case err != nil:
		t.Errorf("%s: %v", exchange.Name, err)
	default:
		if want := expected(t, method, reply.Result); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, want %#v", exchange.Name, got, want)
		}
	}
}

// expected is a result as the client's methods return it.
func expected(t *testing.T, method string, result json.RawMessage) any {
	t.Helper()
	var want any
	if err := json.Unmarshal(result, &want); err != nil {
		t.Fatal(err)
	}
	switch method {
	case "info":
		formats := []string{}
		for _, format := range want.(map[string]any)["stemcell_formats"].([]any) {
			formats = append(formats, format.(string))
		}
		return cpi.Info{StemcellFormats: formats, APIVersion: int(want.(map[string]any)["api_version"].(float64))}
	case "create_vm":
		if list, ok := want.([]any); ok {
			return cpi.VMResult{CID: list[0].(string), Networks: list[1].(map[string]any)}
		}
		return cpi.VMResult{CID: want.(string)}
	case "get_disks":
		cids := []string{}
		for _, cid := range want.([]any) {
			cids = append(cids, cid.(string))
		}
		return cids
	case "create_stemcell", "create_disk", "has_vm", "has_disk", "attach_disk", "calculate_vm_cloud_properties", "snapshot_disk":
		return want
	}
	return nil // the method has no result, whatever the CPI returns
}

// drive calls the client's method with the recorded arguments. ok is false if the
// signature of the method does not allow them, or if the client has no such method.
func drive(ctx context.Context, c *cpi.Client, request sent) (got any, err error, ok bool) {
	var s1, s2 string
	var n int
	var props, env map[string]any
	var tags map[string]string
	var nets map[string]map[string]any
	var cids []string
	read := func(into ...any) bool {
		if len(into) > len(request.Arguments) {
			return false
		}
		for i := range into {
			if json.Unmarshal(request.Arguments[i], into[i]) != nil {
				return false
			}
		}
		return true
	}
	void := func(call func() error) {
		if err = call(); err == nil {
			got = nil
		}
	}
	switch request.Method {
	case "info":
		got, err = c.Info(ctx)
		return got, err, *request.APIVersion == 1
	case "create_stemcell":
		if ok = read(&s1, &props); ok {
			got, err = c.CreateStemcell(ctx, s1, props, nil)
		}
	case "create_vm":
		if ok = read(&s1, &s2, &props, &nets, &cids, &env); ok {
			got, err = c.CreateVM(ctx, cpi.VMRequest{AgentID: s1, StemcellCID: s2, CloudProperties: props, Networks: nets, DiskCIDs: cids, Env: env})
		}
	case "create_disk":
		if ok = read(&n, &props, &s1); ok {
			got, err = c.CreateDisk(ctx, n, props, s1)
		}
	case "calculate_vm_cloud_properties":
		if ok = read(&props); ok {
			got, err = c.VMProperties(ctx, props)
		}
	case "snapshot_disk":
		if ok = read(&s1, &tags); ok && s1 != "" {
			got, err = c.SnapshotDisk(ctx, s1, tags)
		}
	case "resize_disk":
		if ok = read(&s1, &n); ok {
			void(func() error { return c.ResizeDisk(ctx, s1, n) })
		}
	case "update_disk":
		if ok = read(&s1, &n, &props); ok {
			_, err = c.UpdateDisk(ctx, s1, n, props)
		}
	case "set_vm_metadata", "set_disk_metadata":
		if ok = read(&s1, &tags); ok {
			set := c.SetVMMetadata
			if request.Method == "set_disk_metadata" {
				set = c.SetDiskMetadata
			}
			void(func() error { return set(ctx, s1, tags) })
		}
	case "configure_networks":
		if ok = read(&s1, &nets); ok {
			void(func() error { _, err := c.Call(ctx, request.Method, s1, nets); return err })
		}
	case "attach_disk":
		if ok = read(&s1, &s2); ok {
			got, err = c.AttachDisk(ctx, s1, s2)
		}
	case "detach_disk":
		if ok = read(&s1, &s2); ok {
			void(func() error { return c.DetachDisk(ctx, s1, s2) })
		}
	default:
		return driveOne(ctx, c, request, read)
	}
	return got, err, ok && allowed(request.Arguments)
}

// driveOne calls the methods whose one argument is a CID.
func driveOne(ctx context.Context, c *cpi.Client, request sent, read func(...any) bool) (got any, err error, ok bool) {
	var cid string
	if ok = read(&cid) && allowed(request.Arguments); !ok {
		return nil, nil, false
	}
	switch request.Method {
	case "has_vm":
		got, err = c.HasVM(ctx, cid)
	case "has_disk":
		got, err = c.HasDisk(ctx, cid)
	case "get_disks":
		got, err = c.GetDisks(ctx, cid)
	case "delete_vm":
		err = c.DeleteVM(ctx, cid)
	case "delete_disk":
		err = c.DeleteDisk(ctx, cid)
	case "delete_stemcell":
		err = c.DeleteStemcell(ctx, cid)
	case "delete_snapshot":
		_, err = c.Call(ctx, request.Method, cid)
	case "reboot_vm":
		err = c.RebootVM(ctx, cid)
	default:
		return nil, nil, false
	}
	return got, err, true
}

// allowed reports whether all CIDs are nonempty, because the client refuses to send an
// empty CID.
func allowed(arguments []json.RawMessage) bool {
	for _, argument := range arguments {
		if text := string(argument); text == `""` {
			return false
		}
	}
	return len(arguments) > 0 && string(arguments[0]) != "null"
}
