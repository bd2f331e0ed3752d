package tunnel

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestHostKey(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	first := newServer(t, admit(public))
	cfg := configFor(t, first)
	cfg.PrivateKey = key
	_ = open(t, cfg).Close()
	_ = open(t, cfg).Close()
	if text, err := os.ReadFile(cfg.KnownHosts); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%q %v", text, err)
	}

	// Another machine with the same name is refused, and so is one that has no key of
	// that type.
	rsaText, _ := newRSAKey(t)
	rsaSigner, err := ssh.ParsePrivateKey([]byte(rsaText))
	if err != nil {
		t.Fatal(err)
	}
	for name, signer := range map[string]ssh.Signer{"other key": newSigner(t), "other type": rsaSigner} {
		second := newServer(t, admit(public), signer)
		cfg.Port, cfg.ConnectTimeout = second.port(), time.Hour
		_, err := Open(t.Context(), cfg, answering)
		var hostKey *HostKeyError
		if !errors.As(err, &hostKey) || hostKey.HostName != "vm-1" || hostKey.Line != 1 || (hostKey.Got == "") != (name == "other type") {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if !strings.Contains(err.Error(), "remove line 1 of "+cfg.KnownHosts) {
			t.Errorf("%s: the error does not say what to do: %v", name, err)
		}
	}

	// A new VM at the same address has another name.
	third := newServer(t, admit(public))
	cfg.Port, cfg.HostName = third.port(), "vm-2 * with, odd name"
	_ = open(t, cfg).Close()
	_ = open(t, cfg).Close()

	// If a server has several keys, it is asked for the known one.
	both := newServer(t, admit(public), rsaSigner)
	cfg.Port, cfg.HostName = both.port(), "vm-3"
	_ = open(t, cfg).Close()
	more := newServer(t, admit(public), newSigner(t), rsaSigner)
	cfg.Port = more.port()
	_ = open(t, cfg).Close()

	if err := Forget(t.Context(), cfg.KnownHosts, "vm-2 * with, odd name"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(cfg.KnownHosts); err != nil || strings.Contains(string(text), "odd") || strings.Count(string(text), "\n") != 2 {
		t.Errorf("%q %v", text, err)
	}
	if err := Forget(t.Context(), filepath.Join(t.TempDir(), "none"), "vm-1"); err != nil {
		t.Error(err)
	}
}

func TestKnownHostsUnreadable(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	cfg := configFor(t, s)
	cfg.PrivateKey, cfg.ConnectTimeout = key, time.Hour
	cfg.KnownHosts = filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(cfg.KnownHosts, []byte("# note\nvm-1 ssh-ed25519 AAAA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), cfg, answering); err == nil || !strings.Contains(err.Error(), "cannot read line 2 of "+cfg.KnownHosts) {
		t.Errorf("got %v", err)
	}
	cfg.KnownHosts = t.TempDir() // a folder
	if _, err := Open(t.Context(), cfg, answering); err == nil || !strings.Contains(err.Error(), "cannot read the known host keys") {
		t.Errorf("got %v", err)
	}
	cfg.KnownHosts = filepath.Join(os.DevNull, "known")
	if _, err := Open(t.Context(), cfg, answering); err == nil {
		t.Error("a host key that cannot be remembered was accepted")
	}
}

// OpenSSH and its library can read the file that is written, with the name of the VM as
// the alias of the host. A line that they write for several names can be read here.
func TestKnownHostsOfOpenSSH(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "known_hosts")
	key := newSigner(t).PublicKey()
	cfg := Config{HostName: "vm 1", KnownHosts: file, Report: func(string) {}}
	h := &host{got: key, auth: &auth{cfg: cfg}}
	if err := h.remember(t.Context()); err != nil {
		t.Fatal(err)
	}
	theirs, err := knownhosts.New(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs("vm+1:22", &net.TCPAddr{}, key); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("# note\n"+knownhosts.Line([]string{"other", "vm+1"}, key)+" comment\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Forget(t.Context(), file, "vm 1"); err != nil { // the line has another name, too
		t.Error(err)
	}
	if h, err := (&auth{cfg: cfg}).host(); err != nil || h.know.line != 2 || !bytes.Equal(h.know.key.Marshal(), key.Marshal()) {
		t.Errorf("%+v, %v", h, err)
	}
}

// If many processes connect to new VMs at the same time, the key of each VM is stored and
// printed.
func TestKnownHostsOfManyAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bosh", "known_hosts")
	const many = 40
	key := newSigner(t).PublicKey()
	var wg sync.WaitGroup
	var printed [many]string
	for i := range many {
		wg.Go(func() {
			h := &host{got: key, auth: &auth{cfg: Config{
				HostName: fmt.Sprintf("vm-%d", i), KnownHosts: file, Report: func(text string) { printed[i] = text },
			}}}
			if err := h.remember(t.Context()); err != nil {
				t.Error(err)
			}
			if i%2 == 1 {
				if err := Forget(t.Context(), file, fmt.Sprintf("vm-%d", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range many {
		h, err := (&auth{cfg: Config{HostName: fmt.Sprintf("vm-%d", i), KnownHosts: file}}).host()
		if err != nil || (h.know.key == nil) != (i%2 == 1) {
			t.Errorf("VM %d: %+v, %v", i, h, err)
		}
		if want := fmt.Sprintf("The host key of VM vm-%d is %s; it is stored in %s", i, ssh.FingerprintSHA256(key), file); printed[i] != want {
			t.Errorf("printed %q, want %q", printed[i], want)
		}
	}
}

// The key that another process stored since the handshake began counts.
func TestKnownHostsStoredByAnother(t *testing.T) {
	t.Parallel()
	cfg := Config{HostName: "vm-1", KnownHosts: filepath.Join(t.TempDir(), "known_hosts"), Report: func(string) {}}
	first, second := newSigner(t).PublicKey(), newSigner(t).PublicKey()
	for range 2 {
		if err := (&host{got: first, auth: &auth{cfg: cfg}}).remember(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	err := (&host{got: second, auth: &auth{cfg: cfg}}).remember(t.Context())
	if _, refused := errors.AsType[*HostKeyError](err); !refused {
		t.Errorf("the other key: %v", err)
	}
	text, err := os.ReadFile(cfg.KnownHosts)
	if err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%q, %v", text, err)
	}
	h, err := (&auth{cfg: cfg}).host()
	if err != nil || h.know.key == nil || !bytes.Equal(h.know.key.Marshal(), first.Marshal()) {
		t.Errorf("%+v, %v", h, err)
	}
}
