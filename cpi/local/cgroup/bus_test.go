//go:build linux

package cgroup

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden file")

// answer is a D-Bus message that answers a call: an error with a text, or nothing.
func answer(to uint32, text string) []byte {
	var body, e encoder
	kind := byte(typeReply)
	if text != "" {
		kind = typeError
		body.text(text)
	}
	e.Write([]byte{'l', kind, 0, 1})
	e.number(uint32(body.Len()))
	e.number(7)
	e.list(8, func() {
		e.field(fieldTo, "s", ":1.2")
		if text != "" {
			e.field(fieldError, "s", "org.freedesktop.systemd1.UnitExists")
			e.field(fieldSignature, "g", "s")
		}
		e.align(8)
		e.WriteByte(fieldReplyTo)
		e.signature("u")
		e.number(to)
	})
	e.align(8)
	return append(e.Bytes(), body.Bytes()...)
}

// systemd is the other side of a login and one call, which it returns.
func systemd(t *testing.T, answers ...[]byte) (b bus, called <-chan []byte) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	got := make(chan []byte, 1)
	go func() {
		defer close(got)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		login, _ := in.ReadString('\n')
		if !strings.HasPrefix(login, "\x00AUTH EXTERNAL ") {
			return
		}
		_, _ = io.WriteString(conn, "OK 1234deadbeef\r\n")
		if begin, _ := in.ReadString('\n'); begin != "BEGIN\r\n" {
			return
		}
		head := make([]byte, 16)
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		fields, length := int(head[12])|int(head[13])<<8, int(head[4])|int(head[5])<<8
		rest := make([]byte, (fields+7)/8*8+length)
		if _, err := io.ReadFull(in, rest); err != nil {
			return
		}
		got <- append(head, rest...)
		for _, one := range answers {
			_, _ = conn.Write(one)
		}
	}()
	return bus{path: name}, got
}

// The call is the one that systemd 252 accepted.
func TestCallOfSystemd(t *testing.T) {
	t.Parallel()
	b, called := systemd(t, answer(99, ""), answer(2, "")) // the first answers another call
	limits := Limits{Memory: 512 << 20, CPU: 1.5, PIDs: 100}
	if err := b.startScope(t.Context(), "bootstrap-vm-1.scope", 4711, limits); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/start-transient-unit.hex"
	got := hex.Dump(<-called)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || got != string(want) {
		t.Errorf("called with\n%s, want\n%s, %v", got, want, err)
	}
}

// What systemd refuses is the error, and an answer that is no message ends the call.
func TestAnswersOfSystemd(t *testing.T) {
	t.Parallel()
	whole := answer(2, "Unit bootstrap-vm-1.scope was already loaded.")
	for name, c := range map[string]struct {
		sent []byte
		want string
	}{
		"refused":     {whole, "Unit bootstrap-vm-1.scope was already loaded."},
		"cut off":     {whole[:len(whole)-3], "unexpected EOF"},
		"too long":    {append([]byte{'l', typeReply, 0, 1}, bytes.Repeat([]byte{0xff}, 12)...), "its answer is too long"},
		"other order": {append([]byte{'B'}, make([]byte, 15)...), "byte order"},
		"bad header":  {append(append([]byte{'l', typeReply, 0, 1}, make([]byte, 8)...), 8, 0, 0, 0, fieldReplyTo, 200, 'u', 0, 1, 1, 1, 1), "EOF"},
	} {
		b, _ := systemd(t, c.sent)
		if err := b.startScope(t.Context(), "bootstrap-vm-1.scope", 4711, Limits{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
