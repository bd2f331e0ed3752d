//go:build !windows

package cpi

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/cpi"
	"bootstrap/cpi/cpitest"
)

// different lists the calls that this CPI answers differently from a recorded real one,
// with the reasons. rehearsal.missing compares the answers about missing objects.
func different() map[string]string {
	return map[string]string{
		"info, context a string":                          "an error of the request here; one CPI takes it for its configuration, the other ignores it",
		"info without context":                            "one CPI looks for its configuration there",
		"create_disk size 0":                              "one CPI makes such a disk",
		"resize_disk while attached":                      "refused here; the real ones do nothing",
		"snapshot_disk":                                   "works here; the real ones return an empty CID",
		"update_disk":                                     "works here",
		"get_disks, one attached":                         "names it here; the real ones name none",
		"delete_disk while attached":                      "refused here; one CPI deletes it",
		"attach_disk of a disk that is attached already":  "fine here; one CPI loses the VM over it",
		"create_vm with an IP in use":                     "loopback addresses are shared here",
		"create_vm with a dynamic network without name":   "networks need no name here",
		"create_vm with cloud_properties of another IaaS": "refused here with their names",
		"create_stemcell of a file that is no tarball":    "the image is not looked at here",
	}
}

// rehearsal sends the requests of a transcript to the embedded CPI. It replaces the CIDs
// of the real CPI by those of this one.
type rehearsal struct {
	*world
	cfg   string
	image string
	cids  map[string]string // CIDs of the real CPI to CIDs of this one
	live  map[string]bool   // existing objects, by CIDs of this one
}

func TestAgainstTranscripts(t *testing.T) {
	t.Parallel()
	for _, transcript := range cpitest.Transcripts(t) {
		t.Run(transcript.Name, func(t *testing.T) {
			t.Parallel()
			server := newRegistry(t)
			r := &rehearsal{world: newWorld(t, 2, server.configure), cids: map[string]string{}, live: map[string]bool{}}
			r.world.cfg["root"] = r.root
			text, err := json.Marshal(r.world.cfg)
			if err != nil {
				t.Fatal(err)
			}
			r.cfg, r.image = filepath.Join(r.jobs, "cpi.json"), filepath.Join(t.TempDir(), "image")
			write(t, r.cfg, text, 0o600)
			write(t, r.image, nil, 0o600)
			lastVM, judged := "", 0
			for _, exchange := range transcript.Exchanges {
				switch {
				case exchange.Settings != nil:
					r.settings(t, exchange, lastVM, server)
				case exchange.Text != nil || strings.Contains(exchange.Name, "is not there") || strings.Contains(exchange.Name, "configuration"):
					// These calls depend on the real CPI's own configuration or cloud.
				default:
					if vm := r.play(t, exchange); vm != "" {
						lastVM = vm
					}
					judged++
				}
			}
			if judged < 100 {
				t.Errorf("only %d exchanges were played", judged)
			}
			r.tidy(t)
			r.nothingLeft(t)
		})
	}
}

// cidArguments returns the kinds of the CIDs among a method's arguments.
func cidArguments(method string) []kind {
	switch method {
	case "has_vm", "delete_vm", "reboot_vm", "set_vm_metadata", "get_disks":
		return []kind{vms()}
	case "has_disk", "delete_disk", "resize_disk", "update_disk", "set_disk_metadata", "snapshot_disk":
		return []kind{disks()}
	case "attach_disk", "detach_disk":
		return []kind{vms(), disks()}
	case "delete_stemcell":
		return []kind{stemcells()}
	case "delete_snapshot":
		return []kind{snapshots()}
	}
	return nil
}

// play sends the request of one exchange and compares the reply. It returns the CID of a
// new VM.
func (r *rehearsal) play(t *testing.T, exchange cpitest.Exchange) (vm string) {
	t.Helper()
	request, method, missing := r.translate(t, exchange)
	reply := r.run(t, r.cfg, os.Args[0], request)
	var seen cpi.Response
	if err := json.Unmarshal(exchange.Stdout, &seen); err != nil {
		t.Fatal(err)
	}
	kindOf := func(reply cpi.Response) string {
		if reply.Error != nil {
			return reply.Error.Type
		}
		return shape(reply.Result)
	}
	got, want := kindOf(reply), kindOf(seen)
	switch {
	case missing != "":
		r.missing(t, exchange.Name, missing, got, want)
	case seen.Error != nil && strings.Contains(seen.Error.Message, "IP is already allocated") && reply.Error == nil:
		// The real CPI refused an address in use; VMs of this CPI share addresses.
	case got != want && !void(method, got, want) && different()[exchange.Name] == "":
		t.Errorf("%s: got %s %+v, was seen to be %s %+v\n%s", exchange.Name, got, reply.Error, want, seen.Error, request)
	}
	if strings.HasPrefix(method, "has_") && reply.Error == nil && string(reply.Result) != fmt.Sprint(missing == "") {
		t.Errorf("%s: %s, but missing is %q", exchange.Name, reply.Result, missing)
	}
	return r.record(method, request, reply, seen)
}

// missing compares the replies of a call about an object that does not exist. Real CPIs
// differ: they succeed, or report a CloudError.
func (r *rehearsal) missing(t *testing.T, name, kind, got, want string) {
	t.Helper()
	if got != kind && got != "bool" && got != cpi.TypeNotImplemented && got != cpi.TypeCloudError {
		t.Errorf("%s: got %s, want %s", name, got, kind)
	}
	if strings.HasPrefix(want, "Bosh::") && !slices.Contains([]string{kind, cpi.TypeCloudError, cpi.TypeNotSupported, cpi.TypeNotImplemented}, want) {
		t.Errorf("%s: a real CPI was seen to say %s", name, want)
	}
}

// void reports whether both replies are the success of a method without a result: null or
// an empty string.
func void(method, got, want string) bool {
	return method == "reboot_vm" && got == "null" && want == "empty string"
}

func shape(result json.RawMessage) string {
	var value any
	if err := json.Unmarshal(result, &value); err != nil {
		return "no JSON"
	}
	switch value := value.(type) {
	case string:
		if value == "" {
			return "empty string"
		}
		return "string"
	case bool:
		return "bool"
	case map[string]any:
		return "object"
	case []any:
		shapes := []string{}
		for _, one := range value {
			text, _ := json.Marshal(one)
			shapes = append(shapes, shape(text))
		}
		return "list of " + strings.Join(shapes, ", ")
	}
	return "null"
}

// translate changes the request for this CPI: it replaces CIDs and addresses, and removes
// cloud_properties of the other CPI. missing is the error type of the first CID that does
// not exist.
func (r *rehearsal) translate(t *testing.T, exchange cpitest.Exchange) (text, method, missing string) {
	t.Helper()
	if exchange.Stdin != nil {
		return *exchange.Stdin, "", ""
	}
	var request map[string]any
	if err := json.Unmarshal(exchange.Request, &request); err != nil {
		t.Fatal(err)
	}
	method, _ = request["method"].(string)
	args, _ := request["arguments"].([]any)
	own := func(i int, k kind) {
		if len(args) <= i {
			return
		}
		seen, _ := args[i].(string)
		if seen == "" {
			return
		}
		cid, found := r.cids[seen]
		if !found {
			cid = k.prefix + "0123456789abcdef"
		}
		if !r.live[cid] && missing == "" {
			missing = k.absent
		}
		args[i] = cid
	}
	for i, k := range cidArguments(method) {
		own(i, k)
	}
	switch {
	case method == "create_stemcell" && len(args) == 2 && strings.HasPrefix(args[0].(string), "<dir>"):
		args[0] = r.image
	case method == "create_vm" && len(args) == 6:
		own(1, stemcells())
		if !strings.Contains(exchange.Name, "cloud_properties") {
			args[2] = map[string]any{}
		}
		nets, _ := args[3].(map[string]any)
		for _, one := range nets {
			network := one.(map[string]any)
			network["cloud_properties"] = map[string]any{}
			if network["ip"] != nil {
				network["ip"] = "127.0.0.1"
			}
		}
		near, _ := args[4].([]any)
		for i := range near {
			near[i] = r.cids[near[i].(string)]
		}
	}
	out, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	// Missing arguments are checked before the objects that the others name.
	if len(args) < len(cidArguments(method)) || method == "set_vm_metadata" && len(args) < 2 {
		missing = ""
	}
	return string(out), method, missing
}

// record records which CIDs correspond, and which objects exist.
func (r *rehearsal) record(method, request string, reply, seen cpi.Response) (vm string) {
	if reply.Error != nil {
		return ""
	}
	if strings.HasPrefix(method, "create_") {
		own, real := first(reply.Result), first(seen.Result)
		r.live[own] = true
		if real != "" {
			r.cids[real] = own
		}
		if method == "create_vm" {
			return own
		}
	}
	if strings.HasPrefix(method, "delete_") {
		var gone struct {
			Arguments []string `json:"arguments"`
		}
		_ = json.Unmarshal([]byte(request), &gone)
		delete(r.live, gone.Arguments[0])
	}
	return ""
}

// first returns a CID, alone or as the first item of a list.
func first(result json.RawMessage) string {
	var cid string
	var list []json.RawMessage
	if json.Unmarshal(result, &list) == nil && len(list) > 0 {
		result = list[0]
	}
	_ = json.Unmarshal(result, &cid)
	return cid
}

// settings compares the agent's settings with those that a real CPI wrote: the
// keys must be the same, and the env unchanged.
func (r *rehearsal) settings(t *testing.T, exchange cpitest.Exchange, vm string, server *registryServer) {
	t.Helper()
	own := server.of(t, vm)
	if own == nil {
		own = get(t, r.file("vms", vm, settingsFile))
	}
	for key, seen := range exchange.Settings {
		text, err := json.Marshal(own[key])
		if _, ok := own[key]; !ok || err != nil {
			t.Errorf("%s: no %s", exchange.Name, key)
		}
		wants, _ := json.Marshal(seen)
		if shape(text) != shape(wants) {
			t.Errorf("%s: %s is %s, was seen to be %s", exchange.Name, key, shape(text), shape(wants))
		}
		if key == "env" && string(text) != string(wants) {
			t.Errorf("%s: env %s, was seen to be %s", exchange.Name, text, wants)
		}
	}
	network := own["networks"].(map[string]any)["default"].(map[string]any)
	for key := range exchange.Settings["networks"].(map[string]any)["default"].(map[string]any) {
		// Routes and MAC addresses are only used with virtual interfaces.
		if _, ok := network[key]; !ok && key != "routes" && key != "mac" {
			t.Errorf("%s: the network has no %s", exchange.Name, key)
		}
	}
}

// tidy deletes the objects that the transcript created and did not delete.
func (r *rehearsal) tidy(t *testing.T) {
	t.Helper()
	for _, k := range []kind{vms(), disks(), snapshots(), stemcells()} {
		entries, _ := os.ReadDir(r.file(k.folder))
		for _, entry := range entries {
			reply := r.run(t, r.cfg, os.Args[0], `{"method":"delete_`+strings.ToLower(k.name)+`","arguments":["`+entry.Name()+`"]}`)
			if reply.Error != nil {
				t.Errorf("%+v", reply.Error)
			}
		}
	}
}
