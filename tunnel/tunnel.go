// Package tunnel opens an SSH connection to a VM and lets the VM reach a
// server of this process through a port that the VM's SSH server listens on.
package tunnel

import (
	"context"
	"errors"
	"net"
	"time"
)

// Config says where the VM is, who may enter and what is listened on.
type Config struct {
	Host        string
	Port        int // 0: 22
	User        string
	Password    string // for the methods password and keyboard-interactive
	PrivateKey  string // text of a key, in any format of OpenSSH or PEM
	Passphrase  string // of PrivateKey
	AgentSocket string // of an ssh-agent, SSH_AUTH_SOCK; empty: none

	KnownHosts string // file that remembers the key of each HostName
	HostName   string // VM CID: addresses are used again, VMs are not
	Remote     string // host:port that the VM's SSH server listens on

	ConnectTimeout time.Duration // until the SSH server answers; 5 min
	AuthTimeout    time.Duration // until it admits us, from its first answer on; 2 min
	Report         func(string)  // told of waiting, loss and return; may be nil
}

// Tunnel is open until Close.
type Tunnel struct{}

// Open connects, listens on the VM, and calls serve with the listener in a
// goroutine of its own. When the connection is lost it is made anew, and
// serve called again with another listener. Serve must return when its
// listener is closed.
func Open(ctx context.Context, cfg Config, serve func(net.Listener) error) (*Tunnel, error) {
	return nil, errors.New("not built")
}

// Close ends the connection and waits for serve; the error is that of Err.
func (t *Tunnel) Close() error { return nil }

// Err is why the tunnel is not open now, nil while it is.
func (t *Tunnel) Err() error { return nil }
