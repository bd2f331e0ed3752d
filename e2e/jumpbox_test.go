//go:build unix

package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
)

// jumpBox is a real SSH server that only forwards connections. Names that end in
// .internal are resolved only by this server, and mean this machine.
type jumpBox struct {
	log      string // file with the addresses to which its clients connect, one per line
	logins   string // file with a line for each login
	admits   []byte
	listener net.Listener
	config   *ssh.ServerConfig
	done     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// jumpbox NAME starts a jumpbox that admits the user jumper with ssh.key. Its
// port is $NAME_PORT; NAME.log lists the addresses its clients connect to, and NAME.logins
// the logins.
func jumpbox(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: jumpbox NAME")
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(ts.Getenv("SSH_PUBLIC")))
	ts.Check(err)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	hostKey, err := ssh.NewSignerFromKey(key)
	ts.Check(err)
	b := &jumpBox{log: ts.MkAbs(args[0] + ".log"), logins: ts.MkAbs(args[0] + ".logins"), admits: public.Marshal()}
	b.config = &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() != "jumper" || subtle.ConstantTimeCompare(key.Marshal(), b.admits) != 1 {
			return nil, errors.New("not admitted")
		}
		return nil, nil
	}}
	b.config.AddHostKey(hostKey)
	ts.Check(os.WriteFile(b.log, nil, 0o600))
	b.listener, err = net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(strings.ToUpper(args[0])+"_PORT", fmt.Sprint(b.listener.Addr().(*net.TCPAddr).Port))
	ts.Setenv("SSH_KEY", filepath.Join(ts.Getenv("WORK"), "ssh.key"))
	b.done.Go(b.accept)
	ts.Defer(func() {
		b.listener.Close()
		b.mu.Lock()
		for _, conn := range b.conns {
			conn.Close()
		}
		b.mu.Unlock()
		b.done.Wait()
	})
}

func (b *jumpBox) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.conns = append(b.conns, conn)
		b.mu.Unlock()
		b.done.Go(func() {
			defer conn.Close()
			client, channels, requests, err := ssh.NewServerConn(conn, b.config)
			if err != nil {
				return
			}
			defer client.Close()
			b.note(b.logins, "login\n")
			b.done.Go(func() { ssh.DiscardRequests(requests) })
			for channel := range channels {
				b.done.Go(func() { b.forward(channel) })
			}
		})
	}
}

func (b *jumpBox) forward(asked ssh.NewChannel) {
	var want struct {
		Host     string
		Port     uint32
		FromHost string
		FromPort uint32
	}
	if asked.ChannelType() != "direct-tcpip" || ssh.Unmarshal(asked.ExtraData(), &want) != nil {
		_ = asked.Reject(ssh.Prohibited, "this jumpbox only forwards")
		return
	}
	b.note(b.log, fmt.Sprintf("%s:%d\n", want.Host, want.Port))
	host := want.Host
	if strings.HasSuffix(host, ".internal") {
		host = "127.0.0.1"
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(want.Port)))
	if err != nil {
		_ = asked.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	defer conn.Close()
	channel, requests, err := asked.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	b.done.Go(func() { ssh.DiscardRequests(requests) })
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(channel, conn)
		_ = channel.CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(conn, channel)
		_ = conn.(*net.TCPConn).CloseWrite()
	})
	both.Wait()
}

func (b *jumpBox) note(file, line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = io.WriteString(f, line)
}
