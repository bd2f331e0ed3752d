package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"bootstrap/deployer/report"
	"bootstrap/internal/failure"
	"bootstrap/internal/guard"
	"bootstrap/internal/listener"
	"bootstrap/manifest"
	"bootstrap/registry"
	"bootstrap/tunnel"
)

// CheckTunnel reads the key of a tunnel before it is needed; want may be nil.
func (c *CPI) CheckTunnel(want *manifest.SSHTunnel) error {
	if want == nil {
		return nil
	}
	if err := tunnel.CheckLogin(c.TunnelConfig(want)); err != nil {
		return failure.Named("agent-tunnel", fmt.Errorf("the SSH tunnel to the new VM could not log in: %w; nothing was changed", err))
	}
	return nil
}

// TunnelConfig returns the settings for logging in to the SSH server of the VM.
func (c *CPI) TunnelConfig(want *manifest.SSHTunnel) tunnel.Config {
	return tunnel.Config{
		Host: want.Host, Port: want.Port, User: want.User, Password: want.Password, PrivateKey: want.PrivateKey,
		Passphrase:  c.rec.Env.Getenv("BOOTSTRAP_SSH_PASSPHRASE"),
		AgentSocket: c.rec.Env.Getenv("SSH_AUTH_SOCK"),
	}
}

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
func (c *CPI) bindRegistry(ctx context.Context) error {
	want := c.rec.About.Registry
	if want == nil || c.registry != nil {
		return nil
	}
	c.rec.AtEnd(c.stopRegistry)
	return c.rec.Out.Do("Starting registry", func(*report.Stage) error {
		g := &registryServer{host: want.Host, port: want.Port, username: want.Username, password: want.Password}
		if g.password == "" {
			g.password = uuid.NewString()
		}
		c.rec.Env.Secret(g.password)
		// Only this machine may connect, because the settings contain secrets.
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(g.port)))
		if err != nil {
			return portTaken(listener.At(ctx, net.JoinHostPort("127.0.0.1", fmt.Sprint(g.port))), net.JoinHostPort("127.0.0.1", fmt.Sprint(g.port)), "the registry", "set cloud_provider.registry.port to 0 to have a free one picked", err)
		}
		g.port = l.Addr().(*net.TCPAddr).Port
		g.Registry = registry.New(g.username, g.password, want.OpenGet)
		g.server = httpServer(ctx, g.Local())
		guard.Go(ctx, func() { _ = g.server.Serve(l) })
		c.registry = g
		served := *want
		served.Port, served.Password = g.port, g.password
		c.served = &served
		return nil
	})
}

// AssumeRegistry gives the CPI the registry's properties without serving a registry.
func (c *CPI) AssumeRegistry() {
	if g := c.rec.About.Registry; g != nil {
		c.registry = &registryServer{host: g.Host, port: cmp.Or(g.Port, 6901), username: g.Username, password: cmp.Or(g.Password, "generated")}
	}
}

// Serves reports whether the registry is served.
func (c *CPI) Serves() bool { return c.registry != nil }

// httpServer serves h. A panic in h ends the run; net/http alone would hide it.
func httpServer(ctx context.Context, h http.Handler) *http.Server {
	guarded := func(w http.ResponseWriter, req *http.Request) {
		if guard.Do(ctx, func() error { h.ServeHTTP(w, req); return nil }) != nil {
			panic(http.ErrAbortHandler)
		}
	}
	return &http.Server{Handler: http.HandlerFunc(guarded), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
}

func (c *CPI) stopRegistry() {
	if c.registry == nil {
		return
	}
	// All clients are on this machine, and none still needs an answer.
	_ = c.rec.Out.Root.Do("Stopping registry", func(*report.Stage) error { return c.registry.server.Close() })
	c.registry = nil
}

// OpenTunnel opens the SSH tunnel through which the new VM's agent reaches the
// registry; nil: there is no tunnel.
func (c *CPI) OpenTunnel(ctx context.Context, want *manifest.SSHTunnel) error {
	if want == nil || c.registry == nil {
		return nil
	}
	c.rec.AtEnd(c.closeTunnel)
	cid := c.rec.State.Get().CurrentVMCID
	return c.rec.Out.Do(fmt.Sprintf("Opening SSH tunnel to VM '%s'", cid), func(s *report.Stage) (err error) {
		handler := c.registry.Tunnel()
		cfg := c.TunnelConfig(want)
		cfg.Dial, cfg.Report = c.rec.dialAgent(), s.Info
		cfg.KnownHosts, cfg.HostName = filepath.Join(c.rec.Dir, "known_hosts"), cid
		cfg.Remote = net.JoinHostPort("127.0.0.1", fmt.Sprint(c.registry.port))
		cfg.ConnectTimeout, cfg.AuthTimeout = want.ConnectTimeout, want.AuthTimeout
		c.tunnel, err = tunnel.Open(ctx, cfg, func(l net.Listener) error {
			// One server per connection: closing it ends all requests of that
			// connection.
			err := httpServer(ctx, handler).Serve(l)
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return err
		})
		return err
	})
}

// tunnelErr returns why the tunnel is down; nil: it is not. Without the tunnel, the agent
// does not get its settings.
func (c *CPI) tunnelErr() error {
	if c.tunnel == nil {
		return nil
	}
	return c.tunnel.Err()
}

func (c *CPI) closeTunnel() {
	if c.tunnel != nil {
		_ = c.tunnel.Close()
		c.tunnel = nil
	}
}
