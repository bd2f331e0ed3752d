package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/regular"
	"bootstrap/internal/wait"
)

// HostKeyError says that a VM has another host key than before: it is another machine, or
// somebody intercepts the connection.
type HostKeyError struct {
	HostName string // VM CID
	Address  string
	Known    string // fingerprint, SHA256:…
	Got      string // fingerprint; empty if the server has no key of the known type
	File     string // file with the known keys; empty if only the tunnel has stored the key
	Line     int
}

// Error says what is wrong and what to do.
func (e *HostKeyError) Error() string {
	got := "its host key is " + e.Got
	if e.Got == "" {
		got = "it has no host key of the known type"
	}
	msg := fmt.Sprintf("cannot trust the SSH server at %s to be %s: %s, but %s is expected: find out which machine answers there", e.Address, e.HostName, got, e.Known)
	if e.File != "" {
		msg += fmt.Sprintf("; if its key was changed on purpose, remove line %d of %s", e.Line, e.File)
	}
	return msg
}

func (e *HostKeyError) Name() string { return "ssh-host-key" }

// A knownHostsError is an error of the file, which waiting does not end.
type knownHostsError struct{ err error }

func (e *knownHostsError) Error() string { return e.err.Error() }
func (e *knownHostsError) Unwrap() error { return e.err }

// knownKey is the host key of one VM; nil before the first connection.
type knownKey struct {
	key  ssh.PublicKey
	file string
	line int
}

// A host checks the host key in one handshake.
type host struct {
	auth *auth
	know knownKey
	got  ssh.PublicKey // accepted in this handshake
}

// host looks up the stored host key of the VM.
func (a *auth) host() (*host, error) {
	h := &host{auth: a, know: a.known}
	if h.know.key != nil || a.cfg.KnownHosts == "" {
		return h, nil
	}
	data, err := regular.Read(a.cfg.KnownHosts)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &knownHostsError{fmt.Errorf("cannot read the known host keys: %w", err)}
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		if !slices.Contains(namesIn(line), a.hostField()) {
			continue
		}
		_, _, key, _, _, err := ssh.ParseKnownHosts([]byte(line))
		if err != nil {
			return nil, &knownHostsError{fmt.Errorf("cannot read line %d of %s, the host key of VM %s: %w; remove the line to accept the key the VM shows next", n, a.cfg.KnownHosts, a.cfg.HostName, err)}
		}
		h.know = knownKey{key, a.cfg.KnownHosts, n}
		break
	}
	return h, nil
}

// namesIn returns the names for which a line of known_hosts has a key. Lines are parsed
// one by one, because knownhosts.New refuses all keys of a file with one damaged line.
func namesIn(line string) []string {
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil
	}
	return strings.Split(words[0], ",")
}

// hostField is the name of the VM in known_hosts. The name contains no characters that
// have a meaning there.
func (a *auth) hostField() string {
	if a.cfg.HostName == "" {
		return url.QueryEscape(a.cfg.address())
	}
	return url.QueryEscape(a.cfg.HostName)
}

// check is the callback of the handshake.
func (h *host) check(_ string, _ net.Addr, key ssh.PublicKey) error {
	if h.know.key != nil && !bytes.Equal(h.know.key.Marshal(), key.Marshal()) {
		return h.mismatch(ssh.FingerprintSHA256(key))
	}
	h.got = key
	return nil
}

func (h *host) mismatch(got string) error {
	cfg := h.auth.cfg
	return &HostKeyError{HostName: cfg.HostName, Address: cfg.address(), Known: ssh.FingerprintSHA256(h.know.key), Got: got, File: h.know.file, Line: h.know.line}
}

// algorithms returns the type of the known key; nil: any type is accepted. The type is
// needed because a server has keys of several types and might send one of another type.
func (h *host) algorithms() []string {
	if h.know.key == nil {
		return nil
	}
	if h.know.key.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA}
	}
	return []string{h.know.key.Type()}
}

// explain classifies a failed handshake.
func (h *host) explain(err error) error {
	var negotiation *ssh.AlgorithmNegotiationError
	var hostKey *HostKeyError
	switch {
	case errors.As(err, &hostKey):
		return hostKey
	case errors.As(err, &negotiation):
		if h.know.key != nil && strings.Contains(err.Error(), "host key") {
			return h.mismatch("")
		}
		return fmt.Errorf("no algorithm in common with the SSH server: %w", err)
	case h.got != nil:
		return &authError{err}
	}
	return err
}

// remember stores the key of this handshake for later connections. If another process has
// stored a key for this name since the handshake began, that key is the right one.
func (h *host) remember(ctx context.Context) error {
	if h.know.key != nil || h.got == nil {
		return nil
	}
	a := h.auth
	if a.cfg.KnownHosts == "" {
		a.known = knownKey{key: h.got}
		return nil
	}
	err := locked(ctx, a.cfg.KnownHosts, func() error {
		stored, err := a.host()
		if err != nil {
			return err
		}
		h.know = stored.know
		if h.know.key != nil {
			return h.check("", nil, h.got)
		}
		line := knownhosts.Line([]string{a.hostField()}, h.got) + "\n"
		return rewrite(a.cfg.KnownHosts, func(data string) string {
			if data != "" && !strings.HasSuffix(data, "\n") {
				data += "\n"
			}
			return data + line
		})
	})
	if _, other := errors.AsType[*HostKeyError](err); other {
		return err
	}
	if err != nil {
		return &knownHostsError{fmt.Errorf("cannot store the host key: %w", err)}
	}
	a.known = knownKey{key: h.got}
	if h.know.key == nil {
		a.cfg.Report(fmt.Sprintf("The host key of %s is %s; it is stored in %s", a.cfg.named(), ssh.FingerprintSHA256(h.got), a.cfg.KnownHosts))
	}
	return nil
}

// jumpboxName begins the HostName of a jumpbox.
const jumpboxName = "the jumpbox "

// named returns a name of the SSH server for messages.
func (c *Config) named() string {
	switch {
	case c.HostName == "":
		return c.address()
	case strings.HasPrefix(c.HostName, jumpboxName):
		return c.HostName
	}
	return "VM " + c.HostName
}

// Forget removes the host key of a deleted VM from the file knownHosts.
func Forget(ctx context.Context, knownHosts, hostName string) error {
	field := url.QueryEscape(hostName)
	if _, err := os.Stat(knownHosts); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := locked(ctx, knownHosts, func() error {
		return rewrite(knownHosts, func(data string) string {
			var keep strings.Builder
			for line := range strings.Lines(data) {
				if !slices.Equal(namesIn(line), []string{field}) {
					keep.WriteString(line)
				}
			}
			return keep.String()
		})
	})
	if err != nil {
		return fmt.Errorf("cannot forget the host key of VM %s: %w", hostName, err)
	}
	return nil
}

// lockTimeout is far longer than others need to read and write the file.
const lockTimeout = 30 * time.Second

// locked calls change while no other process changes the file at path: all deployments
// of a machine share it.
func locked(ctx context.Context, path string, change func() error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock := lockfile.New(path + ".lock")
	ctx, cancel := context.WithTimeoutCause(ctx, lockTimeout, fmt.Errorf("another process has held its lock %s for %v", lock.Path(), lockTimeout))
	defer cancel()
	err := wait.Poll(ctx, 20*time.Millisecond, lock.TryLock)
	if err != nil {
		return err
	}
	defer lock.Close()
	return change()
}

// rewrite replaces the whole file, so that it is never half written.
func rewrite(path string, change func(string) string) error {
	data, err := regular.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.Replace(path, []byte(change(string(data))))
}
