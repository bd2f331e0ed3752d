package tunnel

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// auth contains the credentials of a login.
type auth struct {
	cfg    Config
	signer ssh.Signer // key of PrivateKey; nil: none is given
	known  knownKey   // the host key while the tunnel is open
}

func newAuth(cfg Config) (*auth, error) {
	a := &auth{cfg: cfg}
	if cfg.HostKey != "" {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(cfg.HostKey))
		if err != nil {
			return nil, fmt.Errorf("cannot read its host key: %w", err)
		}
		a.known = knownKey{key: key}
	}
	switch {
	case cfg.Host == "":
		return nil, errors.New("no host is given")
	case cfg.User == "":
		return nil, errors.New("no user is given")
	case cfg.PrivateKey == "" && cfg.Password == "" && cfg.AgentSocket == "":
		return nil, errors.New("there is no private key, no password and no ssh-agent")
	case cfg.PrivateKey == "" && cfg.Password == "":
		conn, err := net.DialTimeout("unix", cfg.AgentSocket, dialTimeout)
		if err != nil {
			return nil, fmt.Errorf("there is no private key and no password, and the ssh-agent does not answer: %w", err)
		}
		return a, conn.Close()
	case cfg.PrivateKey == "":
		return a, nil
	}
	var err error
	a.signer, err = readKey(cfg.PrivateKey, cfg.Passphrase)
	return a, err
}

// readKey reads a private key. Its errors never contain the key.
func readKey(text, passphrase string) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey([]byte(text))
	var missing *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return signer, nil
	case !errors.As(err, &missing):
		return nil, fmt.Errorf("cannot read the private key: %w; it must be one in OpenSSH or PEM format", err)
	case passphrase == "":
		return nil, errors.New("the private key is protected by a passphrase: set the environment variable BOOTSTRAP_SSH_PASSPHRASE")
	}
	signer, err = ssh.ParsePrivateKeyWithPassphrase([]byte(text), []byte(passphrase))
	switch {
	case errors.Is(err, x509.IncorrectPasswordError):
		return nil, errors.New("the passphrase in the environment variable BOOTSTRAP_SSH_PASSPHRASE does not belong to the private key")
	case err != nil:
		return nil, fmt.Errorf("cannot read the private key with its passphrase: %w", err)
	}
	return signer, nil
}

// methods returns the login methods in their order: the key, the keys of the agent, the
// password by keyboard-interactive, the password. done disconnects the agent.
func (a *auth) methods(ctx context.Context) (methods []ssh.AuthMethod, done func()) {
	done = func() {}
	var fromAgent agent.ExtendedAgent
	if a.cfg.AgentSocket != "" {
		dialer := net.Dialer{Timeout: dialTimeout}
		conn, err := dialer.DialContext(ctx, "unix", a.cfg.AgentSocket)
		if err != nil {
			a.cfg.Report(fmt.Sprintf("continuing without the ssh-agent: %v", err))
		} else {
			release := closeAfter(ctx, conn, handshakeTimeout)
			fromAgent = agent.NewClient(conn)
			done = func() { release(); _ = conn.Close() }
		}
	}
	if a.signer != nil || fromAgent != nil {
		methods = append(methods, ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			var signers []ssh.Signer
			if a.signer != nil {
				signers = append(signers, a.signer)
			}
			if fromAgent != nil {
				more, err := fromAgent.Signers()
				if err != nil {
					a.cfg.Report(fmt.Sprintf("continuing without the ssh-agent: %v", err))
				}
				signers = append(signers, more...)
			}
			return signers, nil
		}))
	}
	if a.cfg.Password != "" {
		methods = append(methods,
			ssh.KeyboardInteractive(func(_, _ string, questions []string, echos []bool) ([]string, error) {
				answers := make([]string, len(questions))
				for i := range questions {
					if !echos[i] || len(questions) == 1 {
						answers[i] = a.cfg.Password
					}
				}
				return answers, nil
			}),
			ssh.Password(a.cfg.Password))
	}
	return methods, done
}
