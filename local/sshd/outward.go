package sshd

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"bootstrap/internal/guard"
)

// reachTimeout is how long an address may take to accept a connection.
const reachTimeout = 15 * time.Second

// outward connects a client of the image's user to an address that the VM can reach, as a
// jumpbox does (RFC 4254, 7.2).
func (s *Server) outward(ctx context.Context, parts *sync.WaitGroup, asked ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(asked.ExtraData(), &to); err != nil || to.Port > 65535 {
		_ = asked.Reject(ssh.ConnectionFailed, "the request names no address")
		return
	}
	dialer := net.Dialer{Timeout: reachTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		_ = asked.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer conn.Close()
	defer guard.AfterDone(ctx, func() { conn.Close() })()
	channel, requests, err := asked.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	parts.Go(guard.Part(ctx, func() { ssh.DiscardRequests(requests) }))
	var back sync.WaitGroup
	back.Go(guard.Part(ctx, func() {
		_, _ = io.Copy(channel, conn)
		_ = channel.CloseWrite()
	}))
	_, _ = io.Copy(conn, channel)
	if half, ok := conn.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
	back.Wait()
}
