// Package sshd is the SSH server of an embedded VM. It admits two kinds of users: the
// user of the VM's image, who can only forward ports to the VM and, if the VM is a
// jumpbox, connect to addresses that the VM reaches; and temporary users, who can only
// run commands and shells.
package sshd

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"bootstrap/agent"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
	"bootstrap/local/machine"

	"golang.org/x/crypto/ssh"
)

const (
	handshakeTimeout = 30 * time.Second
	keepAliveEvery   = 15 * time.Second // and the limit for a reply
	keepAliveLate    = 5 * time.Second
	acceptPause      = 100 * time.Millisecond // after an error of the listener
	maxClients       = 64
)

// Config has the name of the VM, and the user of its image.
type Config struct {
	VM    machine.VM
	Name  string         // name of the VM
	Image *agent.BootSSH // the user of the VM's image, and the server's address; nil: there is no such user
	Log   *slog.Logger

	hostKey string                             // file with the host key; empty: the server makes one
	users   func(name string) (account, error) // returns the users of the VM; nil: only added users exist
}

// Server is the SSH server. With a user of the image, it listens from Start to Close;
// otherwise, while there are temporary users. Its methods may be called at the same time.
type Server struct {
	cfg      Config
	forwards *forwards
	slots    chan struct{}
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	clients  sync.WaitGroup

	mu       sync.Mutex
	users    map[string]*user // temporary users by name
	listener net.Listener     // nil while no user exists
}

// New returns a Server that does not listen yet; the caller must call Close. It continues
// after the end of ctx, to whose run it reports panics.
func New(ctx context.Context, cfg Config) *Server {
	s := &Server{cfg: cfg, forwards: newForwards(), slots: make(chan struct{}, maxClients), users: map[string]*user{}}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// Start listens at the address of the image's user, if there is such a user.
func (s *Server) Start() error {
	if s.cfg.Image == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listen(s.cfg.Image.Address)
}

// Close ends all sessions and stops listening.
func (s *Server) Close() {
	s.cancel()
	s.mu.Lock()
	s.stopListening()
	s.mu.Unlock()
	s.clients.Wait()
}

// HostKey returns the public key by which clients identify the VM.
func (s *Server) HostKey() (ssh.PublicKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	signer, err := s.hostKey()
	if err != nil {
		return nil, err
	}
	return signer.PublicKey(), nil
}

// hostKey reads the host key, which the first call creates.
func (s *Server) hostKey() (ssh.Signer, error) {
	file := cmp.Or(s.cfg.hostKey, s.cfg.VM.Own("ssh_host_key"))
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && s.cfg.hostKey == "" {
		_, key, gerr := ed25519.GenerateKey(rand.Reader)
		if gerr != nil {
			return nil, gerr
		}
		block, merr := ssh.MarshalPrivateKey(key, s.cfg.Name)
		if merr != nil {
			return nil, merr
		}
		data = pem.EncodeToMemory(block)
		err = atomicfile.Write(file, data)
	}
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("cannot read the host key %s: %w", file, err)
	}
	return signer, nil
}

// listen starts to serve clients at address. The caller holds mu.
func (s *Server) listen(address string) error {
	config, err := s.config()
	if err != nil {
		return fmt.Errorf("cannot start the VM's SSH server: %w", err)
	}
	if s.ctx.Err() != nil {
		return errors.New("cannot start the VM's SSH server: the agent ends")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("cannot start the VM's SSH server: %w", err)
	}
	s.listener = listener
	s.clients.Go(guard.Part(s.ctx, func() { s.accept(listener, config) }))
	s.cfg.Log.Info("the SSH server listens", "address", listener.Addr())
	return nil
}

// stopListening admits no new clients. The caller holds mu.
func (s *Server) stopListening() {
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
}

// accept serves the clients of one listener until it is closed.
func (s *Server) accept(listener net.Listener, config *ssh.ServerConfig) {
	for {
		raw, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// For example, too many files are open, until other processes close some.
			s.cfg.Log.Error("the SSH server cannot accept a connection", "cause", err)
			_ = wait.For(s.ctx, acceptPause)
			continue
		}
		select {
		case s.slots <- struct{}{}:
		default:
			raw.Close()
			continue
		}
		s.clients.Go(guard.Part(s.ctx, func() {
			defer func() { <-s.slots }()
			s.serve(raw, config)
		}))
	}
}

// serve serves one connection until it or the server ends.
func (s *Server) serve(raw net.Conn, config *ssh.ServerConfig) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer raw.Close()
	defer guard.AfterDone(ctx, func() { raw.Close() })()
	_ = raw.SetDeadline(time.Now().Add(handshakeTimeout))
	conn, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		s.cfg.Log.Warn("an SSH client was refused", "from", raw.RemoteAddr(), "cause", err)
		return
	}
	_ = raw.SetDeadline(time.Time{})
	leave, ok := s.enter(conn)
	if !ok {
		return
	}
	defer leave()
	s.cfg.Log.Info("an SSH client logged in", "user", conn.User(), "from", raw.RemoteAddr())
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(guard.Part(ctx, func() { keepAlive(ctx, conn) }))
	parts.Go(guard.Part(ctx, func() {
		for r := range requests {
			s.answer(conn, r)
		}
	}))
	parts.Go(guard.Part(ctx, func() {
		for asked := range channels {
			s.open(ctx, &parts, conn, asked)
		}
	}))
	_ = conn.Wait()
	cancel()
	s.cfg.Log.Info("an SSH client logged out", "user", conn.User(), "from", raw.RemoteAddr())
}

// open starts a session of a temporary user, or connects the image's user to an address;
// it rejects other channels.
func (s *Server) open(ctx context.Context, parts *sync.WaitGroup, conn *ssh.ServerConn, asked ssh.NewChannel) {
	switch {
	case s.isImageUser(conn.User()) && s.cfg.Image.Jumpbox && asked.ChannelType() == "direct-tcpip":
		parts.Go(guard.Part(ctx, func() { s.outward(ctx, parts, asked) }))
		return
	case s.isImageUser(conn.User()):
		_ = asked.Reject(ssh.Prohibited, "this user can only forward ports to the VM")
		return
	case asked.ChannelType() != "session":
		_ = asked.Reject(ssh.UnknownChannelType, "this user can only run commands and shells")
		return
	}
	channel, requests, err := asked.Accept()
	if err != nil {
		return
	}
	one := &session{vm: s.cfg.VM, log: s.cfg.Log, user: conn.User(), channel: channel}
	if s.cfg.users != nil {
		known, _ := s.cfg.users(conn.User())
		one.home = known.home
	}
	parts.Go(guard.Part(ctx, func() { one.serve(ctx, requests) }))
}

// keepAlive closes a connection whose other end no longer answers.
func keepAlive(ctx context.Context, conn *ssh.ServerConn) {
	for wait.For(ctx, keepAliveEvery) == nil {
		reply := guard.Start(ctx, func() error {
			_, _, err := conn.SendRequest("keepalive@openssh.com", true, nil)
			return err
		})
		if !answers(reply) {
			conn.Close()
			return
		}
	}
}

// answers reports whether the reply comes in time. On a machine that was paused, the time
// is over before the reply is read: it then waits for a moment longer.
func answers(reply <-chan error) bool {
	for _, limit := range []time.Duration{keepAliveEvery, keepAliveLate} {
		select {
		case err := <-reply:
			return err == nil
		case <-time.After(limit):
		}
	}
	return false
}
