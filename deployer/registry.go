package deployer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
	"bootstrap/internal/listener"
	"bootstrap/registry"
	"bootstrap/tunnel"
)

// registryServer serves the registry on the loopback interface, for the CPI.
type registryServer struct {
	*registry.Registry
	host               string
	port               int
	username, password string
	server             *http.Server
}

// bindRegistry binds the registry's port if the manifest asks for a registry or
// a tunnel, because the CPI is rendered with the port.
func (r *run) bindRegistry(ctx context.Context) error {
	want := r.about.Registry
	if want == nil || r.registry != nil {
		return nil
	}
	r.atEnd(r.stopRegistry)
	return r.do("Starting registry", func(*report.Stage) error {
		g := &registryServer{host: want.Host, port: want.Port, username: want.Username, password: want.Password}
		if g.password == "" {
			g.password = uuid.NewString()
		}
		r.opts.Secret(g.password)
		// Only this machine may connect, because the settings contain secrets.
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(g.port)))
		if err != nil {
			return portTaken(listener.At(ctx, fmt.Sprint(g.port)), net.JoinHostPort("127.0.0.1", fmt.Sprint(g.port)), "the registry", "set cloud_provider.registry.port to 0 to have a free one picked", err)
		}
		g.port = l.Addr().(*net.TCPAddr).Port
		g.Registry = registry.New(g.username, g.password, want.OpenGet)
		g.server = httpServer(ctx, g.Local())
		guard.Go(ctx, func() { _ = g.server.Serve(l) })
		r.registry = g
		served := *want
		served.Port, served.Password = g.port, g.password
		r.served = &served
		return nil
	})
}

// httpServer serves h; a panic of it ends the run, where net/http would hide it.
func httpServer(ctx context.Context, h http.Handler) *http.Server {
	guarded := func(w http.ResponseWriter, req *http.Request) {
		if guard.Do(ctx, func() error { h.ServeHTTP(w, req); return nil }) != nil {
			panic(http.ErrAbortHandler)
		}
	}
	return &http.Server{Handler: http.HandlerFunc(guarded), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
}

func (r *run) stopRegistry() {
	if r.registry == nil {
		return
	}
	// All clients are on this machine, and none needs an answer any more.
	_ = r.root.Do("Stopping registry", func(*report.Stage) error { return r.registry.server.Close() })
	r.registry = nil
}

// openTunnel opens the SSH tunnel through which the new VM's agent reaches the
// registry.
func (r *run) openTunnel(ctx context.Context) error {
	want := r.manifest.CPI.SSHTunnel
	if want == nil || r.registry == nil {
		return nil
	}
	r.atEnd(r.closeTunnel)
	cid := r.state.Get().CurrentVMCID
	return r.do(fmt.Sprintf("Opening SSH tunnel to VM '%s'", cid), func(s *report.Stage) (err error) {
		handler := r.registry.Tunnel()
		cfg := r.tunnelConfig(want)
		cfg.Dial, cfg.Report = r.route.Dial, s.Info
		cfg.KnownHosts, cfg.HostName = filepath.Join(r.dir, "known_hosts"), cid
		cfg.Remote = net.JoinHostPort("127.0.0.1", fmt.Sprint(r.registry.port))
		cfg.ConnectTimeout, cfg.AuthTimeout = want.ConnectTimeout, want.AuthTimeout
		r.tunnel, err = tunnel.Open(ctx, cfg, func(l net.Listener) error {
			// One server per connection: closing it ends what it serves.
			err := httpServer(ctx, handler).Serve(l)
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return err
		})
		return err
	})
}

// tunnelErr returns why the tunnel is down, if it is: without the tunnel the
// agent does not get its settings.
func (r *run) tunnelErr() error {
	if r.tunnel == nil {
		return nil
	}
	return r.tunnel.Err()
}

func (r *run) closeTunnel() {
	if r.tunnel != nil {
		_ = r.tunnel.Close()
		r.tunnel = nil
	}
}
