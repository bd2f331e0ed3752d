package templates

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/process"
	"bootstrap/templates/cruby"
)

// SharedVariable is the variable of the environment that names the socket of a Shared.
const SharedVariable = "BOOTSTRAP_ENGINE"

const (
	// askName is the name of a Shared's socket. A process that writes an empty line to
	// it gets the path of an engine's socket, or nothing.
	askName = "ask"
	// sharedPrefix is the beginning of the name of a Shared's folder.
	sharedPrefix = "bootstrap-engine-"
	// longestSocket is the longest path of a socket: macOS allows 104 bytes.
	longestSocket = 100
	// patience is how long a process waits for its turn at a shared engine.
	patience = 30 * time.Second
	// attempts is how many engines a process asks for a turn, because an engine may end
	// before it answers.
	attempts = 3
)

// Shared is an embedded Ruby that the processes of a run share, so that the code is
// loaded once. It is started when a process first asks for it, ends when nobody has
// asked for a while, and is started again when needed. Its sockets are in a folder that
// only this user can enter.
type Shared struct {
	cfg    Config
	dir    string
	asks   net.Listener
	ctx    context.Context
	cancel context.CancelFunc
	parts  sync.WaitGroup

	mu      sync.Mutex
	current *child
	started int
}

// child is a process that runs Listen.
type child struct {
	socket string
	hello  chan greeting // gets the first line, and is then closed
	over   chan struct{} // closed when it accepts no more jobs
}

// Share returns a Shared with a folder below the first usable one of the given folders,
// or nil if none is usable: then each process starts its own Ruby. The caller must call
// Close; the Shared does not end with ctx.
func Share(ctx context.Context, cfg Config, folders ...string) *Shared {
	if runtime.GOOS == "windows" { // modes of folders do not keep other users out on Windows
		return nil
	}
	for _, folder := range folders {
		sweep(folder)
		dir, err := os.MkdirTemp(folder, sharedPrefix)
		if err != nil {
			continue
		}
		s := &Shared{cfg: cfg, dir: dir}
		if socket := filepath.Join(dir, askName); len(socket) <= longestSocket {
			s.asks, err = net.Listen("unix", socket)
		}
		if err != nil || s.asks == nil {
			_ = os.RemoveAll(dir)
			continue
		}
		s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
		s.parts.Go(guard.Part(s.ctx, s.serve))
		return s
	}
	return nil
}

// sweep removes the folders of processes that were killed. Their engines may outlive them
// for a moment: an engine that has just been started creates its socket in the folder
// while another process removes it.
func sweep(folder string) {
	list, _ := filepath.Glob(filepath.Join(folder, sharedPrefix+"*")) // an error can only mean a wrong pattern
	for _, dir := range list {
		sockets, _ := filepath.Glob(filepath.Join(dir, askName))
		if sockets == nil {
			sockets, _ = filepath.Glob(filepath.Join(dir, "[0-9]*"))
		}
		if len(sockets) > 0 && !slices.ContainsFunc(sockets, mayListen) {
			_ = os.RemoveAll(dir)
		}
	}
}

// mayListen reports whether a process may still listen on a socket.
func mayListen(socket string) bool {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err == nil {
		conn.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}

// Entry returns the entry of the environment by which other processes find the engine;
// empty: there is none.
func (s *Shared) Entry() string {
	if s == nil {
		return ""
	}
	return SharedVariable + "=" + s.asks.Addr().String()
}

// Close ends the engine. A process whose job is being rendered then starts its own Ruby.
func (s *Shared) Close() {
	if s == nil {
		return
	}
	s.cancel()
	s.asks.Close()
	s.parts.Wait()
	_ = os.RemoveAll(s.dir)
}

// serve answers processes that ask for an engine.
func (s *Shared) serve() {
	for {
		conn, err := s.asks.Accept()
		if err != nil {
			return
		}
		s.parts.Go(guard.Part(s.ctx, func() {
			defer conn.Close()
			defer guard.AfterDone(s.ctx, func() { conn.Close() })()
			if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
				return // the process only checks whether this process is alive
			}
			if socket, err := s.engine(); err == nil {
				_, _ = conn.Write([]byte(socket + "\n")) // a process that does not read the path starts its own Ruby
			}
		}))
	}
}

// engine returns the socket of the engine, which it starts if none runs.
func (s *Shared) engine() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		select {
		case <-s.current.over:
			s.current = nil
		default:
			return s.current.socket, nil
		}
	}
	c := &child{socket: filepath.Join(s.dir, strconv.Itoa(s.started)), hello: make(chan greeting, 1), over: make(chan struct{})}
	s.started++
	if err := s.start(c); err != nil {
		return "", err
	}
	hello, ok := <-c.hello
	if !ok {
		return "", errGone
	}
	if err := hello.problem(s.cfg.Self); err != nil {
		return "", err
	}
	s.current = c
	return c.socket, nil
}

// start starts the process of an engine.
func (s *Shared) start(c *child) error {
	if s.ctx.Err() != nil {
		return errGone
	}
	own, err := command(s.cfg)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(s.ctx, own.Path, append(own.Args[1:], "--listen", c.socket)...) // #nosec G204 -- this program
	cmd.Env = environment(s.cfg.Env)
	process.OwnGroup(cmd) // an interrupt at the terminal is for this process
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.parts.Go(guard.Part(s.ctx, func() {
		defer in.Close()
		lines := bufio.NewScanner(out)
		var hello greeting
		if lines.Scan() && json.Unmarshal(lines.Bytes(), &hello) == nil {
			c.hello <- hello
		}
		close(c.hello)
		lines.Scan() // a line says that the engine accepts no more jobs; no line, that it has ended
		close(c.over)
		_ = cmd.Wait() // processes notice themselves that their jobs were interrupted
	}))
	return nil
}

// join returns a turn at the shared engine.
func join(ctx context.Context, cfg Config) (*ruby, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.patience)
	defer cancel()
	about, err := cruby.Embedded()
	if err != nil {
		return nil, err
	}
	for range attempts {
		var socket string
		if socket, err = ask(ctx, cfg.Shared); err != nil {
			return nil, err
		}
		var r *ruby
		if r, err = dial(ctx, socket); err != nil {
			continue
		}
		var hello greeting
		if err = r.read(ctx, &hello); err != nil {
			r.stop()
			continue
		}
		if hello.Image != about.Module {
			r.stop()
			return nil, errors.New("the shared engine has another Ruby")
		}
		return r, nil
	}
	return nil, err
}

// ask asks a Shared for the socket of its engine, which it starts if none runs.
func ask(ctx context.Context, asks string) (string, error) {
	r, err := dial(ctx, asks)
	if err != nil {
		return "", err
	}
	defer r.stop()
	defer guard.AfterDone(ctx, r.kill)()
	if _, err := r.in.Write([]byte("\n")); err != nil {
		return "", err
	}
	socket, err := r.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("it has no engine: %w", err)
	}
	return strings.TrimSuffix(socket, "\n"), nil
}

// dial connects to a socket.
func dial(ctx context.Context, socket string) (*ruby, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	return &ruby{in: conn, out: bufio.NewReaderSize(conn, 64<<10), closer: conn}, nil
}
