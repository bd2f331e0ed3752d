package local

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"bootstrap/internal/wait"
)

const (
	sshHandshake  = 30 * time.Second
	sshKeepAlive  = 15 * time.Second
	maxSSHClients = 64
)

// serveSSH starts the VM's SSH server. It serves for one thing: ports that are
// forwarded to the VM, which exist in forwards and nowhere else. The function
// returned stops it and waits.
func (v *vm) serveSSH(ctx context.Context, forwards *forwards) (stop func(), err error) {
	config, err := v.sshConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot start the VM's SSH server: %w", err)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", v.boot.SSH.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot start the VM's SSH server: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	clients.Go(func() {
		<-ctx.Done()
		listener.Close()
	})
	slots := make(chan struct{}, maxSSHClients)
	clients.Go(func() {
		defer cancel()
		for {
			conn, err := listener.Accept()
			if err != nil {
				if ctx.Err() == nil {
					v.log.Error("the SSH server cannot accept a connection", "cause", err)
				}
				if wait.For(ctx, 100*time.Millisecond) == nil {
					continue // too many open files pass
				}
				return
			}
			select {
			case slots <- struct{}{}:
			default:
				conn.Close()
				continue
			}
			clients.Go(func() {
				defer func() { <-slots }()
				v.serveClient(ctx, conn, config, forwards)
			})
		}
	})
	v.log.Info("the SSH server listens", "address", listener.Addr())
	return func() { cancel(); clients.Wait() }, nil
}

func (v *vm) sshConfig() (*ssh.ServerConfig, error) {
	key, err := v.hostKey()
	if err != nil {
		return nil, err
	}
	admitted := v.boot.SSH
	var keys [][]byte
	for _, line := range admitted.AuthorizedKeys {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("cannot read an authorized key in boot.json: %w", err)
		}
		keys = append(keys, key.Marshal())
	}
	refused := errors.New("not admitted")
	check := func(user string, password []byte) error {
		right := admitted.Password != "" &&
			subtle.ConstantTimeCompare([]byte(admitted.Password), password) == 1 &&
			subtle.ConstantTimeCompare([]byte(admitted.User), []byte(user)) == 1
		if !right {
			return refused
		}
		return nil
	}
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			for _, k := range keys {
				if c.User() == admitted.User && subtle.ConstantTimeCompare(k, key.Marshal()) == 1 {
					return nil, nil
				}
			}
			return nil, refused
		},
	}
	if admitted.Password != "" {
		config.PasswordCallback = func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			return nil, check(c.User(), password)
		}
		config.KeyboardInteractiveCallback = func(c ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil || len(answers) != 1 {
				return nil, refused
			}
			return nil, check(c.User(), []byte(answers[0]))
		}
	}
	config.AddHostKey(key)
	return config, nil
}

// hostKey is made once: clients remember it.
func (v *vm) hostKey() (ssh.Signer, error) {
	file := filepath.Join(v.dir, "ssh_host_key")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		_, key, gerr := ed25519.GenerateKey(rand.Reader)
		if gerr != nil {
			return nil, gerr
		}
		block, merr := ssh.MarshalPrivateKey(key, v.boot.Name)
		if merr != nil {
			return nil, merr
		}
		data = pem.EncodeToMemory(block)
		err = writeFile(file, data, 0o600)
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

// serveClient serves one connection until it or ctx ends.
func (v *vm) serveClient(ctx context.Context, raw net.Conn, config *ssh.ServerConfig, forwards *forwards) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer raw.Close()
	unwatch := context.AfterFunc(ctx, func() { raw.Close() })
	defer unwatch()
	_ = raw.SetDeadline(time.Now().Add(sshHandshake))
	conn, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		v.log.Warn("an SSH client was not admitted", "from", raw.RemoteAddr(), "cause", err)
		return
	}
	_ = raw.SetDeadline(time.Time{})
	v.log.Info("an SSH client came", "from", raw.RemoteAddr())
	defer forwards.removeAll(conn)
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() {
		for channel := range channels {
			_ = channel.Reject(ssh.Prohibited, "this server only forwards ports to the VM")
		}
	})
	parts.Go(func() {
		for r := range requests {
			v.answerSSH(conn, r, forwards)
		}
	})
	parts.Go(func() { keepAlive(ctx, conn) })
	_ = conn.Wait()
	cancel()
	v.log.Info("an SSH client went", "from", raw.RemoteAddr())
}

// keepAlive ends a connection whose other end is gone without a word.
func keepAlive(ctx context.Context, conn *ssh.ServerConn) {
	for wait.For(ctx, sshKeepAlive) == nil {
		late := time.AfterFunc(sshKeepAlive, func() { conn.Close() })
		_, _, err := conn.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			conn.Close()
			return
		}
	}
}

// forwardRequest is the payload of tcpip-forward and its cancellation.
type forwardRequest struct {
	Address string
	Port    uint32
}

func (v *vm) answerSSH(conn *ssh.ServerConn, r *ssh.Request, forwards *forwards) {
	var f forwardRequest
	ok, payload := false, []byte(nil)
	switch r.Type {
	case "tcpip-forward":
		if ssh.Unmarshal(r.Payload, &f) != nil || f.Port > 65535 || !loopback(f.Address) {
			break
		}
		port := forwards.add(conn, f)
		ok = true
		if f.Port == 0 {
			payload = ssh.Marshal(struct{ Port uint32 }{port})
		}
		v.log.Info("a port was forwarded to the VM", "port", port)
	case "cancel-tcpip-forward":
		ok = ssh.Unmarshal(r.Payload, &f) == nil && forwards.remove(conn, f.Port)
	}
	if r.WantReply {
		_ = r.Reply(ok, payload)
	}
}

// loopback tells whether a forwarded port is reached at the VM's loopback
// address.
func loopback(address string) bool {
	if address == "" || address == "localhost" || address == "*" {
		return true
	}
	ip := net.ParseIP(address)
	return ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
