package cgroup

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
)

// bus is a socket at which systemd answers calls of the D-Bus protocol, which
// https://dbus.freedesktop.org/doc/dbus-specification.html describes.
type bus struct {
	path  string
	hello bool // it is that of a bus, which wants a greeting; else systemd's own
}

// replyLimit is the longest reply that is read.
const replyLimit = 1 << 20

// startScope lets systemd make a scope, which is a cgroup that ends with its
// processes, with the process in it.
func (b bus) startScope(ctx context.Context, name string, pid int, limits Limits) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", b.path)
	if err != nil {
		return err
	}
	defer conn.Close()
	if until, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(until); err != nil {
			return err
		}
	}
	if err := logIn(conn); err != nil {
		return err
	}
	if b.hello {
		if err := call(conn, 1, message{to: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", method: "Hello"}); err != nil {
			return err
		}
	}
	var body encoder
	body.text(name)
	body.text("fail") // if there is one of that name
	body.list(8, func() {
		for _, p := range properties(pid, limits) {
			body.align(8)
			body.text(p.name)
			body.variant(p.value)
		}
	})
	body.list(8, func() {}) // no other units
	return call(conn, 2, message{
		to: "org.freedesktop.systemd1", path: "/org/freedesktop/systemd1", method: "StartTransientUnit", of: "org.freedesktop.systemd1.Manager",
		signature: "ssa(sv)a(sa(sv))", body: body.Bytes(),
	})
}

// property is a property of a unit of systemd: a bool, string, uint64 or
// []uint32.
type property struct {
	name  string
	value any
}

func properties(pid int, limits Limits) []property {
	all := []property{
		{"Description", "a VM of bootstrap"},
		{"PIDs", []uint32{uint32(pid)}}, // #nosec G115 -- process ids are positive and below 2^22
		{"Delegate", true},              // what is below the cgroup is the VM's
		{"CollectMode", "inactive-or-failed"},
		{"MemoryAccounting", true},
		{"CPUAccounting", true},
		{"TasksAccounting", true},
	}
	if limits.Memory > 0 {
		all = append(all, property{"MemoryMax", limits.Memory}, property{"MemorySwapMax", uint64(0)})
	}
	if limits.CPU > 0 {
		all = append(all, property{"CPUQuotaPerSecUSec", uint64(math.Round(limits.CPU * 1e6))})
	}
	if limits.PIDs > 0 {
		all = append(all, property{"TasksMax", uint64(limits.PIDs)})
	}
	return all
}

// logIn authenticates with the user id, which the other side sees anyway.
func logIn(conn net.Conn) error {
	user := hex.EncodeToString([]byte(strconv.Itoa(os.Getuid())))
	if _, err := io.WriteString(conn, "\x00AUTH EXTERNAL "+user+"\r\n"); err != nil {
		return err
	}
	// Byte by byte: what follows the line belongs to messages.
	var line []byte
	for one := make([]byte, 1); !bytes.HasSuffix(line, []byte("\n")) && len(line) < 512; line = append(line, one...) {
		if _, err := io.ReadFull(conn, one); err != nil {
			return err
		}
	}
	if !bytes.HasPrefix(line, []byte("OK ")) {
		return fmt.Errorf("it answers %q to a login", strings.TrimSpace(string(line)))
	}
	_, err := io.WriteString(conn, "BEGIN\r\n")
	return err
}

// message is a call of a method.
type message struct {
	to, path, of, method string
	signature            string
	body                 []byte
}

// Types of messages and of the fields in their headers.
const (
	typeCall  = 1
	typeReply = 2
	typeError = 3

	fieldPath      = 1
	fieldInterface = 2
	fieldMethod    = 3
	fieldError     = 4
	fieldReplyTo   = 5
	fieldTo        = 6
	fieldSignature = 8
)

// call sends a call and returns the error with which it is answered.
func call(conn net.Conn, serial uint32, m message) error {
	var e encoder
	e.Write([]byte{'l', typeCall, 0, 1})
	e.number(uint32(len(m.body))) // #nosec G115 -- some hundred bytes
	e.number(serial)
	e.list(8, func() {
		e.field(fieldPath, "o", m.path)
		e.field(fieldMethod, "s", m.method)
		e.field(fieldTo, "s", m.to)
		if m.of != "" {
			e.field(fieldInterface, "s", m.of)
		}
		if m.signature != "" {
			e.field(fieldSignature, "g", m.signature)
		}
	})
	e.align(8)
	if _, err := conn.Write(append(e.Bytes(), m.body...)); err != nil {
		return err
	}
	for {
		kind, to, name, body, err := receive(conn)
		switch {
		case err != nil:
			return err
		case to != serial: // a signal
		case kind == typeReply:
			return nil
		case kind == typeError && len(body) > 5:
			return errors.New(strings.TrimRight(string(body[4:]), "\x00")) // a text, after its length
		default:
			return errors.New(name)
		}
	}
}

// receive reads a message: its type, the call that it answers, the name of an
// error and the body.
func receive(conn io.Reader) (kind byte, to uint32, name string, body []byte, err error) {
	head := make([]byte, 16)
	if _, err := io.ReadFull(conn, head); err != nil {
		return 0, 0, "", nil, err
	}
	if head[0] != 'l' {
		return 0, 0, "", nil, errors.New("it does not answer in the byte order of the call")
	}
	fields, length := binary.LittleEndian.Uint32(head[12:]), binary.LittleEndian.Uint32(head[4:])
	if fields > replyLimit || length > replyLimit {
		return 0, 0, "", nil, errors.New("its answer is too long")
	}
	rest := make([]byte, (fields+7)/8*8+length)
	if _, err := io.ReadFull(conn, rest); err != nil {
		return 0, 0, "", nil, err
	}
	d := decoder{rest[:fields]}
	for len(d.left) > 0 {
		code, value := d.field(len(rest[:fields]))
		switch code {
		case fieldReplyTo:
			if len(value) == 4 {
				to = binary.LittleEndian.Uint32(value)
			}
		case fieldError:
			name = string(value)
		}
	}
	return head[1], to, name, rest[len(rest)-int(length):], nil
}

// encoder writes values in the form of the protocol, little endian. Its first
// byte is at a multiple of 8 in the message.
type encoder struct{ bytes.Buffer }

func (e *encoder) align(n int) {
	for e.Len()%n != 0 {
		e.WriteByte(0)
	}
}

func (e *encoder) number(n uint32) {
	e.align(4)
	e.Write(binary.LittleEndian.AppendUint32(nil, n))
}

func (e *encoder) text(s string) {
	e.number(uint32(len(s))) // #nosec G115 -- a name
	e.WriteString(s + "\x00")
}

func (e *encoder) signature(s string) {
	e.WriteByte(byte(len(s)))
	e.WriteString(s + "\x00")
}

// list writes the items, which begin at multiples of align, after their length.
func (e *encoder) list(align int, items func()) {
	e.number(0)
	at := e.Len() - 4
	e.align(align)
	begin := e.Len()
	items()
	binary.LittleEndian.PutUint32(e.Bytes()[at:], uint32(e.Len()-begin)) // #nosec G115 -- some hundred bytes
}

func (e *encoder) variant(value any) {
	switch value := value.(type) {
	case bool:
		e.signature("b")
		n := uint32(0)
		if value {
			n = 1
		}
		e.number(n)
	case string:
		e.signature("s")
		e.text(value)
	case uint64:
		e.signature("t")
		e.align(8)
		e.Write(binary.LittleEndian.AppendUint64(nil, value))
	case []uint32:
		e.signature("au")
		e.list(4, func() {
			for _, n := range value {
				e.number(n)
			}
		})
	}
}

// field writes a field of a header: a path, text or signature.
func (e *encoder) field(code byte, kind, value string) {
	e.align(8)
	e.WriteByte(code)
	e.signature(kind)
	if kind == "g" {
		e.signature(value)
		return
	}
	e.text(value)
}

// decoder reads the fields of a header, which begin at a multiple of 8 in the
// message.
type decoder struct{ left []byte }

// take returns the next n bytes; nothing is left if there are fewer.
func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.left) {
		d.left = nil
		return nil
	}
	taken := d.left[:n]
	d.left = d.left[n:]
	return taken
}

// field reads a field of a header of size bytes; its value is a number or a text.
func (d *decoder) field(size int) (code byte, value []byte) {
	align := func(n int) { d.take((n - (size-len(d.left))%n) % n) }
	align(8)
	head := d.take(2) // the code, and the length of the signature
	if len(head) < 2 {
		return 0, nil
	}
	kind := d.take(int(head[1]) + 1)
	if len(kind) != 2 {
		d.left = nil
		return 0, nil
	}
	number := func() int {
		align(4)
		n := d.take(4)
		if len(n) < 4 {
			return -1
		}
		return int(binary.LittleEndian.Uint32(n))
	}
	switch kind[0] {
	case 'u':
		align(4)
		return head[0], d.take(4)
	case 's', 'o':
		n := number()
		value = d.take(n)
		d.take(1)
	case 'g':
		n := d.take(1)
		if len(n) == 1 {
			value = d.take(int(n[0]))
			d.take(1)
		}
	default:
		d.left = nil
	}
	return head[0], value
}
