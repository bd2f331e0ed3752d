package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/golden"

	"bootstrap/deployer"
)

// replay plays a recorded JSON stream into a renderer: the text is derived
// from what machines get, and from nothing else.
func replay(t *testing.T, file string, render func(deployer.Event)) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(bytes.NewReader(data)); dec.More(); {
		var e deployer.Event
		if err := dec.Decode(&e); err != nil {
			t.Fatal(err)
		}
		render(e)
	}
}

func TestPlain(t *testing.T) {
	var out bytes.Buffer
	r := &Redactor{}
	replay(t, "testdata/deploy.jsonl", Plain(r.Writer(&out)))
	golden.Assert(t, out.String(), "deploy.txt")
	if strings.ContainsAny(out.String(), "\r\x1b") {
		t.Error("control characters without a terminal")
	}
}

func TestTerminal(t *testing.T) {
	var out bytes.Buffer
	r := &Redactor{}
	replay(t, "testdata/deploy.jsonl", Terminal(r.Writer(&out), func() int { return 80 }))
	golden.Assert(t, out.String(), "deploy.tty.txt")
	// What stands on the screen in the end is what Plain prints, but for the
	// lines that tell how far a stage is.
	screen := strings.Builder{}
	for line := range strings.Lines(out.String()) {
		if i := strings.LastIndex(line, "\r\x1b[K"); i >= 0 {
			line = line[i+len("\r\x1b[K"):]
		}
		if len(line) > 81 {
			t.Errorf("line wider than the terminal: %q", line)
		}
		screen.WriteString(line)
	}
	for _, want := range []string{"  Downloading release 'web'... Finished (00:00:12)\n", "Finished validating (00:00:12)\n"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("screen lacks %q:\n%s", want, screen.String())
		}
	}
}

// What JSON prints is what was reported.
func TestJSONRoundTrip(t *testing.T) {
	var out bytes.Buffer
	r := &Redactor{}
	replay(t, "testdata/deploy.jsonl", JSON(r.Lines(&out)))
	want, err := os.ReadFile("testdata/deploy.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s", out.String())
	}
}

func TestResults(t *testing.T) {
	var out bytes.Buffer
	r := &Redactor{}
	w := r.Writer(&out)
	Failed(w, 69, fmt.Errorf("VM vm-1 does not answer 100%%"), "use --fix")
	if got := out.String(); got != "\nError: VM vm-1 does not answer 100%\nHint: use --fix\n\nExit code 69\n" {
		t.Errorf("got %q", got)
	}
	out.Reset()
	Failed(w, 1, errors.New("the CPI says: \x1b[31mno\x1b[0m\r\n\tat line\u009b1\rYes"), "")
	if got := out.String(); got != "\nError: the CPI says: \\x1b[31mno\\x1b[0m\n\tat line\\x9b1\\x0dYes\n\nExit code 1\n" {
		t.Errorf("got %q", got)
	}
	out.Reset()
	JSONResult(r.Lines(&out), 0, nil, "")
	if got := out.String(); got != `{"kind":"result","status":"finished","exit_code":0}`+"\n" {
		t.Errorf("got %q", got)
	}
}

const testKey = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1234567890abcdefghij\nqrstuvwxyz0123456789ABCDEFGHIJKLMNOP\n-----END RSA PRIVATE KEY-----\n"

func TestRedactor(t *testing.T) {
	r := &Redactor{}
	r.Add("s3cret-pass", `with"quote&amp`, testKey, "abc", "https://mbus:other-pw@10.0.0.1:6868")
	for _, c := range []struct{ in, want string }{
		{"password is s3cret-pass.", "password is <redacted>."},
		{`json "with\"quote\u0026amp"`, `json "<redacted>"`},
		{"url with%22quote%26amp", "url <redacted>"},
		{"https://user:unknown@host/x", "https://<redacted>@host/x"},
		{"user mbus, other-pw", "user mbus, <redacted>"},
		{"too short abc", "too short abc"},
		{"a key: " + testKey + "end", "a key: <redacted>\nend"},
		{"one line MIIEpAIBAAKCAQEA1234567890abcdefghij of it", "one line <redacted> of it"},
		{"another -----BEGIN PRIVATE KEY-----\nxyz\n-----END PRIVATE KEY----- key", "another <redacted> key"},
		{"cut -----BEGIN PRIVATE KEY-----\nxyz", "cut <redacted>"},
		{"harmless", "harmless"},
	} {
		if got := r.String(c.in); got != c.want {
			t.Errorf("String(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// What a CPI or a log says cannot steer the terminal.
func TestControlCharacters(t *testing.T) {
	r := &Redactor{}
	r.Add("s3cret\x1bpass")
	var out bytes.Buffer
	show := Plain(r.Writer(&out))
	show(deployer.Event{Kind: deployer.Warning, Message: "\x1b]0;title\a s3cret\x1bpass"})
	show(deployer.Event{Kind: deployer.Log, Name: "page.log", Message: "\x1b[32mup\u202e\x1b[0m"})
	if got, want := out.String(), "Warning: \\x1b]0;title\\x07 <redacted>\n==> page.log <==\n\\x1b[32mup\\u202e\\x1b[0m\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A secret that arrives in pieces is still seen.
func TestWriterSeesSecretsAcrossWrites(t *testing.T) {
	r := &Redactor{}
	r.Add("s3cret-pass")
	var out bytes.Buffer
	w := r.Writer(&out)
	text := "one s3cret-pass two\n" + testKey + "three s3cret-pass"
	for i := range len(text) {
		if _, err := w.Write([]byte{text[i]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, "s3cret") || strings.Contains(got, "MIIE") || !strings.Contains(got, "three <redacted>") {
		t.Errorf("got %q", got)
	}
}

func BenchmarkRedactor(b *testing.B) {
	r := &Redactor{}
	for i := range 200 {
		r.Add(fmt.Sprintf("secret-value-%d-%d", i, i*i))
	}
	line := strings.Repeat("a line of a log that is long and harmless ", 3) + "secret-value-7-49\n"
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		r.String(line)
	}
}

// Lines of logs stand below the name of their log, whole keys taken out.
func TestLogLines(t *testing.T) {
	var out bytes.Buffer
	r := &Redactor{}
	r.Add("s3cret-pass")
	show := Plain(r.Writer(&out))
	for _, e := range []deployer.Event{
		{Kind: deployer.Log, Name: "a.log", Message: "one\nwith s3cret-pass"},
		{Kind: deployer.Log, Name: "a.log", Message: "two\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"},
		{Kind: deployer.Log, Name: "b.log", Message: "three"},
	} {
		show(e)
	}
	want := "==> a.log <==\none\nwith <redacted>\ntwo\n<redacted>\n==> b.log <==\nthree\n"
	if out.String() != want {
		t.Errorf("got %q", out.String())
	}
}
