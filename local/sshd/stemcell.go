package sshd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Files of a stemcell.
const (
	stemcellHostKey = "/etc/ssh/ssh_host_rsa_key" // the agent reports its public half
	stemcellUsers   = "/etc/passwd"
	keysFile        = ".ssh/authorized_keys"
)

// ServeStemcell serves one connection to a VM whose users the agent of a stemcell has
// made: they are in the VM's /etc/passwd, and their keys in their homes. All of them run
// as the owner of the VM.
func (s *Server) ServeStemcell(conn net.Conn) error {
	s.cfg.hostKey = stemcellHostKey
	s.cfg.users = func(name string) (account, error) { return userOf(stemcellUsers, name) }
	config, err := s.config()
	if err != nil {
		return err
	}
	s.serve(conn, config)
	return nil
}

// account is a user of the VM.
type account struct {
	home string
	keys [][]byte
}

// userOf returns a user from a passwd file, with the keys in the user's home.
func userOf(passwd, name string) (a account, err error) {
	text, err := os.ReadFile(passwd)
	if err != nil {
		return a, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) == 7 && fields[0] == name {
			a.home = fields[5]
		}
	}
	if a.home == "" {
		return a, fmt.Errorf("the VM has no user '%s'", name)
	}
	rest, err := os.ReadFile(filepath.Join(a.home, keysFile))
	if errors.Is(err, os.ErrNotExist) {
		return a, nil
	}
	for err == nil && len(rest) > 0 {
		var key ssh.PublicKey
		if key, _, _, rest, err = ssh.ParseAuthorizedKey(rest); err == nil {
			a.keys = append(a.keys, key.Marshal())
		}
	}
	return a, nil // the rest is a comment
}
