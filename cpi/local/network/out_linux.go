package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

// The pauses before a helper that ended is started again, and how long it must
// have run for the pauses to be short again.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 15 * time.Second
)

// outTime is how long the helper may take to accept a frame.
const outTime = time.Second

// Helper returns the program that is the way out of networks; the error says
// which package has one.
func Helper() (program string, err error) {
	for _, name := range []string{"passt"} {
		if program, err = exec.LookPath(name); err == nil {
			return filepath.Abs(program)
		}
	}
	return "", errors.New("pasta is not installed")
}

// wayOut is the helper behind a gateway.
type wayOut struct {
	program string
	at      Interface
	log     *slog.Logger
	current atomic.Pointer[helper]
}

// helper is a helper that runs.
type helper struct {
	conn   net.Conn
	stream bool // frames follow their lengths
}

// run starts the helper again and again until ctx ends.
func (w *wayOut) run(ctx context.Context, toVM func(frame []byte)) {
	pauses := wait.Grow(firstPause, longestPause, 2)
	for ctx.Err() == nil {
		began := time.Now()
		err := w.once(ctx, toVM)
		if ctx.Err() != nil {
			return
		}
		w.log.Error("the way out of the network ended, and is started again", "program", w.program, "cause", err)
		if time.Since(began) > longestPause {
			pauses.Reset()
		}
		_ = wait.For(ctx, pauses.Next())
	}
}

// once runs one helper until it or ctx ends.
func (w *wayOut) once(ctx context.Context, toVM func(frame []byte)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var said bytes.Buffer
	h, cmd, err := w.passt(ctx, &said)
	if err != nil {
		return err
	}
	ended := guard.Start(ctx, cmd.Wait)
	w.current.Store(h)
	guard.Go(ctx, func() { h.receive(toVM); cancel() })
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = <-ended // it was killed
	}
	w.current.Store(nil)
	_ = h.conn.Close()
	text := said.String()
	if len(text) > reportLimit {
		text = text[len(text)-reportLimit:]
	}
	return fmt.Errorf("%w: %s", errors.Join(err, errors.New("it ended")), text)
}

// passt starts passt with one end of a pair of sockets.
func (w *wayOut) passt(ctx context.Context, said io.Writer) (*helper, *exec.Cmd, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "passt"), os.NewFile(uintptr(pair[1]), "passt")
	defer ours.Close()
	defer theirs.Close()
	gateway := mac(w.at.Gateway)
	family := "-4"
	if w.at.Address.Addr().Is6() {
		family = "-6"
	}
	args := []string{
		"--foreground", "--quiet", "--stderr", "--fd", "3", family,
		"--address", w.at.Address.Addr().String(), "--gateway", w.at.Gateway.String(), "--mac-addr", net.HardwareAddr(gateway[:]).String(),
		"--no-map-gw", "--no-dhcp", "--no-dhcpv6", "--no-ndp", "--no-ra", "--dns-forward", w.at.Gateway.String(),
	}
	if family == "-4" {
		args = append(args, "--netmask", strconv.Itoa(w.at.Address.Bits()))
	}
	cmd := exec.CommandContext(ctx, w.program, args...)
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{theirs}, said, said
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	conn, err := net.FileConn(ours)
	return &helper{conn: conn, stream: true}, cmd, err
}

// send hands the helper a frame, if it runs.
func (w *wayOut) send(frame []byte) {
	h := w.current.Load()
	if h == nil {
		return
	}
	_ = h.conn.SetWriteDeadline(time.Now().Add(outTime))
	var err error
	if h.stream {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(frame)))
		buffers := net.Buffers{size[:], frame}
		_, err = buffers.WriteTo(h.conn)
	} else {
		_, err = h.conn.Write(frame)
	}
	if err != nil {
		_ = h.conn.Close() // half a frame may have been sent
	}
}

// receive hands on the frames of the helper until it ends.
func (h *helper) receive(toVM func(frame []byte)) {
	frame := make([]byte, frameLimit)
	for {
		if !h.stream {
			n, err := h.conn.Read(frame)
			if err != nil || n == 0 {
				return
			}
			toVM(frame[:n])
			continue
		}
		var size [4]byte
		if _, err := io.ReadFull(h.conn, size[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > frameLimit {
			return
		}
		if _, err := io.ReadFull(h.conn, frame[:n]); err != nil {
			return
		}
		toVM(frame[:n])
	}
}
