package tunnel

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A sshServer is the VM's SSH server: it admits users and forwards ports as
// RFC 4254 says. Fields are set before the first connection.
type sshServer struct {
	t        *testing.T
	config   *ssh.ServerConfig
	listener net.Listener
	done     sync.WaitGroup

	mu            sync.Mutex
	conns         map[net.Conn]bool
	forwards      chan string         // addresses on which it has begun to listen
	refuseForward func() bool         // nil: never
	banner        func(net.Conn) bool // is called before the handshake; false: there is no handshake
	mute          bool                // does not answer keep-alives
	session       func(*sshServer, ssh.NewChannel)
}

func newServer(t *testing.T, config *ssh.ServerConfig, hostKeys ...ssh.Signer) *sshServer {
	t.Helper()
	if len(hostKeys) == 0 {
		hostKeys = []ssh.Signer{newSigner(t)}
	}
	for _, key := range hostKeys {
		config.AddHostKey(key)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sshServer{t: t, config: config, listener: listener, conns: map[net.Conn]bool{}, forwards: make(chan string, 100)}
	s.done.Go(s.accept)
	t.Cleanup(s.close)
	return s
}

func (s *sshServer) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *sshServer) close() {
	s.listener.Close()
	s.disconnect()
	s.done.Wait()
}

// disconnect breaks every connection abruptly.
func (s *sshServer) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		conn.Close()
	}
}

func (s *sshServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *sshServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.done.Go(func() {
			defer func() {
				conn.Close()
				s.mu.Lock()
				delete(s.conns, conn)
				s.mu.Unlock()
			}()
			s.serve(conn)
		})
	}
}

func (s *sshServer) serve(conn net.Conn) {
	s.mu.Lock()
	banner := s.banner
	s.mu.Unlock()
	if banner != nil && !banner(conn) {
		return
	}
	sshConn, chans, reqs, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
		sshConn.Close()
	}()
	s.done.Go(func() {
		for ch := range chans {
			s.mu.Lock()
			session := s.session
			s.mu.Unlock()
			if ch.ChannelType() == "session" && session != nil {
				s.done.Go(func() { session(s, ch) })
				continue
			}
			s.direct(ch)
		}
	})
	for req := range reqs {
		s.mu.Lock()
		mute, refuse := s.mute, s.refuseForward
		s.mu.Unlock()
		if req.Type != "tcpip-forward" {
			if !mute {
				_ = req.Reply(false, nil)
			}
			continue
		}
		var want struct {
			Host string
			Port uint32
		}
		if ssh.Unmarshal(req.Payload, &want) != nil || want.Host != "127.0.0.1" || refuse != nil && refuse() {
			_ = req.Reply(false, nil)
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(want.Host, strconv.Itoa(int(want.Port))))
		if err != nil {
			_ = req.Reply(false, nil)
			continue
		}
		listeners = append(listeners, l)
		port := uint32(l.Addr().(*net.TCPAddr).Port)
		s.forwards <- l.Addr().String() // sent before the tunnel is open
		_ = req.Reply(true, ssh.Marshal(struct{ Port uint32 }{port}))
		s.done.Go(func() { s.forward(sshConn, l, want.Host, port) })
	}
}

// direct connects to the target of a jump.
func (s *sshServer) direct(asked ssh.NewChannel) {
	var want struct {
		Host     string
		Port     uint32
		FromHost string
		FromPort uint32
	}
	if asked.ChannelType() != "direct-tcpip" || ssh.Unmarshal(asked.ExtraData(), &want) != nil {
		_ = asked.Reject(ssh.Prohibited, "no")
		return
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(want.Host, strconv.Itoa(int(want.Port))))
	if err != nil {
		_ = asked.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	ch, reqs, err := asked.Accept()
	if err != nil {
		conn.Close()
		return
	}
	go ssh.DiscardRequests(reqs)
	s.done.Go(func() { join(ch, conn) })
}

func join(ch ssh.Channel, conn net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(ch, conn); _ = ch.CloseWrite() })
	both.Go(func() { _, _ = io.Copy(conn, ch); conn.Close() })
	both.Wait()
	ch.Close()
}

// forward passes each connection on to the other side.
func (s *sshServer) forward(sshConn *ssh.ServerConn, l net.Listener, host string, port uint32) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.done.Go(func() {
			defer conn.Close()
			from := conn.RemoteAddr().(*net.TCPAddr)
			ch, reqs, err := sshConn.OpenChannel("forwarded-tcpip", ssh.Marshal(struct {
				Host     string
				Port     uint32
				FromHost string
				FromPort uint32
			}{host, port, from.IP.String(), uint32(from.Port)}))
			if err != nil {
				return
			}
			go ssh.DiscardRequests(reqs)
			join(ch, conn)
		})
	}
}

func newSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// newKey makes a key pair, and returns the private key as text and the public key.
func newKey(t testing.TB, passphrase string) (text string, public ssh.PublicKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return keyText(t, key, passphrase)
}

func newRSAKey(t testing.TB) (text string, public ssh.PublicKey) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return keyText(t, key, "")
}

func keyText(t testing.TB, key any, passphrase string) (text string, public ssh.PublicKey) {
	t.Helper()
	var block *pem.Block
	var err error
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(key, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), signer.PublicKey()
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); <-tick.C {
		if cond() {
			return
		}
	}
	t.Fatalf("it never comes to this: %s", what)
}
