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
	"net/netip"
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

// The pauses before a helper that ended is started again. They begin again at the
// shortest one if the helper was running for the last time.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 15 * time.Second
)

// outTime is how long the helper may take to accept a frame.
const outTime = time.Second

// Helper returns the program that connects to other networks. slirp4netns is preferred,
// because the passt of Debian 12 stalls with large uploads.
func Helper() (program string, err error) {
	for _, name := range []string{slirp4netns, "passt"} {
		if program, err = exec.LookPath(name); err == nil {
			// The user of the helper may have no access to the folder of a link.
			return filepath.EvalSymlinks(program)
		}
	}
	return "", errors.New("neither slirp4netns nor passt (pasta) is installed")
}

const slirp4netns = "slirp4netns"

// Resolver returns the address of the helper's name server.
func Resolver(program string, i Interface) netip.Addr {
	if filepath.Base(program) == slirp4netns {
		return slirpNetwork(i).Addr().Next().Next().Next()
	}
	return i.Gateway
}

// slirpNetwork is the network that slirp4netns assumes for the VM. The second address is
// its gateway.
func slirpNetwork(i Interface) netip.Prefix {
	usual := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 2, 0}), 24)
	if i.Address.Overlaps(usual) {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, 0}), 24)
	}
	return usual
}

// wayOut is the gateway to other networks, with a helper.
type wayOut struct {
	program string
	folder  *os.File // folder of the VM
	at      Interface
	log     *slog.Logger
	current atomic.Pointer[helper]
}

// helper is a running helper.
type helper struct {
	conn   net.Conn
	stream bool // each frame is preceded by its length
}

// run starts the helper again and again until ctx ends.
func (w *wayOut) run(ctx context.Context, toVM func(frame []byte)) {
	pauses := wait.Grow(firstPause, longestPause, 2)
	for ctx.Err() == nil {
		began := time.Now()
		err := w.runOne(ctx, toVM)
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

// runOne runs one helper until it or ctx ends.
func (w *wayOut) runOne(ctx context.Context, toVM func(frame []byte)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var output bytes.Buffer
	start := w.passt
	if filepath.Base(w.program) == slirp4netns {
		start = w.slirp
	}
	h, cmd, err := start(ctx, &output)
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
	text := output.String()
	if len(text) > reportLimit {
		text = text[len(text)-reportLimit:]
	}
	return fmt.Errorf("%w: %s", errors.Join(err, errors.New("it ended")), text)
}

// passt starts passt with one end of a pair of sockets.
func (w *wayOut) passt(ctx context.Context, output io.Writer) (*helper, *exec.Cmd, error) {
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
	cmd := exec.CommandContext(ctx, w.program, args...) // #nosec G204 -- the slirp4netns of this machine
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{theirs}, output, output
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	conn, err := net.FileConn(ours)
	return &helper{conn: conn, stream: true}, cmd, err
}

// slirpSocket is the name of the socket in the VM's folder at which slirp4netns waits for
// the cable.
const slirpSocket = "slirp.sock"

// slirp starts slirp4netns and connects to the socket that it makes.
func (w *wayOut) slirp(ctx context.Context, output io.Writer) (*helper, *exec.Cmd, error) {
	place := filepath.Join(byDescriptor(w.folder), slirpSocket)
	_ = os.Remove(place)                                                                                                                                                        // left by a killed one
	cmd := exec.CommandContext(ctx, w.program, "--target-type=bess", "--disable-host-loopback", "--mtu="+strconv.Itoa(mtu), "--cidr="+slirpNetwork(w.at).String(), slirpSocket) // #nosec G204 -- the slirp4netns of this machine
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, slirpTime)
	defer cancel()
	var conn net.Conn
	err := wait.Poll(ctx, 5*time.Millisecond, func() (bool, error) {
		var err error
		conn, err = net.Dial("unixpacket", place)
		return err == nil, nil
	})
	_ = os.Remove(place) // no other process may connect
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, nil, fmt.Errorf("it has not created its socket: %w", err)
	}
	return &helper{conn: conn}, cmd, nil
}

// slirpTime is how long slirp4netns may take to make its socket.
const slirpTime = 5 * time.Second

// owns reports whether a hardware address is the helper's own.
func (w *wayOut) owns(address [6]byte) bool {
	if filepath.Base(w.program) != slirp4netns {
		return false // passt uses the gateway's address
	}
	gateway := slirpNetwork(w.at).Addr().Next().Next().As4()
	return address == [6]byte{0x52, 0x55, gateway[0], gateway[1], gateway[2], gateway[3]}
}

// send sends a frame to the helper, if it is running.
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
		_ = h.conn.Close() // a part of the frame may have been sent
	}
}

// receive receives the frames of the helper until it ends.
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
