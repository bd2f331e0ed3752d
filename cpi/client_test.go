package cpi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"bootstrap/internal/programtest"
)

// TestMain also plays the program that dies during a call: see
// TestReplyOutlivesCaller.
func TestMain(m *testing.M) {
	if file := os.Getenv("TEST_CPI_CALLER"); file != "" {
		c := New(Config{Path: os.Getenv("TEST_CPI"), Env: os.Environ()})
		_, _ = c.Recorded(file).CreateDisk(context.Background(), 1, nil, "")
		return
	}
	dir, err := os.MkdirTemp("", "cpi-test-")
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("TMPDIR", dir)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if left, _ := filepath.Glob(filepath.Join(dir, "bootstrap-*")); len(left) > 0 {
			fmt.Fprintln(os.Stderr, "left behind:", left)
			status = 1
		}
		_ = os.RemoveAll(dir)
		os.Exit(status)
	}))
}

const infoV2 = `{"result":{"stemcell_formats":["x"],"api_version":2},"error":null,"log":""}`

// program writes a CPI as a bash script. $request contains the standard input.
// The script answers info itself, unless the body is the whole script.
func program(t *testing.T, info, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cpi")
	text := "#!/bin/bash\nrequest=$(cat)\ncd \"${0%/*}\"\n" +
		"if [[ $request == *'\"method\":\"info\"'* ]]; then echo x >>infos; cat <<'END'\n" + info + "\nEND\nexit; fi\n" +
		"printf '%s\\n' \"$request\" >>requests\n" + body + "\n"
	programtest.Write(t, path, text)
	return path
}

// reply returns the body of a program that prints one reply.
func reply(text string) string { return "cat <<'END'\n" + text + "\nEND" }

func client(path string) *Client {
	return New(Config{Path: path, Env: []string{"PATH=" + os.Getenv("PATH")}, DirectorID: "d"})
}

func lines(t *testing.T, path, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

type result struct {
	value any
	err   error
}

func one(err error) result              { return result{nil, err} }
func two(value any, err error) result   { return result{value, err} }
func list(v []string, err error) result { return result{v, err} }

// every contains a call of each method, with the arguments that the method should send.
func every() map[string]struct {
	call func(context.Context, *Client) result
	args string
	give string // result
	want any
} {
	type ctx = context.Context
	networks := map[string]map[string]any{"default": {"type": "dynamic"}}
	meta := map[string]string{"a": "b"}
	return map[string]struct {
		call func(context.Context, *Client) result
		args string
		give string
		want any
	}{
		"create_stemcell": {func(x ctx, c *Client) result {
			return two(c.CreateStemcell(x, "/i", map[string]any{"k": 1}, map[string]string{"t": "x"}))
		}, `["/i",{"k":1}]`, `"sc"`, "sc"},
		"delete_stemcell": {func(x ctx, c *Client) result { return one(c.DeleteStemcell(x, "sc")) }, `["sc"]`, `null`, nil},
		"create_vm": {func(x ctx, c *Client) result {
			return two(c.CreateVM(x, VMRequest{AgentID: "a", StemcellCID: "sc", Networks: networks, Env: map[string]any{"bosh": nil}}))
		}, `["a","sc",{},{"default":{"type":"dynamic"}},[],{"bosh":null}]`, `["vm",{"default":{"ip":"1.2.3.4"}}]`,
			VMResult{CID: "vm", Networks: map[string]any{"default": map[string]any{"ip": "1.2.3.4"}}}},
		"has_vm":          {func(x ctx, c *Client) result { return two(c.HasVM(x, "vm")) }, `["vm"]`, `true`, true},
		"delete_vm":       {func(x ctx, c *Client) result { return one(c.DeleteVM(x, "vm")) }, `["vm"]`, `null`, nil},
		"reboot_vm":       {func(x ctx, c *Client) result { return one(c.RebootVM(x, "vm")) }, `["vm"]`, `""`, nil},
		"set_vm_metadata": {func(x ctx, c *Client) result { return one(c.SetVMMetadata(x, "vm", meta)) }, `["vm",{"a":"b"}]`, `null`, nil},
		"calculate_vm_cloud_properties": {func(x ctx, c *Client) result {
			return two(c.VMProperties(x, map[string]any{"cpu": 1}))
		}, `[{"cpu":1}]`, `{"size":"big"}`, map[string]any{"size": "big"}},
		"create_disk":       {func(x ctx, c *Client) result { return two(c.CreateDisk(x, 512, nil, "vm")) }, `[512,{},"vm"]`, `"disk"`, "disk"},
		"has_disk":          {func(x ctx, c *Client) result { return two(c.HasDisk(x, "disk")) }, `["disk"]`, `false`, false},
		"delete_disk":       {func(x ctx, c *Client) result { return one(c.DeleteDisk(x, "disk")) }, `["disk"]`, `null`, nil},
		"attach_disk":       {func(x ctx, c *Client) result { return two(c.AttachDisk(x, "vm", "disk")) }, `["vm","disk"]`, `{"path":"/dev/sdb"}`, map[string]any{"path": "/dev/sdb"}},
		"detach_disk":       {func(x ctx, c *Client) result { return one(c.DetachDisk(x, "vm", "disk")) }, `["vm","disk"]`, `true`, nil},
		"set_disk_metadata": {func(x ctx, c *Client) result { return one(c.SetDiskMetadata(x, "disk", nil)) }, `["disk",{}]`, `null`, nil},
		"get_disks":         {func(x ctx, c *Client) result { return list(c.GetDisks(x, "vm")) }, `["vm"]`, `["d1","d2"]`, []string{"d1", "d2"}},
		"resize_disk":       {func(x ctx, c *Client) result { return one(c.ResizeDisk(x, "disk", 9)) }, `["disk",9]`, `null`, nil},
		"update_disk":       {func(x ctx, c *Client) result { return two(c.UpdateDisk(x, "disk", 9, nil)) }, `["disk",9,{}]`, `"other"`, "other"},
		"snapshot_disk":     {func(x ctx, c *Client) result { return two(c.SnapshotDisk(x, "disk", meta)) }, `["disk",{"a":"b"}]`, `"snap"`, "snap"},
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	for method, tt := range every() {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			path := program(t, infoV2, reply(`{"result":`+tt.give+`,"error":null,"log":""}`))
			c := client(path)
			c.cfg.StemcellAPI = 3
			got := tt.call(t.Context(), c)
			if got.err != nil || !reflect.DeepEqual(got.value, tt.want) {
				t.Errorf("got %#v, %v; want %#v", got.value, got.err, tt.want)
			}
			want := `{"method":"` + method + `","arguments":` + tt.args + `,"context":{"director_uuid":"d","vm":{"stemcell":{"api_version":3}}},"api_version":2}`
			if sent := lines(t, path, "requests"); len(sent) != 1 || sent[0] != want {
				t.Errorf("sent %s\nwant %s", sent, want)
			}
		})
	}
}

// With API v3, create_stemcell gets tags; all else is as with v2.
func TestVersionThree(t *testing.T) {
	t.Parallel()
	infoV3 := `{"result":{"stemcell_formats":["x"],"api_version":3},"error":null,"log":""}`
	path := program(t, infoV3, reply(`{"result":"sc","error":null,"log":""}`))
	c := client(path)
	for _, tags := range []map[string]string{{"owner": "o"}, nil} {
		if cid, err := c.CreateStemcell(t.Context(), "/i", nil, tags); cid != "sc" || err != nil {
			t.Fatalf("%q, %v", cid, err)
		}
	}
	want := []string{
		`{"method":"create_stemcell","arguments":["/i",{},{"tags":{"owner":"o"}}],"context":{"director_uuid":"d"},"api_version":3}`,
		`{"method":"create_stemcell","arguments":["/i",{},{"tags":{}}],"context":{"director_uuid":"d"},"api_version":3}`,
	}
	if sent := lines(t, path, "requests"); !reflect.DeepEqual(sent, want) {
		t.Errorf("sent %s\nwant %s", sent, want)
	}
}

func TestVersionOne(t *testing.T) {
	t.Parallel()
	for name, info := range map[string]string{
		"no version":      `{"result":{"stemcell_formats":["x"]},"error":null,"log":""}`,
		"not implemented": `{"result":null,"error":{"type":"Bosh::Clouds::NotImplemented","message":"no","ok_to_retry":false},"log":""}`,
		"old ruby":        `{"result":null,"error":{"type":"Bosh::Clouds::CloudError","message":"Invalid Method: info","ok_to_retry":false},"log":""}`,
		"old go":          `{"result":null,"error":{"type":"InvalidCall","message":"Method is not known, got info","ok_to_retry":false},"log":""}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := program(t, info, `case $request in *create_vm*) echo '{"result":"vm"}';; *) echo '{"result":null}';; esac`)
			c := client(path)
			vm, err := c.CreateVM(t.Context(), VMRequest{AgentID: "a", StemcellCID: "s"})
			if err != nil || vm.CID != "vm" {
				t.Errorf("create_vm: %v, %v", vm, err)
			}
			if hint, err := c.AttachDisk(t.Context(), "vm", "d"); hint != nil || err != nil {
				t.Errorf("attach_disk: %v, %v", hint, err)
			}
			want := `{"method":"attach_disk","arguments":["vm","d"],"context":{"director_uuid":"d"},"api_version":1}`
			if sent := lines(t, path, "requests"); len(sent) != 2 || sent[1] != want {
				t.Errorf("sent %s", sent)
			}
			if asked := lines(t, path, "infos"); len(asked) != 1 {
				t.Errorf("info was asked %d times", len(asked))
			}
		})
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		result string
		want   int // 0: an error
	}{
		{`{"stemcell_formats":["a"],"api_version":1}`, 1},
		{`{"stemcell_formats":["a"],"api_version":2}`, 2},
		{`{"stemcell_formats":["a"],"api_version":3}`, 3},
		{`{"stemcell_formats":["a"],"api_version":4}`, 3},
		{`{"stemcell_formats":["a"],"api_version":1e300}`, 3},
		{`{"stemcell_formats":["a"],"api_version":null}`, 1},
		{`{"stemcell_formats":[],"api_version":0}`, 1},
		{`{}`, 1},
		{`{"stemcell_formats":["a"],"api_version":"2"}`, 1},
		{`{"stemcell_formats":["a"],"api_version":-1}`, 1},
		{`{"stemcell_formats":[1,"a"],"api_version":2}`, 2},
		{`{"stemcell_formats":"a","api_version":2,"more":{}}`, 2},
		{`null`, 0},
		{`[]`, 0},
	} {
		t.Run(tt.result, func(t *testing.T) {
			t.Parallel()
			c := client(program(t, `{"result":`+tt.result+`}`, ""))
			info, err := c.Info(t.Context())
			if tt.want == 0 {
				var wrong *ResultError
				if !errors.As(err, &wrong) || wrong.Method != "info" {
					t.Errorf("got %v, %v", info, err)
				}
			} else if err != nil || info.APIVersion != tt.want {
				t.Errorf("got %v, %v; want version %d", info, err, tt.want)
			}
		})
	}
}

func TestInfoIsAskedOnce(t *testing.T) {
	t.Parallel()
	path := program(t, infoV2, reply(`{"result":true}`))
	c := client(path)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if yes, err := c.HasVM(t.Context(), "vm"); !yes || err != nil {
				t.Error(yes, err)
			}
		})
	}
	all.Wait()
	if asked := lines(t, path, "infos"); len(asked) != 1 {
		t.Errorf("info was asked %d times", len(asked))
	}
}

func TestReplies(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, tt := range map[string]struct {
		body string
		want error // of other errors only the type is compared, and of an *Error the fields that are given here
		text string
	}{
		"CPI error":               {reply(`{"result":null,"error":{"type":"Bosh::Clouds::CloudError","message":"no hunter2 left","ok_to_retry":false}}`), &Error{Type: TypeCloudError}, "no <redacted> left"},
		"error wins over result":  {reply(`{"result":"vm","error":{"type":"T","message":"m"}}`), &Error{Type: "T"}, "m"},
		"error wins over status":  {reply(`{"result":null,"error":{"type":"Bosh::Clouds::VMNotFound","message":"m"}}`) + "\nexit 7", &Error{Type: TypeVMNotFound}, "m"},
		"empty error":             {reply(`{"error":{}}`), &Error{}, "the CPI refuses create_vm"},
		"nothing":                 {"", &GarbageError{}, "standard output is empty"},
		"nothing, status":         {"echo hunter2 is wrong >&2; exit 3", &ExitError{}, "exit status 3; its last lines:\n<redacted> is wrong"},
		"killed":                  {"kill -9 $$", &ExitError{}, "signal: killed and said nothing"},
		"text, status":            {"echo bash: no ruby; exit 127", &ExitError{}, "bash: no ruby"},
		"text":                    {"echo hello hunter2; echo more", &GarbageError{}, "hello <redacted>\nmore"},
		"text before":             {"echo starting; " + reply(`{"result":"vm"}`), &GarbageError{}, "starting"},
		"text after":              {reply(`{"result":"vm"}`) + "\necho done", &GarbageError{}, "something follows"},
		"two replies":             {reply(`{"result":"vm"} {"result":"vm"}`), &GarbageError{}, "something follows"},
		"half a reply":            {`printf '{"result":"v'`, &GarbageError{}, "unexpected EOF"},
		"a list":                  {reply(`["vm"]`), &GarbageError{}, "not a JSON object"},
		"null":                    {reply(`null`), &GarbageError{}, "not a JSON object"},
		"error is a string":       {reply(`{"error":"boom"}`), &GarbageError{}, "boom"},
		"binary":                  {`printf '\x00\x01\x1b[31m\xff'`, &GarbageError{}, "it begins:\n\uFFFD"},
		"too long":                {"yes | head -c 34000000", &GarbageError{}, "longer than 32 MiB"},
		"no result":               {reply(`{}`), &ResultError{}, "got nothing"},
		"null result":             {reply(`{"result":null}`), &ResultError{}, "got null"},
		"empty CID":               {reply(`{"result":""}`), &ResultError{}, `got ""`},
		"empty list":              {reply(`{"result":[]}`), &ResultError{}, "got []"},
		"list of number":          {reply(`{"result":[5,{}]}`), &ResultError{}, "got [5,{}]"},
		"list of empty CID":       {reply(`{"result":["",{}]}`), &ResultError{}, `got ["",{}]`},
		"number":                  {reply(`{"result":7}`), &ResultError{}, "got 7"},
		"object with a secret":    {reply(`{"result":{"cid":"hunter2"}}`), &ResultError{}, "<redacted>"},
		"CID alone":               {reply(`{"result":"vm"}`), nil, ""},
		"CID in a list":           {reply(`{"result":["vm"]}`), nil, ""},
		"networks null":           {reply(`{"result":["vm",null]}`), nil, ""},
		"networks of no use":      {reply(`{"result":["vm",7]}`), nil, ""},
		"result wins over status": {reply(`{"result":["vm",{}],"error":null}`) + "\nexit 7", nil, ""},
		"byte order mark":         {`printf '\xef\xbb\xbf{"result":"vm"}\r\n'`, nil, ""},
		"much on standard error":  {"yes noise | head -c 6000000 >&2; " + reply(`{"result":"vm"}`), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(program(t, infoV2, tt.body))
			c.cfg.Redact = func(text string) string { return strings.ReplaceAll(text, "hunter2", "<redacted>") }
			vm, err := c.CreateVM(t.Context(), VMRequest{AgentID: "a", StemcellCID: "s"})
			if tt.want == nil {
				if err != nil || vm.CID != "vm" {
					t.Fatalf("got %v, %v", vm, err)
				}
				return
			}
			if reflect.TypeOf(err) != reflect.TypeOf(tt.want) {
				t.Fatalf("got %T %v, want %T", err, err, tt.want)
			}
			if want, ok := tt.want.(*Error); ok && err.(*Error).Type != want.Type {
				t.Errorf("type %q, want %q", err.(*Error).Type, want.Type)
			}
			if text := err.Error(); !strings.Contains(text, tt.text) || !strings.Contains(text, "create_vm") || strings.Contains(text, secret) {
				t.Errorf("message: %s\nwants: %s", text, tt.text)
			}
		})
	}
}

func TestWrongResults(t *testing.T) {
	t.Parallel()
	wrong := map[string][]string{
		"create_stemcell": {`null`, `""`, `[]`, `{}`, `1`},
		"create_disk":     {`null`, `""`, `["d"]`, `true`},
		"snapshot_disk":   {`null`, `""`, `{}`},
		"has_vm":          {`null`, `"true"`, `1`, `[]`},
		"has_disk":        {`null`, `"x"`},
		"attach_disk":     {`true`, `1`, `[]`},
		"get_disks":       {`"d"`, `{}`, `[1]`, `[""]`, `true`},
		"update_disk":     {`1`, `[]`, `{}`},
	}
	calls := every()
	for method, results := range wrong {
		for _, give := range results {
			t.Run(method+give, func(t *testing.T) {
				t.Parallel()
				c := client(program(t, infoV2, reply(`{"result":`+give+`}`)))
				got := calls[method].call(t.Context(), c)
				var wrong *ResultError
				if !errors.As(got.err, &wrong) || wrong.Method != method {
					t.Errorf("got %v, %v", got.value, got.err)
				}
			})
		}
	}
	for method, give := range map[string]string{"update_disk": "null", "get_disks": "null", "attach_disk": "null"} {
		c := client(program(t, infoV2, reply(`{"result":`+give+`}`)))
		if got := calls[method].call(t.Context(), c); got.err != nil {
			t.Errorf("%s: %v", method, got.err)
		}
	}
}

func TestEmptyCIDsReachNoCPI(t *testing.T) {
	t.Parallel()
	path := program(t, infoV2, reply(`{"result":null}`))
	c, ctx := client(path), t.Context()
	for name, got := range map[string]result{
		"delete_stemcell": one(c.DeleteStemcell(ctx, "")),
		"create_vm agent": two(c.CreateVM(ctx, VMRequest{StemcellCID: "s"})),
		"create_vm":       two(c.CreateVM(ctx, VMRequest{AgentID: "a"})),
		"create_vm disk":  two(c.CreateVM(ctx, VMRequest{AgentID: "a", StemcellCID: "s", DiskCIDs: []string{"d", ""}})),
		"has_vm":          two(c.HasVM(ctx, "")),
		"delete_vm":       one(c.DeleteVM(ctx, "")),
		"reboot_vm":       one(c.RebootVM(ctx, "")),
		"metadata":        one(c.SetVMMetadata(ctx, "", nil)),
		"has_disk":        two(c.HasDisk(ctx, "")),
		"delete_disk":     one(c.DeleteDisk(ctx, "")),
		"attach vm":       two(c.AttachDisk(ctx, "", "d")),
		"attach disk":     two(c.AttachDisk(ctx, "v", "")),
		"detach vm":       one(c.DetachDisk(ctx, "", "d")),
		"detach disk":     one(c.DetachDisk(ctx, "v", "")),
		"disk metadata":   one(c.SetDiskMetadata(ctx, "", nil)),
		"get_disks":       list(c.GetDisks(ctx, "")),
		"resize":          one(c.ResizeDisk(ctx, "", 1)),
		"update":          two(c.UpdateDisk(ctx, "", 1, nil)),
		"snapshot":        two(c.SnapshotDisk(ctx, "", nil)),
	} {
		var notStarted *StartError
		if !errors.As(got.err, &notStarted) || !strings.Contains(got.err.Error(), "blank") {
			t.Errorf("%s: %v", name, got.err)
		}
	}
	if sent := lines(t, path, "requests"); len(sent) != 0 {
		t.Errorf("the CPI got %s", sent)
	}
}

// The clock of the bubble moves only while all goroutines wait for timers. So pauses take
// no time, and real processes may take the time that they need.
func TestRetry(t *testing.T) {
	t.Parallel()
	refused := `{"error":{"type":"T","message":"busy","ok_to_retry":true}}`
	for _, tt := range []struct {
		succeedAt, calls int
		pause            time.Duration
	}{
		{1, 1, 0},
		{3, 3, 3 * time.Second},
		{6, 6, 31 * time.Second},
		{99, 6, 31 * time.Second},
	} {
		t.Run(fmt.Sprint(tt.succeedAt), func(t *testing.T) {
			t.Parallel()
			path := program(t, infoV2, fmt.Sprintf("if (( $(wc -l <requests) < %d )); then\n%s\nelse\n%s\nfi", tt.succeedAt, reply(refused), reply(`{"result":"disk"}`)))
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				_, err := client(path).CreateDisk(t.Context(), 1, nil, "")
				var e *Error
				if failed := errors.As(err, &e); failed != (tt.succeedAt > 6) || failed && e.Tries != 6 {
					t.Errorf("got %v", err)
				}
				if pause := time.Since(began); pause != tt.pause {
					t.Errorf("paused %s, want %s", pause, tt.pause)
				}
			})
			if sent := lines(t, path, "requests"); len(sent) != tt.calls {
				t.Errorf("%d calls, want %d", len(sent), tt.calls)
			}
		})
	}
}

func TestRetryEndsWithContext(t *testing.T) {
	t.Parallel()
	path := program(t, infoV2, reply(`{"error":{"type":"T","message":"busy","ok_to_retry":true}}`))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := client(path).CreateDisk(ctx, 1, nil, "")
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	if sent := lines(t, path, "requests"); len(sent) != 2 {
		t.Errorf("%d calls, want 2", len(sent))
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	path := program(t, infoV2, "printf 'one\\r\\nBEGIN\\nhunter2\\nEND\\n' >&2\n"+reply(`{"result":true,"log":"three\nfour hunter2"}`))
	c := client(path)
	var log bytes.Buffer
	c.cfg.Log = &log
	c.cfg.Redact = strings.NewReplacer("BEGIN\nhunter2\nEND", "<key>", "hunter2", "<redacted>").Replace
	if _, err := c.HasVM(t.Context(), "vm"); err != nil {
		t.Fatal(err)
	}
	const want = "has_vm: one\nhas_vm: <key>\nhas_vm: three\nhas_vm: four <redacted>\n"
	if log.String() != want {
		t.Errorf("log:\n%s\nwant:\n%s", log.String(), want)
	}
}

func TestErrorKinds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err                                                  error
		notImplemented, notSupported, notFound, notPermitted bool
	}{
		{&Error{Type: TypeNotImplemented}, true, false, false, false},
		{&Error{Type: TypeCloudError, Message: "Invalid Method: x"}, true, false, false, false},
		{&Error{Type: TypeCloudError, Message: "x Invalid Method:"}, false, false, false, false},
		{&Error{Type: "InvalidCall", Message: "Method is not known, got x"}, true, false, false, false},
		{&Error{Type: "InvalidCall", Message: "Arguments are wrong"}, false, false, false, false},
		{&Error{Type: TypeNotSupported}, false, true, false, false},
		{fmt.Errorf("wrapped: %w", &Error{Type: TypeVMNotFound}), false, false, true, false},
		{&Error{Type: TypeDiskNotFound}, false, false, true, false},
		{&Error{Type: TypeStemcellNotFound}, false, false, true, false},
		{&ExitError{}, false, false, false, false},
		{&Error{Type: TypeInsufficientPermissions}, false, false, false, true},
		{nil, false, false, false, false},
	} {
		if NotImplemented(tt.err) != tt.notImplemented || NotSupported(tt.err) != tt.notSupported || NotFound(tt.err) != tt.notFound || NotPermitted(tt.err) != tt.notPermitted {
			t.Errorf("%v", tt.err)
		}
	}
}

// TestStemcellGone contains the messages of CPIs for a stemcell that does not
// exist.
func TestStemcellGone(t *testing.T) {
	t.Parallel()
	said := func(message string) error {
		return fmt.Errorf("wrapped: %w", &Error{Type: TypeCloudError, Message: message})
	}
	for _, tt := range []struct {
		err  error
		cid  string
		gone bool
	}{
		{&Error{Type: TypeStemcellNotFound, Message: "x"}, "sc-1", true},
		{said("could not find AMI 'ami-1'"), "ami-1", true},
		{said("could not find AMI 'ami-1'"), "ami-1 light", true},
		{said("Creating vm: Stemcell 'stemcell-1' does not exists"), "stemcell-1", true},
		{said("Could not find VM for stemcell 'sc-1'"), "sc-1", true},
		{said("Image `5b1e' not found"), "5b1e", true},
		{said("Given stemcell 'bosh-stemcell-1' does not exist"), "bosh-stemcell-1", true},
		{said("Expected to find stemcell 'sc-1'"), "sc-1", true},
		{said("Error response from daemon: No such image: sha256:1234"), "sha256:1234", true},
		{said("could not find AMI 'ami-12'"), "ami-1", false},
		{said("subnet-7 does not exist; creating a VM from ami-1 and many other words"), "ami-1", false},
		{said("subnet-7 does not exist\nami-1"), "ami-1", false},
		{said("ami-1 is not supported here"), "ami-1", false},
		{said("network not found"), "", false},
		{&Error{Type: TypeDiskNotFound, Message: "disk-1"}, "sc-1", false},
		{&ExitError{Stderr: "could not find AMI 'ami-1'"}, "ami-1", false},
		{nil, "ami-1", false},
	} {
		if StemcellGone(tt.err, tt.cid) != tt.gone {
			t.Errorf("%v, %q: want %v", tt.err, tt.cid, tt.gone)
		}
	}
}

func TestHasStemcell(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		info, reply  string
		there, known bool
	}{
		{infoV2, "", false, false},
		{`{"result":{"stemcell_formats":["x"],"api_version":2,"extensions":"has_stemcell"},"error":null,"log":""}`, "", false, false},
		{`{"result":{"stemcell_formats":["x"],"api_version":2,"extensions":[1,"has_stemcell"]},"error":null,"log":""}`, `{"result":true}`, true, true},
		{`{"result":{"stemcell_formats":["x"],"api_version":2,"extensions":["has_stemcell"]},"error":null,"log":""}`, `{"result":false}`, false, true},
	} {
		c := client(program(t, tt.info, reply(tt.reply)))
		if there, known, err := c.HasStemcell(t.Context(), "sc-1"); there != tt.there || known != tt.known || err != nil {
			t.Errorf("%s: %v, %v, %v", tt.info, there, known, err)
		}
	}
}

// On Windows, the error tells users what to do instead.
func TestSupported(t *testing.T) {
	for _, system := range []string{"linux", "darwin"} {
		if err := Supported(system); err != nil {
			t.Errorf("%s: %v", system, err)
		}
	}
	if err := Supported("windows"); err == nil || !strings.Contains(err.Error(), "Windows") || !strings.Contains(err.Error(), "WSL 2") {
		t.Error(err)
	}
}

// TestNotes reads the lines about a VM that the embedded CPI adds to the result of
// create_vm, and ignores another third part.
func TestNotes(t *testing.T) {
	t.Parallel()
	for part, want := range map[string][]string{
		`{"notes":["one \u0007","the hunter2",3]}`: {"one ", "the <redacted>"},
		`{"notes":"text"}`:                         nil,
		`["notes"]`:                                nil,
		`null`:                                     nil,
		`{}`:                                       nil,
	} {
		c := client("")
		c.cfg.Redact = func(text string) string { return strings.ReplaceAll(text, "hunter2", "<redacted>") }
		vm, err := c.decodeVM("create_vm", json.RawMessage(`["vm",{},`+part+`]`))
		if err != nil || vm.CID != "vm" || !reflect.DeepEqual(vm.Notes, want) {
			t.Errorf("%s: got %q, %v, want %q", part, vm.Notes, err, want)
		}
	}
}
