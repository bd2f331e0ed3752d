package tunnel

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func TestReconnects(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	cfg := configFor(t, s)
	cfg.PrivateKey = key
	var lastReport atomic.Pointer[string]
	cfg.Report = func(text string) { t.Log(text); lastReport.Store(&text) }
	tun := open(t, cfg)
	for range 3 {
		address := <-s.forwards
		fetch(t, address)
		s.disconnect()
		eventually(t, "the loss is seen", func() bool { return tun.Err() != nil })
		if !strings.Contains(tun.Err().Error(), "the SSH tunnel to 127.0.0.1") {
			t.Error(tun.Err())
		}
		eventually(t, "it is open again", func() bool { return tun.Err() == nil && strings.HasSuffix(*lastReport.Load(), "is open again") })
	}
	fetch(t, <-s.forwards)
}

// A server that keeps the connection open but does not answer counts as lost.
func TestSilence(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	cfg := configFor(t, s)
	cfg.PrivateKey, cfg.KeepAlive = key, time.Second
	tun := open(t, cfg)
	s.set(func() { s.mute = true })
	eventually(t, "the silence is noted", func() bool {
		return tun.Err() != nil && strings.Contains(tun.Err().Error(), "no sign of life for 1s")
	})
	s.set(func() { s.mute = false })
	eventually(t, "it is open again", func() bool { return tun.Err() == nil })
	address := ""
	for len(s.forwards) > 0 {
		address = <-s.forwards
	}
	fetch(t, address)
}

// If another machine answers when the tunnel connects again after a loss, the tunnel
// ends.
func TestOtherMachineAfterLoss(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	cfg := configFor(t, s)
	cfg.PrivateKey, cfg.KnownHosts = key, ""
	tun := open(t, cfg)
	<-s.forwards
	other := &ssh.ServerConfig{PublicKeyCallback: s.config.PublicKeyCallback}
	other.AddHostKey(newSigner(t))
	s.listener.Close()
	s.disconnect()
	s.done.Wait()
	l, err := net.Listen("tcp", cfg.address())
	if err != nil {
		t.Skip(err)
	}
	s.config, s.listener = other, l
	s.done.Go(s.accept)
	var hostKey *HostKeyError
	eventually(t, "the other key is noted", func() bool { return errors.As(tun.Err(), &hostKey) })
	if hostKey.File != "" || hostKey.Known == hostKey.Got {
		t.Errorf("%+v", hostKey)
	}
}

func TestServeEnds(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	cfg := configFor(t, s)
	cfg.PrivateKey = key
	var calls atomic.Int32
	tun, err := Open(t.Context(), cfg, func(l net.Listener) error {
		if calls.Add(1) == 1 {
			return errors.New("server broke")
		}
		return answering(l)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tun.Close()
	<-s.forwards
	fetch(t, <-s.forwards)
}

// Close returns at once, even while the connection is lost and during requests.
func TestCloseWhileLost(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	cfg := configFor(t, s)
	cfg.PrivateKey = key
	tun := open(t, cfg)
	s.close()
	eventually(t, "the loss is seen", func() bool { return tun.Err() != nil })
	_ = tun.Close()
	if !errors.Is(tun.Err(), errClosed) {
		t.Error(tun.Err())
	}
}

func TestCloseDuringRequest(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	cfg := configFor(t, s)
	cfg.PrivateKey = key
	entered, leave := make(chan struct{}), make(chan struct{})
	defer close(leave)
	tun, err := Open(t.Context(), cfg, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			select {
			case <-leave:
			case <-r.Context().Done():
			}
		}))
	})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	failed := make(chan error, 1)
	go func() {
		resp, err := (&http.Client{Transport: transport}).Get("http://" + <-s.forwards)
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	<-entered
	_ = tun.Close()
	if err := <-failed; err == nil {
		t.Error("the request went well")
	}
}
