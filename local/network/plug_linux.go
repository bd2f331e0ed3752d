package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/wait"
)

// frameLimit is the size of the largest frame.
const frameLimit = 64<<10 + 64

// peerTime is how long the cable of another VM may take to accept a frame.
const peerTime = 100 * time.Millisecond

// plug moves the frames of one interface. Each VM of a network has a socket in the
// network's folder, whose name is the VM's hardware address.
type plug struct {
	Interface
	folder *os.File
	log    *slog.Logger
	wire   *os.File // the other end of the interface
	inbox  *os.File // a socket that sends to the other cables
	outbox int      // a socket that waits for the other cables
	out    *wayOut  // nil: no gateway to other networks

	mu    sync.Mutex
	peers []string  // names of the sockets in the folder
	read  time.Time // when they were read
}

func (p *plug) place(name string) string { return filepath.Join(byDescriptor(p.folder), name) }

func (p *plug) ownName() string { return nameOf(mac(p.Address.Addr())) }

func nameOf(address [6]byte) string { return hex.EncodeToString(address[:]) }

// plugIn opens the sockets.
func (p *plug) plugIn(wire *os.File, log *slog.Logger) error {
	p.wire, p.log = nil, log
	if err := unix.SetNonblock(int(wire.Fd()), true); err != nil {
		return err
	}
	fd, err := unix.Dup(int(wire.Fd()))
	if err != nil {
		return err
	}
	unix.CloseOnExec(fd)
	_ = unix.SetNonblock(fd, true)
	p.wire = os.NewFile(uintptr(fd), "wire")
	_ = wire.Close()

	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	p.inbox = os.NewFile(uintptr(s), "inbox")
	place := p.place(p.ownName())
	if err := os.Remove(place); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a killed cable
		return err
	}
	if err := unix.Bind(s, &unix.SockaddrUnix{Name: place}); err != nil {
		return err
	}
	if p.outbox, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	limit := unix.NsecToTimeval(int64(peerTime))
	return unix.SetsockoptTimeval(p.outbox, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)
}

// unplug removes the VM from the network.
func (p *plug) unplug() {
	_ = os.Remove(p.place(p.ownName()))
	_ = p.inbox.Close()
	_ = p.wire.Close()
}

// toVM sends a frame to the VM.
func (p *plug) toVM(frame []byte) { _, _ = p.wire.Write(frame) }

// fromPeers sends frames of the other VMs to the VM until the plug is unplugged.
func (p *plug) fromPeers() {
	frame := make([]byte, frameLimit)
	for {
		n, err := p.inbox.Read(frame)
		if err != nil {
			return
		}
		p.toVM(frame[:n])
	}
}

// fromVM delivers the frames of the VM until the VM ends or the plug is unplugged.
func (p *plug) fromVM(ctx context.Context) {
	frame := make([]byte, frameLimit)
	for {
		n, err := p.wire.Read(frame)
		if errors.Is(err, unix.ENETDOWN) && ctx.Err() == nil { // the interface was turned off
			_ = wait.For(ctx, peerTime)
			continue
		}
		if err != nil {
			return
		}
		if n >= headerSize {
			p.deliver(frame[:n])
		}
	}
}

// Offsets in a frame.
const (
	headerSize = 14
	typeARP    = 0x0806
)

func (p *plug) deliver(frame []byte) {
	to := [6]byte(frame[:6])
	switch {
	case p.out != nil && (to == mac(p.Gateway) || p.out.owns(to)):
		p.out.send(frame)
	case to[0]&1 == 0:
		p.toPeer(nameOf(to), frame)
	case p.Out && p.isForGateway(frame):
		p.toVM(p.answerARP(frame))
	default:
		for _, name := range p.others() {
			p.toPeer(name, frame)
		}
	}
}

// toPeer sends a frame to another VM. The frame is lost if that VM does not exist or is
// too slow: senders repeat lost frames.
func (p *plug) toPeer(name string, frame []byte) {
	if len(name) != 2*len(mac(p.Gateway)) || name == p.ownName() {
		return
	}
	_ = unix.Sendto(p.outbox, frame, 0, &unix.SockaddrUnix{Name: p.place(name)})
}

// peersAge is how old the list of the other VMs may be.
const peersAge = 250 * time.Millisecond

// others lists the other VMs of the network.
func (p *plug) others() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.read) > peersAge {
		p.read = time.Now()
		names, err := os.ReadDir(byDescriptor(p.folder) + "/")
		if err != nil {
			p.log.Error("cannot list the VMs of the network", "cause", err)
		}
		p.peers = p.peers[:0]
		for _, entry := range names {
			p.peers = append(p.peers, entry.Name())
		}
	}
	return slices.Clone(p.peers)
}

// isForGateway reports whether a frame asks for the hardware address of the
// gateway.
func (p *plug) isForGateway(frame []byte) bool {
	if !p.Gateway.Is4() || len(frame) < headerSize+28 || binary.BigEndian.Uint16(frame[12:]) != typeARP {
		return false
	}
	arp := frame[headerSize:]
	return binary.BigEndian.Uint16(arp[6:]) == 1 && bytes.Equal(arp[24:28], p.Gateway.AsSlice())
}

// answerARP is the gateway's answer to a frame for which isForGateway is true.
func (p *plug) answerARP(frame []byte) []byte {
	gateway := mac(p.Gateway)
	answer := slices.Clone(frame[:headerSize+28])
	copy(answer[0:6], frame[6:12])
	copy(answer[6:12], gateway[:])
	arp, asked := answer[headerSize:], frame[headerSize:]
	binary.BigEndian.PutUint16(arp[6:], 2)
	copy(arp[8:14], gateway[:])
	copy(arp[14:18], asked[24:28])
	copy(arp[18:28], asked[8:18])
	return answer
}
