package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

const (
	pollFirst = 20 * time.Millisecond
	pollLast  = time.Second
	// pollQuick is the first pause before messages that only ask for information, because
	// the agent answers them quickly.
	pollQuick = 2 * time.Millisecond
	// lostAfter is how long an agent may be silent while the client waits for one of
	// its tasks. A restart takes seconds.
	lostAfter = 30 * time.Second
	// idWait is how long the client waits for the id of the task after the context has
	// ended. It needs the id to cancel the task.
	idWait           = 3 * time.Second
	replyLimit int64 = 8 << 20 // bytes
)

// message is one request, and the words with which an error describes it.
type message struct {
	method   string
	doing    string // "cannot " + doing
	args     []any
	protocol int
	timeout  time.Duration // timeout of the reply; 0: replyTimeout
	repeat   bool          // the message may be sent twice without harm
	since    time.Time     // when its task began; zero is now
	untold   bool          // Config.Waiting is not called
	reply    int64         // limit of the reply in bytes; 0: replyLimit
}

// Call sends any message, waits for its task if the agent answers with one, and returns
// the value. The other methods are Calls with names and types.
func (c *Client) Call(ctx context.Context, method string, args ...any) (json.RawMessage, error) {
	return c.call(ctx, message{method: method, doing: "do " + method, args: args})
}

// do is call, and decodes the value into out unless out is nil.
func (c *Client) do(ctx context.Context, m message, out any) error {
	value, err := c.call(ctx, m)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(value, out); err != nil {
		return fmt.Errorf("cannot %s: the agent's answer is not understood: %s; it is %q", m.doing, c.clean(misfit(err)), excerpt(c.clean(string(value)), 200))
	}
	return nil
}

// misfit rewords an error of encoding/json without the types of Go.
func misfit(err error) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err.Error()
	}
	value, _, _ := strings.Cut(kind.Value, " ")
	if kind.Field == "" {
		return fmt.Sprintf("it, or a part of it, is of another kind (%s) than expected", value)
	}
	return fmt.Sprintf("%s is of another kind (%s) than expected", kind.Field, value)
}

func (c *Client) call(ctx context.Context, m message) (json.RawMessage, error) {
	if !m.untold {
		defer c.reportWaiting(ctx, m.method)()
	}
	if m.since.IsZero() {
		m.since = time.Now()
	}
	begin := ctx
	if !m.repeat && ctx.Err() == nil {
		var end context.CancelFunc
		begin, end = outlive(ctx, idWait)
		defer end()
	}
	value, err := c.post(begin, m)
	if err != nil {
		return nil, err
	}
	task, ok := asTask(value)
	if !ok {
		return value, nil
	}
	return c.await(ctx, m, task.ID)
}

// outlive returns a context that ends some time after ctx, with the same cause.
func outlive(ctx context.Context, extra time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := guard.AfterDone(ctx, func() {
		guard.AfterFunc(ctx, extra, func() { cancel(context.Cause(ctx)) })
	})
	return longer, func() {
		stop()
		cancel(nil)
	}
}

// await polls a task until it ends. The pause grows with the age of the task, so that
// waiting takes at most a tenth longer than the task. If the client stops waiting, it
// cancels the task.
func (c *Client) await(ctx context.Context, m message, id string) (json.RawMessage, error) {
	var silentSince time.Time
	waitsFor := ""
	for {
		age := time.Since(m.since)
		first := pollFirst
		if m.repeat {
			first = pollQuick
		}
		pause := min(max(age/10, first), pollLast)
		if c.cfg.TaskTimeout > 0 {
			if age >= c.cfg.TaskTimeout {
				return nil, &TaskTimeoutError{Method: m.method, After: c.cfg.TaskTimeout, Ended: c.cancelLeft(ctx, m, id), doing: m.doing}
			}
			pause = min(pause, c.cfg.TaskTimeout-age)
		}
		if err := wait.For(ctx, pause); err != nil {
			return nil, &TaskLeftError{Method: m.method, Ended: c.cancelLeft(ctx, m, id), Err: err, doing: m.doing}
		}
		asked := time.Now()
		value, err := c.post(ctx, message{method: "get_task", doing: m.doing, args: []any{id}, repeat: true, reply: m.reply})
		var refused *Error
		switch {
		case err == nil:
			silentSince = time.Time{}
			task, ok := asTask(value)
			if !ok || task.State != "running" {
				return value, nil
			}
			if what := excerpt(c.clean(task.Waits), 500); what != waitsFor && c.cfg.WaitsFor != nil {
				waitsFor = what
				c.cfg.WaitsFor(m.method, what)
			}
		case errors.As(err, &refused):
			if strings.Contains(refused.Message, "Task with id "+id+" could not be found") {
				return nil, &TaskLostError{Method: m.method, Restarted: true, Err: err, doing: m.doing}
			}
			refused.Method = m.method
			return nil, refused
		case ctx.Err() != nil:
			return nil, &TaskLeftError{Method: m.method, Ended: c.cancelLeft(ctx, m, id), Err: err, doing: m.doing}
		default:
			if silentSince.IsZero() {
				silentSince = asked
			}
			if time.Since(silentSince) >= lostAfter || m.repeat && refusesForGood(err) {
				return nil, &TaskLostError{Method: m.method, Err: err, doing: m.doing}
			}
		}
	}
}

// refusesForGood reports whether the agent has another certificate or password than
// this client: it has restarted with other settings. The client does not repeat a
// message then, because the settings will not change back.
func refusesForGood(err error) bool {
	var e *UnreachableError
	return errors.As(err, &e) && e.Last.hopeless()
}

// cancelLeft asks the agent to cancel a task for which the client has stopped waiting. It
// reports whether the agent agreed: an agent can cancel only drain and run_errand.
func (c *Client) cancelLeft(ctx context.Context, m message, id string) (ended bool) {
	if m.repeat {
		return false // get_task only asks for a result
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	_, err := c.post(ctx, message{method: "cancel_task", doing: "cancel the task " + id, args: []any{id}, timeout: cancelTimeout, repeat: true})
	return err == nil
}

// GetTask asks once for a task: value is its result, unless the task is still running.
func (c *Client) GetTask(ctx context.Context, id string) (value json.RawMessage, running bool, err error) {
	value, err = c.post(ctx, message{method: "get_task", doing: "ask for the task " + id, args: []any{id}, repeat: true})
	if err != nil {
		return nil, false, err
	}
	if task, ok := asTask(value); ok && task.State == "running" {
		return nil, true, nil
	}
	return value, false, nil
}

// post sends one message and returns the value of its reply.
func (c *Client) post(ctx context.Context, m message) (json.RawMessage, error) {
	if m.args == nil {
		m.args = []any{}
	}
	body, err := json.Marshal(Request{Method: m.method, Arguments: m.args, ReplyTo: c.cfg.ReplyTo, Protocol: m.protocol})
	if err != nil {
		return nil, fmt.Errorf("cannot %s: cannot encode the message: %s", m.doing, c.clean(err.Error()))
	}
	if m.timeout == 0 {
		m.timeout = replyTimeout
	}
	// The time limit of tasks also applies to a message that the agent answers only after
	// it has done the work.
	limited := false
	if t := c.cfg.TaskTimeout; t > 0 && !m.repeat && !m.since.IsZero() {
		left := t - time.Since(m.since)
		if left <= 0 {
			return nil, &TaskTimeoutError{Method: m.method, After: t, doing: m.doing}
		}
		if left < m.timeout {
			m.timeout, limited = left, true
		}
	}
	exchange, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	var met stage
	c.trace(m.method, "before")
	status, data, err := c.exchange(met.trace(exchange), m, body)
	c.trace(m.method, "after")
	if err == nil && status == http.StatusOK {
		var reply *Reply
		if reply, err = decodeReply(data); err == nil {
			if reply.Exception != nil {
				return nil, c.exception(m.method, m.doing, reply.Exception)
			}
			return reply.Value, nil
		}
		err = &garbageError{text: excerpt(c.clean(string(data)), 200)}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("cannot %s: %w", m.doing, context.Cause(ctx))
	}
	if err == nil {
		err = &statusError{status: status, text: excerpt(c.clean(string(data)), 200)}
	}
	if limited && met.sent.Load() && exchange.Err() != nil {
		return nil, &TaskTimeoutError{Method: m.method, After: c.cfg.TaskTimeout, doing: m.doing}
	}
	return nil, &UnreachableError{
		Address: c.Address(), Method: m.method, Sent: met.sent.Load() && !m.repeat, doing: m.doing,
		Last: c.classify(err, &met),
	}
}

func (c *Client) exchange(ctx context.Context, m message, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.String()+"/agent", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	c.authorize(req)
	req.Header.Set("Content-Type", "application/json")
	if m.repeat {
		// The key, which is not sent, allows the transport to repeat the
		// request when an idle connection turns out to be closed.
		req.Header["Idempotency-Key"] = nil
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	limit := cmp.Or(m.reply, replyLimit)
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(data)) > limit {
		data, err = nil, fmt.Errorf("the reply is longer than the limit of %d MiB", limit>>20)
	}
	return resp.StatusCode, data, err
}

func (c *Client) authorize(req *http.Request) {
	if c.user != "" || c.password != "" {
		req.SetBasicAuth(c.user, c.password)
	}
}

// reportWaiting calls Config.Waiting regularly until the returned function is called.
func (c *Client) reportWaiting(ctx context.Context, method string) (end func()) {
	if c.cfg.Waiting == nil {
		return func() {}
	}
	start := time.Now()
	return wait.Remind(ctx, waitingEvery, waitingEvery, func() { c.cfg.Waiting(method, time.Since(start)) })
}

// stage says how far an exchange got.
type stage struct{ connected, secured, sent atomic.Bool }

func (s *stage) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeStart: func() { s.connected.Store(true) },
		GotConn:           func(httptrace.GotConnInfo) { s.connected.Store(true); s.secured.Store(true) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				s.sent.Store(true)
			}
		},
	})
}

var errNoContent = errors.New("the reply holds neither a value nor an exception")

// decodeReply reads the body of a reply, which must hold a value or an
// exception.
func decodeReply(data []byte) (*Reply, error) {
	var reply Reply
	if err := json.Unmarshal(data, &reply); err != nil {
		return nil, err
	}
	if reply.Exception == nil && reply.Value == nil {
		return nil, errNoContent
	}
	return &reply, nil
}

// asTask returns the task that a value names, if it is not a result.
func asTask(value json.RawMessage) (Task, bool) {
	if !bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("{")) {
		return Task{}, false
	}
	var task Task
	if err := json.Unmarshal(value, &task); err != nil || task.ID == "" {
		return Task{}, false
	}
	return task, true
}

func excerpt(text string, limit int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
