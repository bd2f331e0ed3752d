package cpi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"bootstrap/internal/printable"
)

// decodeReply reads the one JSON value that the standard output must contain. If a CPI
// was killed at its deadline but had written a result, its call counts as successful.
func decodeReply(method string, out output, redact func(string) string) (Response, error) {
	late := func() error {
		return &TimeoutError{Method: method, After: out.timeout, Stderr: lastLines(redact(out.stderr))}
	}
	if len(bytes.TrimSpace(out.stdout)) == 0 {
		switch {
		case out.timeout > 0:
			return Response{}, late()
		case out.status != "":
			return Response{}, &ExitError{Method: method, Status: out.status, Stderr: lastLines(redact(out.stderr))}
		}
		return Response{}, &GarbageError{Method: method, Reason: "its standard output is empty"}
	}
	reply, err := parseReply(out.stdout)
	switch {
	case err == nil && (out.timeout == 0 || reply.Error == nil):
		return reply, nil
	case out.timeout > 0:
		return Response{}, late()
	case out.status != "" && len(out.stdout) <= maxStdout:
		both := redact(out.stderr + "\n" + string(out.stdout))
		return Response{}, &ExitError{Method: method, Status: out.status, Stderr: lastLines(both)}
	}
	head := firstLines(redact(string(out.stdout[:min(len(out.stdout), 1<<20)])))
	return Response{}, &GarbageError{Method: method, Reason: err.Error(), Head: head}
}

func parseReply(stdout []byte) (Response, error) {
	var reply Response
	if len(stdout) > maxStdout {
		return reply, fmt.Errorf("it is longer than %d MiB", maxStdout>>20)
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(stdout, []byte("\xEF\xBB\xBF")))
	if len(text) == 0 || text[0] != '{' {
		return reply, fmt.Errorf("it is not a JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&reply); err != nil {
		return reply, fmt.Errorf("it is not a reply in JSON: %s", misfit(err))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return reply, fmt.Errorf("something follows the JSON object")
	}
	return reply, nil
}

// misfit rewords an error of encoding/json without the types of Go.
func misfit(err error) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err.Error()
	}
	value, _, _ := strings.Cut(kind.Value, " ")
	field := kind.Field
	if field == "" {
		field = "the reply"
	}
	return fmt.Sprintf("%s is of another kind (%s) than in the protocol", field, value)
}

// wrong is the error for a result of the wrong type.
func (c *Client) wrong(method, want string, result json.RawMessage) error {
	got := "nothing"
	if len(result) > 0 {
		got = shorten(printable.Text(c.cfg.Redact(string(result))), 300)
	}
	return &ResultError{Method: method, Want: want, Got: got}
}

// wrongCID is the error for a result with an invalid CID.
func (c *Client) wrongCID(method, want string, result json.RawMessage, why error) error {
	err := c.wrong(method, want, result)
	if bad, ok := err.(*ResultError); ok && why != nil {
		bad.Got += " (" + why.Error() + ")"
	}
	return err
}

func isNull(result json.RawMessage) bool {
	return len(result) == 0 || string(result) == "null"
}

func (c *Client) decodeInfo(result json.RawMessage) (Info, error) {
	var wire struct {
		StemcellFormats any `json:"stemcell_formats"`
		APIVersion      any `json:"api_version"`
		Extensions      any `json:"extensions"` // its type is any, because another CPI may use that name for something else
	}
	if isNull(result) || json.Unmarshal(result, &wire) != nil {
		return Info{}, c.wrong("info", `an object with "stemcell_formats" and "api_version"`, result)
	}
	version, _ := wire.APIVersion.(float64)
	return Info{
		StemcellFormats: textsIn(wire.StemcellFormats), Extensions: textsIn(wire.Extensions),
		APIVersion: int(min(max(version, 1), MaxAPIVersion)),
	}, nil
}

// textsIn returns the texts of a list. It leaves out values of other types, which a later
// version of the protocol may use.
func textsIn(value any) []string {
	list, _ := value.([]any)
	var texts []string
	for _, item := range list {
		if text, ok := item.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// decodeCID reads a valid CID.
func (c *Client) decodeCID(method string, result json.RawMessage) (string, error) {
	cid, err := parseCID(result)
	if err != nil {
		return "", c.wrongCID(method, "a CID", result, err)
	}
	return cid, nil
}

func parseCID(result json.RawMessage) (string, error) {
	var cid string
	if isNull(result) || json.Unmarshal(result, &cid) != nil {
		return "", errors.New("it is not a string")
	}
	return cid, CheckCID(cid)
}

// decodeNewCID reads the CID of the disk that replaces another one. The CID is empty if
// the disk is the same; some CPIs return true in this case.
func (c *Client) decodeNewCID(method string, result json.RawMessage) (string, error) {
	if isNull(result) || string(result) == `""` || string(result) == "true" {
		return "", nil
	}
	return c.decodeCID(method, result)
}

// decodeVM reads the result of create_vm: the CID (v1), or the CID and the
// networks (v2). It accepts both in both versions, because an error here would
// lose the CID of an existing VM.
func (c *Client) decodeVM(method string, result json.RawMessage) (VMResult, error) {
	var list []json.RawMessage
	if isNull(result) || json.Unmarshal(result, &list) != nil {
		cid, err := c.decodeCID(method, result)
		return VMResult{CID: cid}, err
	}
	const want = "a list of the VM's CID and its networks"
	if len(list) == 0 {
		return VMResult{}, c.wrong(method, want, result)
	}
	cid, err := parseCID(list[0])
	if err != nil {
		return VMResult{}, c.wrongCID(method, want, result, fmt.Errorf("the CID: %w", err))
	}
	vm := VMResult{CID: cid}
	if len(list) > 1 {
		// Networks of another type are ignored: the VM exists anyway.
		_ = json.Unmarshal(list[1], &vm.Networks)
	}
	if len(list) > 2 {
		vm.Notes = c.decodeNotes(list[2])
	}
	return vm, nil
}

// maxNotes is the largest number of notes of a VM that are read.
const maxNotes = 10

// decodeNotes reads the lines for people in a third part of the result of create_vm. It
// ignores a part of another form: the VM exists anyway.
func (c *Client) decodeNotes(part json.RawMessage) (notes []string) {
	var wire struct {
		Notes any `json:"notes"`
	}
	if json.Unmarshal(part, &wire) != nil {
		return nil
	}
	for _, text := range textsIn(wire.Notes) {
		if len(notes) < maxNotes {
			notes = append(notes, shorten(printable.Text(c.cfg.Redact(text)), 300))
		}
	}
	return notes
}

func (c *Client) decodeBool(method string, result json.RawMessage) (bool, error) {
	var yes bool
	if isNull(result) || json.Unmarshal(result, &yes) != nil {
		return false, c.wrong(method, "true or false", result)
	}
	return yes, nil
}

// maxHint is the length of the longest disk hint, in bytes: it becomes part of
// a message and of the agent's settings.
const maxHint = 64 << 10

// decodeHint reads a disk hint: a string, an object or null.
func (c *Client) decodeHint(method string, result json.RawMessage) (any, error) {
	if isNull(result) {
		return nil, nil
	}
	if len(result) > maxHint {
		return nil, c.wrong(method, fmt.Sprintf("a disk hint of at most %d KiB", maxHint>>10), result)
	}
	var hint any
	if err := json.Unmarshal(result, &hint); err == nil {
		switch hint.(type) {
		case string, map[string]any:
			return hint, nil
		}
	}
	return nil, c.wrong(method, "a disk hint, as string or object", result)
}

func (c *Client) decodeCIDs(method string, result json.RawMessage) ([]string, error) {
	var cids []string
	if json.Unmarshal(result, &cids) != nil {
		return nil, c.wrong(method, "a list of CIDs", result)
	}
	for i, cid := range cids {
		if err := CheckCID(cid); err != nil {
			return nil, c.wrongCID(method, "a list of CIDs", result, fmt.Errorf("number %d: %w", i+1, err))
		}
	}
	return cids, nil
}
