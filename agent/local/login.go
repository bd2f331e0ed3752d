package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"sync"

	"golang.org/x/crypto/ssh"
)

// logins are the temporary users of the VM and the SSH server that admits
// them, which is there while there are any. All of them are the VM's owner;
// their names only tell whose session is whose.
type logins struct {
	vm      *vm
	ctx     context.Context // the life of the server
	cancel  context.CancelFunc
	clients sync.WaitGroup

	mu       sync.Mutex
	keys     map[string]ssh.PublicKey // by user
	sessions map[string]map[*ssh.ServerConn]bool
	listener net.Listener // nil: no server
}

func newLogins(v *vm) *logins {
	l := &logins{vm: v, keys: map[string]ssh.PublicKey{}, sessions: map[string]map[*ssh.ServerConn]bool{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// sshReply is the value of the message ssh. The address has a port, which
// the real agent's has not: its VM has its SSH server at port 22.
type sshReply struct {
	Command       string `json:"command"`
	Status        string `json:"status"`
	IP            string `json:"ip,omitempty"`
	HostPublicKey string `json:"host_public_key,omitempty"`
}

var userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// ssh is the message that makes and removes temporary users.
func (v *vm) ssh(ctx context.Context, c *call) (any, error) {
	var command string
	var params struct {
		User      string `json:"user"`
		PublicKey string `json:"public_key"`
		UserRegex string `json:"user_regex"`
	}
	if err := c.bind(2, &command, &params); err != nil {
		return nil, err
	}
	switch command {
	case "setup":
		return v.logins.setup(params.User, params.PublicKey)
	case "cleanup":
		pattern, err := regexp.Compile(params.UserRegex)
		if err != nil {
			return nil, failf("SSH Cleanup: Deleting Ephemeral Users: Compiling regexp: %w", err)
		}
		v.logins.cleanup(pattern)
		return sshReply{Command: command, Status: "success"}, nil
	}
	return nil, failf("Unknown command for SSH method")
}

func (l *logins) setup(user, publicKey string) (any, error) {
	if !userName.MatchString(user) {
		return nil, failf("Creating user: %q is no user name", user)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(publicKey))
	if err != nil {
		return nil, failf("Setting host public key: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	signer, err := l.vm.hostKey() // made by the first who asks
	if err != nil {
		return nil, failf("Getting host public key: %w", err)
	}
	if l.keys[user] != nil {
		return nil, failf("Creating user: user '%s' already exists", user)
	}
	if l.listener == nil {
		if err := l.serve(signer); err != nil {
			return nil, failf("Creating user: %w", err)
		}
	}
	l.keys[user] = key
	l.vm.log.Info("an SSH user was made", "user", user)
	return sshReply{
		Command: "setup", Status: "success", IP: l.listener.Addr().String(),
		HostPublicKey: string(ssh.MarshalAuthorizedKey(signer.PublicKey())),
	}, nil
}

// cleanup removes users and ends their sessions; with the last one goes the
// server.
func (l *logins) cleanup(users *regexp.Regexp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for user := range l.keys {
		if !users.MatchString(user) {
			continue
		}
		delete(l.keys, user)
		for conn := range l.sessions[user] {
			conn.Close()
		}
		l.vm.log.Info("an SSH user was removed", "user", user)
	}
	if len(l.keys) == 0 && l.listener != nil {
		l.listener.Close()
		l.listener = nil
	}
}

// close ends the server and every session.
func (l *logins) close() {
	l.cancel()
	l.cleanup(regexp.MustCompile(""))
	l.clients.Wait()
}

// serve starts the server, on the loopback: whoever is on this machine may
// knock, who has a user's key may enter.
func (l *logins) serve(hostKey ssh.Signer) error {
	if l.ctx.Err() != nil {
		return errors.New("the agent ends")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot start the VM's SSH server: %w", err)
	}
	config := &ssh.ServerConfig{PublicKeyCallback: l.admit}
	config.AddHostKey(hostKey)
	slots := make(chan struct{}, maxSSHClients)
	l.clients.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			select {
			case slots <- struct{}{}:
			default:
				conn.Close()
				continue
			}
			l.clients.Go(func() {
				defer func() { <-slots }()
				l.serveClient(conn, config)
			})
		}
	})
	l.listener = listener
	return nil
}

var errNotAdmitted = errors.New("not admitted")

func (l *logins) admit(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if want := l.keys[c.User()]; want == nil || !bytes.Equal(want.Marshal(), key.Marshal()) {
		return nil, errNotAdmitted
	}
	return nil, nil
}

// enter notes a session, so that it ends with its user.
func (l *logins) enter(conn *ssh.ServerConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys[conn.User()] == nil {
		return false // removed since
	}
	if l.sessions[conn.User()] == nil {
		l.sessions[conn.User()] = map[*ssh.ServerConn]bool{}
	}
	l.sessions[conn.User()][conn] = true
	return true
}

func (l *logins) leave(conn *ssh.ServerConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions[conn.User()], conn)
	if len(l.sessions[conn.User()]) == 0 {
		delete(l.sessions, conn.User())
	}
}
