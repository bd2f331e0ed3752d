//go:build linux

package cgroup

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// systemd plays the D-Bus side of a login and one call, and returns the call. The
// function answer writes the answer to the connection.
func systemd(t *testing.T, answer func(conn net.Conn, call *dbus.Message)) (b bus, called <-chan *dbus.Message) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	got := make(chan *dbus.Message, 1)
	go func() {
		defer close(got)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for begun := false; !begun; {
			line, err := in.ReadString('\n')
			switch {
			case err != nil:
				return
			case strings.HasPrefix(line, "BEGIN"):
				begun = true
			case strings.Contains(line, "AUTH EXTERNAL"):
				_, _ = io.WriteString(conn, "OK 1234deadbeef\r\n")
			case strings.Contains(line, "AUTH"):
				_, _ = io.WriteString(conn, "REJECTED EXTERNAL\r\n")
			default:
				_, _ = io.WriteString(conn, "ERROR\r\n")
			}
		}
		call, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		got <- call
		answer(conn, call)
		_, _ = io.Copy(io.Discard, in) // It reads until the caller closes the connection.
	}()
	return bus{path: name}, got
}

// reply answers a call; with an error, if text is not empty.
func reply(t *testing.T, conn net.Conn, to uint32, text string) {
	t.Helper()
	m := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(to),
	}}
	if text != "" {
		m.Type = dbus.TypeError
		m.Headers[dbus.FieldErrorName] = dbus.MakeVariant("org.freedesktop.systemd1.UnitExists")
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(text))
		m.Body = []any{text}
	}
	if err := m.EncodeTo(conn, binary.LittleEndian); err != nil {
		t.Error(err)
	}
}

// systemd 252 accepted this call.
func TestCallOfSystemd(t *testing.T) {
	t.Parallel()
	b, called := systemd(t, func(conn net.Conn, call *dbus.Message) {
		reply(t, conn, call.Serial()+90, "this answers another call")
		reply(t, conn, call.Serial(), "")
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.startScope(ctx, "bootstrap-vm-1.scope", 4711, Limits{Memory: 512 << 20, CPU: 1.5, PIDs: 100}); err != nil {
		t.Fatal(err)
	}
	call := <-called
	got := call.String()
	for _, part := range []string{
		"interface org.freedesktop.systemd1.Manager member StartTransientUnit", "path /org/freedesktop/systemd1", `"bootstrap-vm-1.scope"`, `"fail"`,
		`[["Description", <"a VM of bootstrap">], ["PIDs", <@au [4711]>], ["Delegate", <true>], ["CollectMode", <"inactive-or-failed">], ` +
			`["MemoryAccounting", <true>], ["CPUAccounting", <true>], ["TasksAccounting", <true>], ["MemoryMax", <@t 536870912>], ` +
			`["MemorySwapMax", <@t 0>], ["CPUQuotaPerSecUSec", <@t 1500000>], ["TasksMax", <@t 100>]]`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is not in %s", part, got)
		}
	}
	if signature := call.Headers[dbus.FieldSignature].String(); !strings.Contains(signature, "ssa(sv)a(sa(sv))") {
		t.Errorf("the signature is %s", signature)
	}
}

// The error has systemd's text, and an invalid answer ends the call.
func TestAnswersOfSystemd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(conn net.Conn, call *dbus.Message)
		want   string
	}{
		"refused": {func(conn net.Conn, call *dbus.Message) {
			reply(t, conn, call.Serial(), "Unit bootstrap-vm-1.scope was already loaded.")
		}, "Unit bootstrap-vm-1.scope was already loaded."},
		"ended": {func(conn net.Conn, _ *dbus.Message) { _ = conn.Close() }, "EOF"},
		"garbage": {func(conn net.Conn, _ *dbus.Message) {
			_, _ = conn.Write([]byte(strings.Repeat("\xff", 64)))
			_ = conn.Close()
		}, "EOF"},
		"truncated": {func(conn net.Conn, _ *dbus.Message) { _, _ = conn.Write([]byte("l\x02\x00\x01")); _ = conn.Close() }, "EOF"},
	} {
		b, _ := systemd(t, c.answer)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := b.startScope(ctx, "bootstrap-vm-1.scope", 4711, Limits{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
		cancel()
	}
}

// If systemd is silent, the call ends at its deadline.
func TestSilentSystemd(t *testing.T) {
	t.Parallel()
	b, _ := systemd(t, func(net.Conn, *dbus.Message) {})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := b.startScope(ctx, "bootstrap-vm-1.scope", os.Getpid(), Limits{}); err == nil {
		t.Error("no error")
	}
}
