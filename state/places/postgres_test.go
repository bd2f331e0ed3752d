package places

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bootstrap/internal/postgrestest"
)

// postgresProxy starts a proxy for a server with the faults of a world, and returns the
// folder of its socket. A request is what a client sends before it waits for an answer.
func postgresProxy(t *testing.T, server *postgrestest.Server, w *world) string {
	t.Helper()
	u, err := url.Parse(server.URL())
	check(t, err)
	const socket = ".s.PGSQL.5432"
	to := filepath.Join(u.Query().Get("host"), socket)
	dir, err := os.MkdirTemp("", "pgp")
	check(t, err)
	listener, err := net.Listen("unix", filepath.Join(dir, socket))
	check(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
		_ = os.RemoveAll(dir)
	})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if up, err := net.Dial("unix", to); err == nil {
					defer up.Close()
					_ = relay(conn, up, w) // an error ends the connection
				}
			}()
		}
	}()
	return dir
}

// message reads a message; kind is 0 for the first one of a client, which has none.
func message(from io.Reader, typed bool) (kind byte, whole []byte, err error) {
	head := make([]byte, 4)
	if typed {
		head = make([]byte, 5)
	}
	if _, err := io.ReadFull(from, head); err != nil {
		return 0, nil, err
	}
	if typed {
		kind = head[0]
	}
	body := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
	_, err = io.ReadFull(from, body)
	return kind, append(head, body...), err
}

// answer copies an answer of the server, which ends when it is ready for a query.
func answer(up io.Reader, to io.Writer) error {
	for {
		kind, whole, err := message(up, true)
		if err != nil {
			return err
		}
		if _, err := to.Write(whole); err != nil || kind == 'Z' {
			return err
		}
	}
}

// refusal is an error of the server with this code, after which it is ready.
func refusal(code string) []byte {
	text := "SERROR\x00VERROR\x00C" + code + "\x00Mrefused by the test\x00\x00"
	whole := binary.BigEndian.AppendUint32([]byte{'E'}, uint32(len(text)+4))
	return append(append(whole, text...), 'Z', 0, 0, 0, 5, 'I')
}

func relay(conn, up net.Conn, w *world) error {
	_, first, err := message(conn, false)
	if err != nil {
		return err
	}
	if _, err := up.Write(first); err != nil {
		return err
	}
	if err := answer(up, conn); err != nil {
		return err
	}
	for {
		var all []byte
		for kind := byte(0); kind != 'S' && kind != 'Q'; {
			var whole []byte
			if kind, whole, err = message(conn, true); err != nil {
				return err
			}
			all = append(all, whole...)
		}
		to := io.Writer(conn)
		what := w.decide(request{write: true})
		switch what {
		case refuse, unavailable:
			code := "42501"
			if what == unavailable {
				code = "57P03"
			}
			if _, err := conn.Write(refusal(code)); err != nil {
				return err
			}
			continue
		case cut:
			return errKilled
		case lose, fail:
			to = io.Discard
		case slow:
			time.Sleep(50 * time.Millisecond) // this is the fault
		}
		if _, err := up.Write(all); err != nil {
			return err
		}
		if err := answer(up, to); err != nil {
			return err
		}
		if what == lose {
			return errKilled
		}
	}
}
