package cpi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"bootstrap/cpi"
)

// failure is an error with a type of the CPI's protocol.
type failure struct {
	kind    string
	message string
}

func (f *failure) Error() string { return f.message }

func fail(kind, format string, args ...any) error {
	return &failure{kind: kind, message: fmt.Sprintf(format, args...)}
}

// request is a cpi.Request that the CPI reads.
type request struct {
	cpi.Request
	Arguments []json.RawMessage `json:"arguments"`
}

// readRequest reads all of stdin. An invalid request has its own error type, as in other
// CPIs.
func readRequest(stdin io.Reader) (request, error) {
	var req request
	text, err := io.ReadAll(stdin)
	if err == nil {
		err = json.Unmarshal(text, &req)
	}
	switch {
	case err != nil:
		return request{}, fail(cpi.TypeCPIError, "cannot read the request: %v", err)
	case req.Method == "":
		return request{}, fail(cpi.TypeCPIError, "cannot read the request: it has no method")
	case req.Arguments == nil:
		return request{}, fail(cpi.TypeCPIError, "cannot read the request: it has no arguments")
	}
	return req, nil
}

// call is one call of the CPI.
type call struct {
	cfg  config
	self string // this program
	req  request
	root *root  // nil if the method does not use it
	left error  // why the rest of killed calls could not be removed
	log  string // lines for the log of the caller
}

// Run answers the call on stdin, with the configuration at configPath. It returns the
// exit status: 0 if it wrote a reply to stdout, which may be an error. New VMs run "self
// plugin agent DIR". It writes one line, without secrets, to stderr.
func Run(ctx context.Context, configPath string, self string, stdin io.Reader, stdout, stderr io.Writer) int {
	began := time.Now()
	var result any
	var left error
	var log string
	req, err := readRequest(stdin)
	if err == nil {
		c := &call{self: self, req: req}
		if c.cfg, err = readConfig(configPath); err == nil {
			result, err = c.dispatch(ctx)
			left, log = c.left, c.log
		}
	}
	if left != nil {
		fmt.Fprintf(stderr, "local CPI: %s\n", strings.ReplaceAll(left.Error(), "\n", "; "))
	}
	reply, line := respond(result, err)
	fmt.Fprintf(stderr, "local CPI: %s: %s (%s)\n", req.Method, strings.ReplaceAll(line, "\n", " "), time.Since(began).Round(time.Millisecond))
	reply.Log = log
	text, err := json.Marshal(reply)
	if err == nil {
		_, err = stdout.Write(append(text, '\n'))
	}
	if err != nil {
		fmt.Fprintf(stderr, "local CPI: cannot write the reply: %v\n", err)
		return 1
	}
	return 0
}

// respond returns the reply and the line for the log.
func respond(result any, err error) (cpi.Response, string) {
	var text json.RawMessage
	if err == nil {
		text, err = json.Marshal(result)
	}
	if err == nil {
		return cpi.Response{Result: text}, summary(result)
	}
	refused := &cpi.ResponseError{Type: cpi.TypeCloudError, Message: err.Error()}
	var known *failure
	if errors.As(err, &known) {
		refused.Type = known.kind
	}
	return cpi.Response{Result: json.RawMessage("null"), Error: refused}, refused.Type + ": " + refused.Message
}

// summary returns the CID or boolean of a result, for the log.
func summary(result any) string {
	switch value := result.(type) {
	case string, bool, []string:
		return fmt.Sprint(value)
	case []any:
		if len(value) > 0 {
			return fmt.Sprint(value[0])
		}
	}
	return "done"
}

// dispatch runs the method, under the lock of the root folder if it needs one.
func (c *call) dispatch(ctx context.Context) (any, error) {
	if c.req.APIVersion > c.cfg.APIVersion {
		return nil, fail(cpi.TypeNotImplemented, "cannot use CPI API version %d: %d is the highest", c.req.APIVersion, c.cfg.APIVersion)
	}
	switch c.req.Method {
	case "info":
		return c.info()
	case "calculate_vm_cloud_properties":
		return c.calculate()
	}
	method := c.method()
	if method == nil {
		return nil, fail(cpi.TypeNotImplemented, "cannot call %s: this CPI has no such method", c.req.Method)
	}
	root, err := openRoot(ctx, c.cfg.Root, c.self)
	if err != nil {
		return nil, err
	}
	defer root.close()
	c.left = root.sweep(ctx)
	c.root = root
	if c.req.Method != "delete_vm" && c.req.Method != "reboot_vm" {
		if err := c.reconnect(ctx); err != nil {
			return nil, err
		}
	}
	return method(c, ctx)
}

// methods has the methods that need the root folder.
var methods = map[string]func(*call, context.Context) (any, error){
	"create_stemcell":     (*call).createStemcell,
	"delete_stemcell":     (*call).deleteStemcell,
	cpi.HasStemcellMethod: (*call).hasStemcell,
	"create_vm":           (*call).createVM,
	"delete_vm":           (*call).deleteVM,
	"has_vm":              (*call).hasVM,
	"reboot_vm":           (*call).rebootVM,
	"set_vm_metadata":     (*call).setVMMetadata,
	"get_disks":           (*call).getDisks,
	"create_disk":         (*call).createDisk,
	"delete_disk":         (*call).deleteDisk,
	"has_disk":            (*call).hasDisk,
	"attach_disk":         (*call).attachDisk,
	"detach_disk":         (*call).detachDisk,
	"resize_disk":         (*call).resizeDisk,
	"update_disk":         (*call).updateDisk,
	"set_disk_metadata":   (*call).setDiskMetadata,
	"snapshot_disk":       (*call).snapshotDisk,
	"delete_snapshot":     (*call).deleteSnapshot,
}

// method returns the method of the request; nil: it is unknown.
func (c *call) method() func(*call, context.Context) (any, error) {
	if c.req.Method == "update_disk" && c.req.APIVersion < 2 {
		return nil
	}
	return methods[c.req.Method]
}

// cidArg is an argument with a CID, which must not be empty.
type cidArg string

func (c *cidArg) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return err
	}
	if name == "" {
		return errors.New("it must not be empty")
	}
	*c = cidArg(name)
	return nil
}

// args decodes the call's arguments. Surplus ones are ignored, as in other CPIs.
func (c *call) args(into ...any) error {
	if n := len(c.req.Arguments); n < len(into) {
		return fail(cpi.TypeCloudError, "cannot call %s with %d arguments: it needs %d", c.req.Method, n, len(into))
	}
	for i := range into {
		if err := json.Unmarshal(c.req.Arguments[i], into[i]); err != nil {
			return fail(cpi.TypeCloudError, "cannot call %s: argument %d: %v", c.req.Method, i+1, err)
		}
	}
	return nil
}

func (c *call) info() (any, error) {
	return cpi.Info{StemcellFormats: []string{"local", "warden-tar"}, APIVersion: c.cfg.APIVersion, Extensions: []string{cpi.HasStemcellMethod, cpi.DiskFromSnapshot}}, nil
}
