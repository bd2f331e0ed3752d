package sshd

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"regexp"

	"golang.org/x/crypto/ssh"
)

var errRefused = errors.New("not admitted")

// user is a temporary user. All of them run as the owner of the VM: their names only
// distinguish their sessions.
type user struct {
	key   ssh.PublicKey
	conns map[*ssh.ServerConn]bool
}

func (s *Server) isImageUser(name string) bool {
	return s.cfg.Image != nil && s.cfg.Image.User == name
}

// AddUser adds a temporary user with the key and returns the address of the server. If
// the server was not listening yet, it starts to listen at the loopback address.
func (s *Server) AddUser(name string, key ssh.PublicKey) (address string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[name] != nil || s.isImageUser(name) {
		return "", fmt.Errorf("user '%s' already exists", name)
	}
	if s.listener == nil {
		if err := s.listen("127.0.0.1:0"); err != nil {
			return "", err
		}
	}
	s.users[name] = &user{key: key, conns: map[*ssh.ServerConn]bool{}}
	s.cfg.Log.Info("an SSH user was added", "user", name)
	return reachable(s.listener.Addr()), nil
}

// reachable returns the address at which this machine reaches a listener.
func reachable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: tcp.Port}).String()
	}
	return addr.String()
}

// RemoveUsers removes the temporary users whose names match and ends their
// sessions.
func (s *Server) RemoveUsers(names *regexp.Regexp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, u := range s.users {
		if !names.MatchString(name) {
			continue
		}
		delete(s.users, name)
		for conn := range u.conns {
			conn.Close()
		}
		s.cfg.Log.Info("an SSH user was removed", "user", name)
	}
	if len(s.users) == 0 && s.cfg.Image == nil {
		s.stopListening()
	}
}

// enter records a connection, so that it ends with its user; leave removes the record. ok
// is false if the user was removed after the key was checked.
func (s *Server) enter(conn *ssh.ServerConn) (leave func(), ok bool) {
	if s.isImageUser(conn.User()) {
		return func() { s.forwards.removeAll(conn) }, true
	}
	if s.cfg.users != nil {
		return func() {}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[conn.User()]
	if u == nil {
		return nil, false
	}
	u.conns[conn] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(u.conns, conn)
	}, true
}

// config returns the server's configuration: temporary users log in with their
// keys, the user of the image with keys or the password.
func (s *Server) config() (*ssh.ServerConfig, error) {
	signer, err := s.hostKey()
	if err != nil {
		return nil, err
	}
	imageKeys, err := s.imageKeys()
	if err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			keys := imageKeys
			if !s.isImageUser(c.User()) {
				keys = s.keysOf(c.User())
			}
			for _, k := range keys {
				if bytes.Equal(k, key.Marshal()) {
					return nil, nil
				}
			}
			return nil, errRefused
		},
	}
	if s.cfg.Image != nil && s.cfg.Image.Password != "" {
		config.PasswordCallback = func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			return nil, s.checkPassword(c.User(), password)
		}
		config.KeyboardInteractiveCallback = func(c ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil || len(answers) != 1 {
				return nil, errRefused
			}
			return nil, s.checkPassword(c.User(), []byte(answers[0]))
		}
	}
	config.AddHostKey(signer)
	return config, nil
}

// imageKeys returns the keys of the image's user.
func (s *Server) imageKeys() ([][]byte, error) {
	if s.cfg.Image == nil {
		return nil, nil
	}
	var keys [][]byte
	for _, line := range s.cfg.Image.AuthorizedKeys {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("cannot read an authorized key in boot.json: %w", err)
		}
		keys = append(keys, key.Marshal())
	}
	return keys, nil
}

// keysOf returns the keys of any other user.
func (s *Server) keysOf(name string) [][]byte {
	if s.cfg.users != nil {
		known, _ := s.cfg.users(name)
		return known.keys
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.users[name]; u != nil {
		return [][]byte{u.key.Marshal()}
	}
	return nil
}

func (s *Server) checkPassword(name string, password []byte) error {
	right := subtle.ConstantTimeCompare([]byte(s.cfg.Image.Password), password) == 1 &&
		subtle.ConstantTimeCompare([]byte(s.cfg.Image.User), []byte(name)) == 1
	if !right {
		return errRefused
	}
	return nil
}
