package agent_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bootstrap/agent"
)

func good(t *testing.T) func(*authority) tls.Certificate {
	var cert tls.Certificate
	return func(a *authority) tls.Certificate {
		if cert.Certificate == nil {
			cert = a.good(t)
		}
		return cert
	}
}

// worker returns an agent that answers every message with a task; polled returns the
// task's state.
func worker(t *testing.T, polled func(age time.Duration) (any, error)) (http.Handler, *[]time.Duration) {
	var start time.Time
	var polls []time.Duration
	return messages(t, func(r agent.Request) (any, error) {
		if r.Method != "get_task" {
			start = time.Now()
			return agent.Task{ID: "the-task", State: "running"}, nil
		}
		if !reflect.DeepEqual(r.Arguments, []any{"the-task"}) {
			t.Errorf("asks for %v", r.Arguments)
		}
		polls = append(polls, time.Since(start))
		return polled(time.Since(start))
	}), &polls
}

var running = agent.Task{ID: "the-task", State: "running"}

// The client notices the end of a task within a tenth of its duration, or a second.
func TestPolling(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond, time.Second, 30 * time.Second, time.Hour} {
		t.Run(length.String(), func(t *testing.T) {
			t.Parallel()
			handler, polls := worker(t, func(age time.Duration) (any, error) {
				if age < length {
					return running, nil
				}
				return "applied", nil
			})
			inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
				c := newClient(t, cfg)
				start := time.Now()
				if err := c.Apply(t.Context(), agent.Spec{}); err != nil {
					t.Fatal(err)
				}
				late := time.Since(start) - length
				if limit := min(max(length/9, 20*time.Millisecond), time.Second); late > limit {
					t.Errorf("noticed %s late, want %s at most", late, limit)
				}
				if (*polls)[0] != 20*time.Millisecond {
					t.Errorf("asks first after %s", (*polls)[0])
				}
				if most := 70 + int(length/time.Second); len(*polls) > most {
					t.Errorf("asked %d times, want %d at most", len(*polls), most)
				}
			})
		})
	}
}

// Every answer that is not a running task is the result of the task.
func TestTaskResults(t *testing.T) {
	t.Parallel()
	for _, want := range []any{nil, "text", 5.0, true, []any{"a"}, map[string]any{}, map[string]any{"state": "running"}, map[string]any{"agent_task_id": "the-task", "state": "done"}} {
		handler, _ := worker(t, func(time.Duration) (any, error) { return want, nil })
		inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
			value, err := newClient(t, cfg).Call(t.Context(), "any")
			if err != nil {
				t.Fatal(err)
			}
			var got any
			if err := json.Unmarshal(value, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %s, want %v", value, want)
			}
		})
	}
}

// A failed task is reported at the first answer that contains the failure.
func TestTaskFails(t *testing.T) {
	t.Parallel()
	handler, polls := worker(t, func(time.Duration) (any, error) {
		return nil, errors.New("Action Failed get_task: Task the-task result: 1 of 1 pre-start scripts failed. Failed Jobs: web.")
	})
	inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
		err := newClient(t, cfg).RunScript(t.Context(), "pre-start", nil)
		want := "cannot run the pre-start scripts: the agent says: 1 of 1 pre-start scripts failed. Failed Jobs: web."
		var e *agent.Error
		if err == nil || err.Error() != want || !errors.As(err, &e) || e.Method != "run_script" {
			t.Errorf("got %v, want %s", err, want)
		}
		if len(*polls) != 1 {
			t.Errorf("asked %d times", len(*polls))
		}
	})
}

func TestTaskForgotten(t *testing.T) {
	t.Parallel()
	handler, _ := worker(t, func(age time.Duration) (any, error) {
		if age < time.Second {
			return running, nil
		}
		return nil, errors.New("Action Failed get_task: Task with id the-task could not be found")
	})
	inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
		err := newClient(t, cfg).MountDisk(t.Context(), "disk-1")
		var lost *agent.TaskLostError
		if !errors.As(err, &lost) || !lost.Restarted || lost.Method != "mount_disk" || !strings.Contains(err.Error(), "mount the disk disk-1: the agent restarted") {
			t.Errorf("got %v, want a lost task", err)
		}
	})
}

// An agent that restarts is silent for a while. If it does not return, the client stops
// waiting.
func TestTaskSilence(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		from, till time.Duration
		lost       bool
	}{
		{"short", 2 * time.Second, 27 * time.Second, false},
		{"for ever", 2 * time.Second, time.Hour, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			handler, _ := worker(t, func(age time.Duration) (any, error) {
				if age < 40*time.Second {
					return running, nil
				}
				return "ok", nil
			})
			var start atomic.Pointer[time.Time]
			away := func() bool {
				age := time.Since(*start.Load())
				return age >= test.from && age < test.till
			}
			inBubble(t, good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if away() {
					panic(http.ErrAbortHandler)
				}
				handler.ServeHTTP(w, r)
			}), func(t *testing.T, cfg agent.Config) {
				now := time.Now()
				start.Store(&now)
				listening := cfg.Dial
				cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					if away() {
						return nil, syscall.ECONNREFUSED
					}
					return listening(ctx, network, address)
				}
				_, err := newClient(t, cfg).Call(t.Context(), "update_settings", agent.UpdateSettings{})
				var lost *agent.TaskLostError
				if errors.As(err, &lost) != test.lost || (err != nil) != test.lost {
					t.Fatalf("got %v, lost: %v", err, test.lost)
				}
				if !test.lost {
					return
				}
				if lost.Restarted || !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "cannot do update_settings: in the middle of it, the agent at agent.test:6868: connection refused") {
					t.Errorf("got %v", err)
				}
				if waited := time.Since(now); waited < 31*time.Second || waited > 34*time.Second {
					t.Errorf("gave up after %s", waited)
				}
			})
		})
	}
}

// After a restart with another password, a message with the old password fails at once if
// it only asks for information, so that the caller can use the new one.
func TestTaskOtherPassword(t *testing.T) {
	t.Parallel()
	handler, _ := worker(t, func(time.Duration) (any, error) { return running, nil })
	var start time.Time
	inBubble(t, good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if time.Since(start) >= 5*time.Second {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}), func(t *testing.T, cfg agent.Config) {
		start = time.Now()
		_, err := newClient(t, cfg).ListDiskInTurn(t.Context(), time.Hour)
		var e *agent.UnreachableError
		if !errors.As(err, &e) || e.Last.Cause != agent.Unauthorized {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(start); waited > 7*time.Second {
			t.Errorf("gave up after %s", waited)
		}
	})
}

func TestTaskTimeout(t *testing.T) {
	t.Parallel()
	handler, _ := worker(t, func(time.Duration) (any, error) { return running, nil })
	inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
		cfg.TaskTimeout = 100 * time.Second
		start := time.Now()
		err := newClient(t, cfg).MigrateDisk(t.Context())
		var late *agent.TaskTimeoutError
		if !errors.As(err, &late) || late.After != cfg.TaskTimeout || late.Method != "migrate_disk" {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(start); waited != cfg.TaskTimeout {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestTaskCancelled(t *testing.T) {
	t.Parallel()
	handler, _ := worker(t, func(time.Duration) (any, error) { return running, nil })
	inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("interrupted")
		time.AfterFunc(100*time.Second, func() { cancel(reason) })
		start := time.Now()
		err := newClient(t, cfg).MigrateDisk(ctx)
		if !errors.Is(err, reason) || time.Since(start) != 100*time.Second {
			t.Errorf("after %s got %v", time.Since(start), err)
		}
	})
}

// Waiting is called every 30 s while the agent works on a message, and never
// after its end.
func TestWaiting(t *testing.T) {
	t.Parallel()
	handler, _ := worker(t, func(age time.Duration) (any, error) {
		if age < 100*time.Second {
			return running, nil
		}
		return "stopped", nil
	})
	inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
		var mu sync.Mutex
		var heard []string
		cfg.Waiting = func(method string, since time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, fmt.Sprint(method, " ", since))
		}
		if err := newClient(t, cfg).Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // the time of the bubble
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"stop 30s", "stop 1m0s", "stop 1m30s"}; !slices.Equal(heard, want) {
			t.Errorf("heard %q, want %q", heard, want)
		}
	})
}

// A missing reply ends at the deadline of its message.
func TestReplyDeadline(t *testing.T) {
	t.Parallel()
	for method, test := range map[string]struct {
		call func(context.Context, *agent.Client) error
		want time.Duration
	}{
		"get_state": {func(ctx context.Context, c *agent.Client) error { _, err := c.GetState(ctx, false); return err }, time.Minute},
		"apply":     {func(ctx context.Context, c *agent.Client) error { return c.Apply(ctx, agent.Spec{}) }, time.Minute},
		"start":     {func(ctx context.Context, c *agent.Client) error { return c.Start(ctx) }, 10 * time.Minute},
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			hung := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			})
			inBubble(t, good(t), hung, func(t *testing.T, cfg agent.Config) {
				start := time.Now()
				err := test.call(t.Context(), newClient(t, cfg))
				var silent *agent.UnreachableError
				if !errors.As(err, &silent) || silent.Method != method || silent.Last.Cause != agent.Timeout || silent.Sent == (method == "get_state") {
					t.Errorf("got %#v", err)
				}
				if waited := time.Since(start); waited != test.want {
					t.Errorf("waited %s", waited)
				}
			})
		})
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, test := range []struct {
		text     string
		services []string
	}{
		{"Stopping Monitored Services: Stopping services '[alpha beta]' errored", []string{"alpha", "beta"}},
		{"Stopping Monitored Services: Timed out waiting for services 'alpha, beta' to stop after 5 minutes", []string{"alpha", "beta"}},
		{"Stopping Monitored Services: Timed out waiting for services 'alpha' to no longer be pending after 5 minutes", []string{"alpha"}},
		{"Stopping Monitored Services: Stop all services: exit status 1", nil},
		{"", nil},
	} {
		var protocols []int
		address := serve(t, ca.good(t), messages(t, func(r agent.Request) (any, error) {
			switch {
			case r.Method == "get_task" && test.text == "":
				return "stopped", nil
			case r.Method == "get_task":
				return nil, errors.New("Action Failed get_task: Task 1 result: " + test.text)
			}
			protocols = append(protocols, r.Protocol)
			return agent.Task{ID: "1", State: "running"}, nil
		}))
		c := newClient(t, agent.Config{URL: address, CA: ca.pem})
		err := c.Stop(t.Context())
		if test.text == "" {
			if err != nil || c.StopAsync(t.Context()) != nil || !slices.Equal(protocols, []int{3, 0}) {
				t.Errorf("got %v with the protocols %v", err, protocols)
			}
			continue
		}
		var stop *agent.StopError
		var e *agent.Error
		if !errors.As(err, &stop) || !errors.As(err, &e) || e.Message != test.text || !slices.Equal(stop.Services, test.services) {
			t.Errorf("got %v of %#v, want %s", err, stop, test.text)
		}
	}
	silent := newClient(t, agent.Config{URL: mbus("127.0.0.1:1")})
	var stop *agent.StopError
	if err := silent.Stop(t.Context()); err == nil || errors.As(err, &stop) {
		t.Errorf("got %v: no agent refused to stop", err)
	}
}

// With old agents, the client waits between the calls of a drain.
func TestDrainInSteps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answers []any
		want    time.Duration
		calls   []string
	}{
		{[]any{0}, 0, []string{`["shutdown",{}]`}},
		{[]any{7}, 7 * time.Second, []string{`["shutdown",{}]`}},
		{[]any{-5, -6, 2}, 13 * time.Second, []string{`["shutdown",{}]`, `["status"]`, `["status"]`}},
	} {
		var calls []string
		handler := messages(t, func(r agent.Request) (any, error) {
			args, err := json.Marshal(r.Arguments)
			if err != nil {
				t.Error(err)
			}
			calls = append(calls, string(args))
			answer := test.answers[0]
			test.answers = test.answers[1:]
			return answer, nil
		})
		inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
			start := time.Now()
			if err := newClient(t, cfg).Drain(t.Context(), "shutdown", nil); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(start); waited != test.want || !slices.Equal(calls, test.calls) {
				t.Errorf("waited %s with %q, want %s with %q", waited, calls, test.want, test.calls)
			}
		})
	}
}

func TestGetTask(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	answers := []any{running, "done"}
	address := serve(t, ca.good(t), messages(t, func(r agent.Request) (any, error) {
		if len(answers) == 0 {
			return nil, errors.New("Action Failed get_task: Task with id the-task could not be found")
		}
		answer := answers[0]
		answers = answers[1:]
		return answer, nil
	}))
	c := newClient(t, agent.Config{URL: address, CA: ca.pem})
	if _, still, err := c.GetTask(t.Context(), "the-task"); err != nil || !still {
		t.Errorf("got %v, %v", still, err)
	}
	if value, still, err := c.GetTask(t.Context(), "the-task"); err != nil || still || string(value) != `"done"` {
		t.Errorf("got %s, %v, %v", value, still, err)
	}
	var e *agent.Error
	if _, _, err := c.GetTask(t.Context(), "the-task"); !errors.As(err, &e) {
		t.Errorf("got %v", err)
	}
}

// Messages that would crash an agent are not sent.
func TestRefusedHere(t *testing.T) {
	t.Parallel()
	c := newClient(t, agent.Config{URL: mbus("127.0.0.1:1")})
	template := agent.Spec{Job: agent.SpecJob{Templates: []agent.SpecTemplate{{Name: "web"}}}}
	pack := agent.Spec{Packages: map[string]agent.SpecPackage{"ruby": {Name: "ruby"}}}
	for want, err := range map[string]error{
		`apply the spec: a job has the name "web"`:   c.Apply(t.Context(), template),
		`prepare the spec: a job has the name "web"`: c.Prepare(t.Context(), template),
		`package "ruby"`:     c.Apply(t.Context(), pack),
		`package "ruby" has`: c.Prepare(t.Context(), pack),
		`kind is "nonsense"`: c.Drain(t.Context(), "nonsense", nil),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
