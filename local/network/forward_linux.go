package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/listener"
	"bootstrap/internal/wait"
)

// Open listens at the published ports. If another process uses a port, the error names
// the process.
func Open(ctx context.Context, ports []Port) (open []*os.File, err error) {
	for _, p := range ports {
		f, err := p.open(ctx)
		if err != nil {
			closeAll(open)
			return nil, fmt.Errorf("cannot publish port %d of the VM at %s: %w", p.Port, p.Listen, err)
		}
		open = append(open, f)
	}
	return open, nil
}

func (p Port) open(ctx context.Context) (*os.File, error) {
	var opened interface{ File() (*os.File, error) }
	var closer io.Closer
	var config net.ListenConfig
	if p.Network == "udp" {
		conn, err := config.ListenPacket(ctx, "udp", p.listenAddress())
		if err != nil {
			return nil, p.why(ctx, err)
		}
		opened, closer = conn.(*net.UDPConn), conn
	} else {
		l, err := config.Listen(ctx, "tcp", p.listenAddress())
		if err != nil {
			return nil, p.why(ctx, err)
		}
		opened, closer = l.(*net.TCPListener), l
	}
	defer closer.Close()
	return opened.File()
}

// why adds to the error of a port that cannot be opened which process uses the port, or why
// the machine refuses it.
func (p Port) why(ctx context.Context, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) && p.Network == "tcp" {
		return fmt.Errorf("%v uses the port: %w", listener.At(ctx, p.listenAddress()), err)
	}
	if why := listener.Refused(p.listenAddress(), err); why != "" {
		return fmt.Errorf("%s: %w", why, err)
	}
	return err
}

// publish forwards an open port to the VM until the result is closed.
func (r *running) publish(ctx context.Context, p Port, open *os.File) (io.Closer, error) {
	defer open.Close()
	target := p.target(r.Spec)
	if p.Network == "udp" {
		conn, err := net.FilePacketConn(open)
		if err != nil {
			return nil, err
		}
		guard.Go(ctx, func() { r.forwardPackets(ctx, conn.(*net.UDPConn), target) })
		return conn, nil
	}
	l, err := net.FileListener(open)
	if err != nil {
		return nil, err
	}
	guard.Go(ctx, func() { r.forwardConnections(ctx, l, target) })
	return l, nil
}

// target returns the destination of a port's traffic: the main address of the VM.
func (p Port) target(s *Spec) string {
	return net.JoinHostPort(s.Interfaces[0].Address.Addr().String(), strconv.Itoa(int(p.Port)))
}

// acceptPause is the pause after a connection could not be accepted, for example because
// too many files are open.
const acceptPause = 50 * time.Millisecond

func (r *running) forwardConnections(ctx context.Context, l net.Listener, target string) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return
		}
		if err != nil {
			r.log.Error("cannot accept a connection", "port", l.Addr(), "cause", err)
			_ = wait.For(ctx, acceptPause)
			continue
		}
		guard.Go(ctx, func() {
			defer conn.Close()
			inside, err := r.dial(ctx, "tcp", target)
			if err != nil {
				if !errors.Is(err, syscall.ECONNREFUSED) {
					r.log.Warn("cannot forward a connection", "port", l.Addr(), "to", target, "cause", err)
				}
				reset(conn)
				return
			}
			defer inside.Close()
			exchange(ctx, conn, inside)
		})
	}
}

func (r *running) dial(ctx context.Context, network, target string) (net.Conn, error) {
	return dial(ctx, byDescriptor(r.folder), network, target)
}

// reset ends a connection as a closed port does.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// exchange copies in both directions until both have ended.
func exchange(ctx context.Context, a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(guard.Part(ctx, func() {
			if _, err := io.Copy(way[0], way[1]); err != nil {
				_ = way[1].Close()
			}
			if half, ok := way[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		}))
	}
	both.Wait()
}

// Limits of the conversations at a UDP port.
const (
	idleTime   = time.Minute // a conversation without packets ends after this time
	maxClients = 1024
)

// forwardPackets forwards the packets of each client over a socket of its own, so that
// answers find the client.
func (r *running) forwardPackets(ctx context.Context, outside *net.UDPConn, target string) {
	var mu sync.Mutex
	clients := map[netip.AddrPort]net.Conn{}
	packet := make([]byte, frameLimit)
	for {
		n, from, err := outside.ReadFromUDPAddrPort(packet)
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return
		}
		if err != nil {
			continue // the client refused an answer
		}
		mu.Lock()
		inside, full := clients[from], len(clients) >= maxClients
		mu.Unlock()
		if inside == nil && full {
			continue
		}
		if inside == nil {
			if inside, err = r.dial(ctx, "udp", target); err != nil {
				continue
			}
			mu.Lock()
			clients[from] = inside
			mu.Unlock()
			guard.Go(ctx, func() {
				defer func() {
					mu.Lock()
					delete(clients, from)
					mu.Unlock()
					_ = inside.Close()
				}()
				answers := make([]byte, frameLimit)
				for {
					n, err := inside.Read(answers)
					if errors.Is(err, syscall.ECONNREFUSED) {
						continue
					}
					if err != nil {
						return
					}
					_, _ = outside.WriteToUDPAddrPort(answers[:n], from)
				}
			})
		}
		_ = inside.SetReadDeadline(time.Now().Add(idleTime))
		_, _ = inside.Write(packet[:n])
	}
}
