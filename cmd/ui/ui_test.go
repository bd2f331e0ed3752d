package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/printable"

	"github.com/mattn/go-runewidth"
	"gotest.tools/v3/golden"
)

// replay passes a recorded JSON stream to a renderer: text and JSON are made from the
// same events.
func replay(t *testing.T, file string, render func(report.Event)) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(bytes.NewReader(data)); dec.More(); {
		var e report.Event
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
	show, tick := Terminal(r.Writer(&out), func() int { return 80 })
	replay(t, "testdata/deploy.jsonl", ticking(show, tick))
	golden.Assert(t, out.String(), "deploy.tty.txt")
	// At the end, the screen shows the output of Plain, except for lines about progress.
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
	for _, want := range []string{"  Downloading release 'web'... Finished (12.3s)\n", "Finished validating (12.5s)\n"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("screen lacks %q:\n%s", want, screen.String())
		}
	}
}

// ticking returns a renderer that draws again two seconds after each event.
func ticking(show func(report.Event), tick func(time.Time)) func(report.Event) {
	return func(e report.Event) {
		show(e)
		tick(e.Time.Add(2 * time.Second))
	}
}

// At each width, with colours, lines that are drawn again fit into one row.
func TestWidths(t *testing.T) {
	for _, columns := range []int{40, 80, 100, 200} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			var out bytes.Buffer
			r := &Redactor{}
			w := r.Writer(&out).Coloured()
			show, tick := Terminal(w, func() int { return columns })
			replay(t, "testdata/deploy.jsonl", ticking(show, tick))
			show(report.Event{Kind: report.Planned, Plan: &plan.View{Changes: []plan.Line{
				{What: "stemcell", Name: "os/1", Action: plan.Keep},
				{What: "vm", Name: "vm-1", Action: plan.Replace, Why: []string{"the stemcell changed: os/1 -> os/2"}},
				{What: "disk", Name: "disk-1", Action: plan.Migrate, Why: []string{"its size changed"}},
				{What: "address", Name: "10.0.0.5", Action: plan.Reserve, Why: []string{"the lowest free one"}},
			}, Rows: rowsOf("stop jobs", "delete vm")}})
			Failed(w, 1, errors.New("no room"), "make some", "")
			down := 0.87
			Succeeded(w, &report.Outcome{Changed: true, VM: "vm-1", Seconds: 2.34, Downtime: &down}, []string{"bootstrap status page.yml"})
			golden.Assert(t, out.String(), fmt.Sprintf("deploy.%d.txt", columns))
			for line := range strings.Lines(out.String()) {
				pieces := strings.Split(line, clearLine)
				for i, piece := range pieces {
					bare := uncoloured.ReplaceAllString(strings.TrimSuffix(piece, "\n"), "")
					if len(pieces) > 1 && i < len(pieces)-1 && runewidth.StringWidth(bare) >= columns {
						t.Errorf("wider than the terminal: %q", bare)
					}
				}
			}
		})
	}
}

var uncoloured = regexp.MustCompile("\x1b\\[[0-9;]*m")

// The JSON can be decoded to the reported events.
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
	Failed(w, 69, fmt.Errorf("VM vm-1 does not answer 100%%"), "use --fix", "agent-silent")
	if got := out.String(); got != "\nError: VM vm-1 does not answer 100%\nHint: use --fix\nExplain: bootstrap explain agent-silent\n\nExit code 69\n" {
		t.Errorf("got %q", got)
	}
	out.Reset()
	Failed(w, 1, errors.New("the CPI says: \x1b[31mno\x1b[0m\r\n\tat line\u009b1\rYes"), "", "")
	if got := out.String(); got != "\nError: the CPI says: \\x1b[31mno\\x1b[0m\n\tat line\\x9b1\\x0dYes\n\nExit code 1\n" {
		t.Errorf("got %q", got)
	}
	out.Reset()
	JSONResult(r.Lines(&out), Result{Status: report.Finished})
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
		{"postgres://user@host/x", "postgres://user@host/x"},
		{"postgres://user:unknown@host/x", "postgres://<redacted>@host/x"},
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

// Text of a CPI or a log cannot control the terminal.
func TestControlCharacters(t *testing.T) {
	r := &Redactor{}
	r.Add("s3cret\x1bpass")
	var out bytes.Buffer
	show := Plain(r.Writer(&out))
	show(report.Event{Kind: report.Warning, Message: "\x1b]0;title\a s3cret\x1bpass"})
	show(report.Event{Kind: report.Log, Name: "page.log", Message: "\x1b[32mup\u202e\x1b[0m"})
	if got, want := out.String(), "Warning: \\x1b]0;title\\x07 <redacted>\n==> page.log <==\n\\x1b[32mup\\u202e\\x1b[0m\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A secret is replaced even if it is written in several pieces.
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

// Lines of logs follow the name of their log, and contain no private keys.
func TestLogLines(t *testing.T) {
	var out bytes.Buffer
	r := &Redactor{}
	r.Add("s3cret-pass")
	show := Plain(r.Writer(&out))
	for _, e := range []report.Event{
		{Kind: report.Log, Name: "a.log", Message: "one\nwith s3cret-pass"},
		{Kind: report.Log, Name: "a.log", Message: "two\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"},
		{Kind: report.Log, Name: "b.log", Message: "three"},
	} {
		show(e)
	}
	want := "==> a.log <==\none\nwith <redacted>\ntwo\n<redacted>\n==> b.log <==\nthree\n"
	if out.String() != want {
		t.Errorf("got %q", out.String())
	}
}

// A password may be an ordinary word: it is shown as a public name, and replaced
// everywhere else.
func TestPublicNames(t *testing.T) {
	r := &Redactor{}
	r.Add("postgres", "admin", "my admin pass", "web.tls", "password", "secret-job-x", "Started")
	r.Name("postgres", "admin", "properties.web.tls.port", "password", "job-x", "vm")
	for _, c := range []struct{ in, shown, strict string }{
		{"job postgres of release 'postgres/12'", "job postgres of release 'postgres/12'", "job <redacted> of release '<redacted>/12'"},
		{"properties.admin.password changed", "properties.admin.password changed", "properties.<redacted>.<redacted> changed"},
		{"properties.web.tls.port", "properties.web.tls.port", "properties.<redacted>.port"},
		{"at web.tls", "at <redacted>", "at <redacted>"},
		{"it is xpostgres, postgresx, my-postgres, postgres_1", "it is x<redacted>, <redacted>x, my-<redacted>, <redacted>_1", "it is x<redacted>, <redacted>x, my-<redacted>, <redacted>_1"},
		{"the value is my admin pass", "the value is <redacted>", "the value is <redacted>"},
		{"secret-job-x is not job-x", "<redacted> is not job-x", "<redacted> is not job-x"},
		{"give https://user:password@host:port", "give https://user:password@host:port", "give https://<redacted>@host:port"},
		{"such as ssh://user@host:22", "such as ssh://user@host:22", "such as ssh://<redacted>@host:22"},
		{"https://user:password@10.0.0.1", "https://<redacted>@10.0.0.1", "https://<redacted>@10.0.0.1"},
		{"Started updating", "Started updating", "<redacted> updating"},
		{"https://USER:PASSWORD@HOST:PORT", "https://USER:PASSWORD@HOST:PORT", "https://<redacted>@HOST:PORT"},
	} {
		if got := r.Shown(c.in); got != c.shown {
			t.Errorf("Shown(%q) = %q, want %q", c.in, got, c.shown)
		}
		if got := r.String(c.in); got != c.strict {
			t.Errorf("String(%q) = %q, want %q", c.in, got, c.strict)
		}
	}
}

// Values never contain secrets, whatever the public names are; a public name
// that is a whole word is always shown, whatever the secrets are.
func FuzzRedactor(f *testing.F) {
	f.Add("postgres", "other-pass", "postgres", "the password is ", "!")
	f.Add("s3cr3t", "s3cr3t-and-more", "a.b", "\x1b[31m", "s3cr")
	f.Add("aaaa", "aaab", "aaaaa", "a", "a")
	f.Add("p%s\"\n&", "-----BEGIN X PRIVATE KEY-----", "web", "://", "@")
	f.Fuzz(func(t *testing.T, one, other, name, before, after string) {
		r := &Redactor{}
		r.Add(one, other)
		r.Name(name)
		for _, secret := range []string{one, other} {
			secret = strings.TrimRight(secret, "\n")
			if len(strings.TrimSpace(secret)) < minSecret {
				continue
			}
			got := strings.ReplaceAll(r.String(before+secret+after), Redacted, "\x00")
			if strings.Contains(got, secret) && !strings.Contains(secret, "\x00") {
				t.Errorf("%q passes in %q", secret, got)
			}
			var out bytes.Buffer
			lines := r.Lines(&out)
			lines.Print("x", map[string]string{"value": before + secret + after})
			var back map[string]string
			if err := json.Unmarshal(out.Bytes(), &back); err != nil || lines.Err() != nil {
				t.Fatalf("%v, %v: %q", err, lines.Err(), out.String())
			}
			got = strings.ReplaceAll(back["value"], Redacted, "\x00")
			if !strings.Contains(name, secret) && !strings.Contains(before+after, name) && utf8.ValidString(secret) && strings.Contains(got, secret) && !strings.Contains(secret, "\x00") {
				t.Errorf("%q passes in %q", secret, got)
			}
		}
		for _, c := range name {
			if !inWord(c) {
				return
			}
		}
		sentence := "= " + name + " ="
		for _, secret := range []string{one, other} {
			if strings.ContainsAny(secret, "= ") || strings.TrimSpace(secret) == "" {
				return // it may extend beyond the name
			}
		}
		if got := r.Shown(sentence); name != "" && got != sentence {
			t.Errorf("%q is shown as %q", sentence, got)
		}
	})
}

// steers reports whether a terminal obeys the character, or it turns text round.
// It does not use the writer's own function.
func steers(c rune) bool {
	return c < ' ' && c != '\t' || c >= 0x7f && c <= 0x9f || strings.ContainsRune("\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff", c)
}

// A terminal only displays the written text, in lines of limited length; JSON keeps it
// unchanged.
func FuzzWriter(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m \u202eback\u2069 \x9b2J \xff\r\nnext\rline\x00\x7f\u009d", 3)
	f.Add(strings.Repeat("a long line ", 10), 5000)
	f.Add("cell\twith\ntabs\vand\flines", 1)
	f.Fuzz(func(t *testing.T, text string, times int) {
		text = strings.Repeat(text, 1+max(times, 0)%(1+(64<<10)/max(len(text), 1)))
		r := &Redactor{}
		var out bytes.Buffer
		w := r.Writer(&out)
		fmt.Fprint(w, text)
		table := NewTable(w, "ONE", "TWO")
		table.Row(text, text)
		table.Print()
		terminal, _ := Terminal(w, func() int { return 40 })
		for _, render := range []func(report.Event){Plain(w), terminal} {
			render(report.Event{Kind: report.Begin, Stage: 1, Name: text})
			render(report.Event{Kind: report.End, Stage: 1, Name: text, Status: report.Skipped, Reason: text})
			render(report.Event{Kind: report.Log, Name: text, Message: text})
		}
		Failed(w, 1, errors.New(text), "", "")
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(out.String(), clearLine, "")) {
			if line = strings.TrimSuffix(line, "\n"); strings.ContainsFunc(line, steers) || !utf8.ValidString(line) || len(line) > maxLine+100 {
				t.Fatalf("%d bytes: %.200q", len(line), line)
			}
		}
		if !utf8.ValidString(text) {
			return
		}
		out.Reset()
		r.Lines(&out).Product("x", map[string]string{"value": text})
		var back map[string]string
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["value"] != text {
			t.Fatalf("%v: %.200q of %.200q", err, back["value"], text)
		}
		if printable.Escaped(out.String()) != out.String() {
			t.Errorf("%.200q", out.String())
		}
	})
}

// With any stage name and any width of the terminal, redrawn lines fit into one
// row, and the final line contains the whole name.
func FuzzTerminal(f *testing.F) {
	f.Add("Uploading package 'a-name-that-is-long/01234567'", 40, int64(5), int64(10))
	f.Add("Uploading package 'a-name-that-is-long/01234567'", 13, int64(5), int64(10))
	f.Add("名前の長い仕事 と 仕事", 21, int64(0), int64(0))
	f.Add("\x1b[31m \u202e 👩‍👩‍👧 é", 12, int64(-5), int64(1<<62))
	f.Fuzz(func(t *testing.T, name string, columns int, done, total int64) {
		columns = 12 + max(columns, -columns, 0)%200
		var out bytes.Buffer
		r := &Redactor{}
		w := r.Writer(&out)
		show, tick := Terminal(w, func() int { return columns })
		now := time.Unix(1, 0)
		show(report.Event{Time: now, Kind: report.Begin, Stage: 1, Name: name})
		for i := range 3 {
			show(report.Event{Time: now.Add(time.Duration(i) * time.Second), Kind: report.Progress, Stage: 1, Name: name, Done: done, Total: total})
		}
		show(report.Event{Time: now.Add(9 * time.Second), Kind: report.Waiting, Stage: 1, Name: name, Message: name, Seconds: 9})
		tick(now.Add(10 * time.Second))
		show(report.Event{Time: now.Add(time.Minute), Kind: report.End, Stage: 1, Name: name, Status: report.Finished})
		for piece := range strings.SplitSeq(strings.ReplaceAll(out.String(), clearLine, "\n"), "\n") {
			if width := runewidth.StringWidth(piece); width >= columns {
				t.Fatalf("%d wide where %d is room: %q", width, columns-1, piece)
			}
		}
		last := out.String()[strings.LastIndex(out.String(), clearLine)+len(clearLine):]
		bare := func(text string) string { return strings.Join(strings.Fields(text), "") }
		if want := bare(cleaned(w, name)); !strings.Contains(strings.ReplaceAll(bare(last), " ", ""), want) {
			t.Errorf("%q is not in %q", want, last)
		}
	})
}

func cleaned(w *Writer, name string) string { return w.clean(name, maxCell) }

// Whatever the secrets are, JSON has the same keys and words, times in UTC, numbers as
// numbers, and texts of limited length.
func TestLines(t *testing.T) {
	r := &Redactor{}
	r.Add("result", "finished", "kind", "error", "1234", "s3cret-pass")
	var out bytes.Buffer
	lines := r.Lines(&out)
	JSONResult(lines, Result{Status: report.Failed, ExitCode: 1234, Error: "error: s3cret-pass " + strings.Repeat("x", 1<<20)})
	lines.Print("thing", struct {
		At    time.Time `json:"at"`
		N     int       `json:"n"`
		Error []string  `json:"error"`
	}{time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), 1234, []string{"a <b> & 1234"}})
	first, second, _ := strings.Cut(out.String(), "\n")
	if len(first) > maxMessage+200 || !strings.HasPrefix(first, `{"kind":"result","status":"failed","exit_code":1234,"error":"<redacted>: <redacted> xxx`) || !strings.HasSuffix(first, ` more bytes)"}`) {
		t.Errorf("%d bytes: %.200s … %s", len(first), first, first[max(0, len(first)-50):])
	}
	if want := `{"kind":"thing","at":"2026-01-02T02:04:05Z","n":1234,"error":["a <b> & <redacted>"]}` + "\n"; second != want {
		t.Errorf("got %q, want %q", second, want)
	}
	lines.Print("list", []int{1})
	if lines.Err() == nil {
		t.Error("a list is taken for an object")
	}
}

// The last line of the doctor has the number of problems.
func TestChecked(t *testing.T) {
	for _, c := range []struct {
		failed, warned int
		want           string
	}{{0, 0, "All is well."}, {0, 1, "1 warning"}, {0, 2, "2 warnings"}, {1, 0, "1 check failed"}, {2, 1, "2 checks failed, 1 warning"}} {
		var out bytes.Buffer
		Checked((&Redactor{}).Writer(&out), c.failed, c.warned)
		if got := out.String(); got != "\n"+c.want+"\n" {
			t.Errorf("%d failed, %d warned: %q", c.failed, c.warned, got)
		}
	}
}
