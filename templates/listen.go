package templates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/templates/cruby"
)

const (
	// collectAfter is the number of jobs after which garbage is collected, as soon as no
	// job is being rendered: a collection waits for running templates. Each job leaves 1
	// MB of garbage.
	collectAfter = 16
	// mostJobs is the largest number of jobs between two collections.
	mostJobs = 160
	// idleTime is how long an engine waits for the next job.
	idleTime = 30 * time.Second
	// jobTime is how long one job may take: a process that is stopped must not keep its
	// turn.
	jobTime = 5 * time.Minute
	// leftTime is how long a template may continue after the end of the process that
	// requested it.
	leftTime = time.Second
)

// Listen is the child process of a Shared. It renders the jobs of the processes that
// connect to the socket: as many at the same time as there are processors, each with a
// Ruby of its own. The other processes wait for their turn, which begins with a greeting;
// after it, the protocol is that of Serve.
//
// Listen returns after a while without jobs. It also returns when a process has hung up
// whose template still runs, because only the end of this process can stop that template;
// jobs that have begun are finished before. When in ends, the process that started this
// one was killed; Listen then also removes the socket of that process.
func Listen(ctx context.Context, in io.Reader, out io.Writer, cache, socket string) error {
	width := runtime.GOMAXPROCS(0)
	// The code of a template occupies its processor until it returns.
	runtime.GOMAXPROCS(width + 1)
	module, library, hello, err := load(ctx, cache, func(state) {})
	if err != nil {
		return errors.Join(err, json.NewEncoder(out).Encode(hello))
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		hello = greeting{Error: fmt.Sprintf("cannot listen at %s: %v", socket, err)}
		return errors.Join(err, json.NewEncoder(out).Encode(hello))
	}
	l := &line{module: module, library: library, hello: hello, width: width, ended: make(chan bool)}
	defer guard.AfterDone(ctx, func() { listener.Close() })()
	gone, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	guard.Go(ctx, func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, in) // in ends when the process that writes to it ends, however that happens
	})
	if err := json.NewEncoder(out).Encode(hello); err != nil {
		return errors.Join(err, listener.Close())
	}
	err = l.serve(ctx, accept(ctx, listener, over), gone)
	// The next process that asks for an engine gets another one.
	err = errors.Join(err, listener.Close())
	_, _ = io.WriteString(out, "\n")
	l.finish()
	select {
	case <-gone:
		dir := filepath.Dir(socket)
		_ = os.Remove(filepath.Join(dir, askName))
		_ = os.Remove(dir)
	default:
	}
	return err
}

// accept sends the connections to the channel, and closes it after the listener.
func accept(ctx context.Context, from net.Listener, over <-chan struct{}) <-chan net.Conn {
	accepted := make(chan net.Conn)
	guard.Go(ctx, func() {
		defer close(accepted)
		for {
			conn, err := from.Accept()
			if err != nil {
				return
			}
			select {
			case accepted <- conn:
			case <-over:
				conn.Close()
				return
			}
		}
	})
	return accepted
}

// line is the queue of processes that want a job rendered.
type line struct {
	module  *cruby.Module
	library fs.FS
	hello   greeting
	width   int
	running int       // jobs
	ended   chan bool // gets for each job whether its template still runs after the end of its process
}

// serve renders until nobody has asked for a while, or this process must be replaced.
// Running jobs are finished.
func (l *line) serve(ctx context.Context, accepted <-chan net.Conn, gone <-chan struct{}) error {
	var waiting []net.Conn
	defer func() {
		for _, conn := range waiting {
			conn.Close() // the process has to ask for another engine
		}
	}()
	jobs := 0 // since the last collection of garbage
	for {
		if l.running == 0 && jobs >= collectAfter {
			runtime.GC()
			jobs = 0
		}
		if jobs+l.running >= mostJobs {
			return nil
		}
		for ; len(waiting) > 0 && l.running < l.width; waiting = waiting[1:] {
			l.start(ctx, waiting[0])
		}
		var idle <-chan time.Time
		if l.running == 0 {
			idle = time.After(idleTime)
		}
		select {
		case conn, ok := <-accepted:
			if !ok {
				return context.Cause(ctx)
			}
			waiting = append(waiting, conn)
		case left := <-l.ended:
			l.running--
			jobs++
			if left {
				return nil
			}
		case <-idle:
			return nil
		case <-gone:
			return nil
		}
	}
}

// finish waits for the jobs that have begun.
func (l *line) finish() {
	for ; l.running > 0; l.running-- {
		<-l.ended
	}
}

func (l *line) start(ctx context.Context, conn net.Conn) {
	l.running++
	job := guard.Start(ctx, func() error {
		if l.job(ctx, conn) {
			return errLeft
		}
		return nil
	})
	guard.Go(ctx, func() { l.ended <- <-job != nil })
}

// job renders one job, and reports whether its template still runs after the end of its
// process.
func (l *line) job(ctx context.Context, conn net.Conn) (left bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(jobTime)) != nil || json.NewEncoder(conn).Encode(l.hello) != nil {
		return false // the process did not wait for its turn
	}
	s := &server{module: l.module, machine: cruby.Machine{Library: l.library}, out: conn}
	lines := make(chan []byte)
	guard.Go(ctx, func() { s.read(ctx, conn, lines) })
	if errors.Is(s.serve(ctx, lines), errLeft) {
		select {
		case <-s.rendering:
		case <-time.After(leftTime):
			return true
		}
	}
	// The other side notices any other error, such as a template that ends Ruby, by the
	// end of the connection. It then renders the job with a Ruby of its own.
	if s.ruby != nil {
		_ = s.ruby.Close(ctx)
	}
	return false
}
