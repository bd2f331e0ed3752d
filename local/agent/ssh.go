package agent

import (
	"context"
	"regexp"
	"sync"

	"golang.org/x/crypto/ssh"
)

// sshReply is the value of the message ssh. The address has a port, unlike that
// of the real agent, whose SSH server is at port 22.
type sshReply struct {
	Command       string `json:"command"`
	Status        string `json:"status"`
	IP            string `json:"ip,omitempty"`
	HostPublicKey string `json:"host_public_key,omitempty"`
}

var userName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`) })

// ssh is the message ssh, which adds and removes temporary users.
func (a *embeddedAgent) ssh(_ context.Context, c *call) (any, error) {
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
		return a.addUser(params.User, params.PublicKey)
	case "cleanup":
		pattern, err := regexp.Compile(params.UserRegex)
		if err != nil {
			return nil, failf("SSH Cleanup: Deleting Ephemeral Users: Compiling regexp: %w", err)
		}
		a.sshd.RemoveUsers(pattern)
		return sshReply{Command: command, Status: "success"}, nil
	}
	return nil, failf("Unknown command for SSH method")
}

func (a *embeddedAgent) addUser(name, publicKey string) (any, error) {
	if !userName().MatchString(name) {
		return nil, failf("Creating user: %q is no user name", name)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(publicKey))
	if err != nil {
		return nil, failf("Setting host public key: %w", err)
	}
	host, err := a.sshd.HostKey()
	if err != nil {
		return nil, failf("Getting host public key: %w", err)
	}
	address, err := a.sshd.AddUser(name, key)
	if err != nil {
		return nil, failf("Creating user: %w", err)
	}
	return sshReply{Command: "setup", Status: "success", IP: address, HostPublicKey: string(ssh.MarshalAuthorizedKey(host))}, nil
}
