package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bootstrap/agent"
)

// neverAnswers returns an agent that accepts a message and never answers.
func neverAnswers(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// The time limit of tasks also applies to a message that the agent answers only after it
// has done the work.
func TestUnansweredStartObeysTaskTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, good(t), http.HandlerFunc(neverAnswers), func(t *testing.T, cfg agent.Config) {
		cfg.TaskTimeout = 20 * time.Second
		start := time.Now()
		err := newClient(t, cfg).Start(t.Context())
		var late *agent.TaskTimeoutError
		if waited := time.Since(start); !errors.As(err, &late) || waited != cfg.TaskTimeout {
			t.Errorf("after %s got %v", waited, err)
		}
	})
}

// A drain script that keeps asking to be called again or to wait stops at the time
// limit. A number that no script prints is refused.
func TestDrainLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		seconds int64
		limit   time.Duration
		took    time.Duration
		want    string
	}{
		{-1, 20 * time.Second, 20 * time.Second, "not done after 20s"},
		{3600, 20 * time.Second, 20 * time.Second, "not done after 20s"},
		{math.MinInt64, 0, 0, "the agent asks to wait for -9223372036854775808 seconds"},
		{math.MaxInt64, 0, 0, "the agent asks to wait for 9223372036854775807 seconds"},
	} {
		handler := messages(t, func(agent.Request) (any, error) { return test.seconds, nil })
		inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
			cfg.TaskTimeout = test.limit
			start := time.Now()
			err := newClient(t, cfg).Drain(t.Context(), "shutdown", nil)
			if took := time.Since(start); err == nil || !strings.Contains(err.Error(), test.want) || took != test.took {
				t.Errorf("%d: after %s got %v", test.seconds, took, err)
			}
		})
	}
}

// A drain in many short steps is still reported every 30 s.
func TestLongDrainIsTold(t *testing.T) {
	t.Parallel()
	calls := 0
	handler := messages(t, func(agent.Request) (any, error) {
		if calls++; calls <= 70 {
			return -1, nil
		}
		return 0, nil
	})
	inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
		reports := make(chan string, 10)
		cfg.Waiting = func(method string, since time.Duration) { reports <- fmt.Sprint(method, " ", since) }
		if err := newClient(t, cfg).Drain(t.Context(), "shutdown", nil); err != nil {
			t.Fatal(err)
		}
		close(reports)
		var heard []string
		for one := range reports {
			heard = append(heard, one)
		}
		if want := []string{"drain 30s", "drain 1m0s"}; !slices.Equal(heard, want) {
			t.Errorf("heard %q, want %q", heard, want)
		}
	})
}

// If the client stops waiting for a task, it cancels the task, and the error says whether
// the agent could do that.
func TestLeftTaskIsCancelled(t *testing.T) {
	t.Parallel()
	for _, able := range []bool{true, false} {
		var cancelled []any
		handler := messages(t, func(r agent.Request) (any, error) {
			if r.Method != "cancel_task" {
				return agent.Task{ID: "the-task", State: "running"}, nil
			}
			cancelled = r.Arguments
			if !able {
				return nil, errors.New("Action Failed cancel_task: not supported")
			}
			return "canceled", nil
		})
		inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(time.Minute, stop)
			err := newClient(t, cfg).RunScript(ctx, "pre-stop", nil)
			var left *agent.TaskLeftError
			if !errors.As(err, &left) || left.Ended != able || left.Method != "run_script" || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			cfg.TaskTimeout = time.Minute
			var late *agent.TaskTimeoutError
			if err := newClient(t, cfg).MigrateDisk(t.Context()); !errors.As(err, &late) || late.Ended != able {
				t.Errorf("got %v", err)
			}
		})
		if !slices.Equal(cancelled, []any{"the-task"}) {
			t.Errorf("cancelled %v", cancelled)
		}
	}
}

// A task is cancelled even if its id arrives shortly after the client was interrupted. If
// the id arrives later, the client does not wait for it.
func TestTaskThatBeginsAfterTheInterruptIsCanceled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply    time.Duration // time until the agent's reply to the message
		canceled bool
		took     time.Duration
	}{
		"a moment later": {time.Second, true, time.Second},
		"too late":       {time.Minute, false, 100*time.Millisecond + 3*time.Second},
	} {
		var canceled []any
		handler := messages(t, func(r agent.Request) (any, error) {
			if r.Method == "cancel_task" {
				canceled = r.Arguments
				return "canceled", nil
			}
			time.Sleep(c.reply)
			return agent.Task{ID: "the-task", State: "running"}, nil
		})
		inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, stop)
			began := time.Now()
			err := newClient(t, cfg).Drain(ctx, "shutdown", nil)
			if took := time.Since(began); !errors.Is(err, context.Canceled) || took != c.took {
				t.Errorf("%s: after %s got %v", name, took, err)
			}
			var left *agent.TaskLeftError
			if errors.As(err, &left) != c.canceled {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(c.reply) // the server ends with the test
		})
		if (len(canceled) == 1) != c.canceled {
			t.Errorf("%s: canceled %v", name, canceled)
		}
	}
}

// The agent runs one task at a time. ListDiskInTurn detects that the agent works on
// another task, even if the agent does not accept the message.
func TestListDiskInTurn(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.Handler{
		"queued":    messages(t, func(agent.Request) (any, error) { return agent.Task{ID: "1", State: "running"}, nil }),
		"not taken": http.HandlerFunc(neverAnswers),
	} {
		inBubble(t, good(t), handler, func(t *testing.T, cfg agent.Config) {
			start := time.Now()
			_, err := newClient(t, cfg).ListDiskInTurn(t.Context(), 20*time.Second)
			var busy *agent.BusyError
			if waited := time.Since(start); !errors.As(err, &busy) || waited != 20*time.Second {
				t.Errorf("%s: after %s got %v", name, waited, err)
			}
		})
	}
	inBubble(t, good(t), messages(t, func(r agent.Request) (any, error) {
		if r.Protocol != 3 {
			t.Errorf("protocol %d", r.Protocol)
		}
		return []string{"disk-1"}, nil
	}), func(t *testing.T, cfg agent.Config) {
		if cids, err := newClient(t, cfg).ListDiskInTurn(t.Context(), time.Second); err != nil || !slices.Equal(cids, []string{"disk-1"}) {
			t.Errorf("got %v, %v", cids, err)
		}
	})
}

// A very slow transfer is aborted, however many bytes are left.
func TestBlobDrips(t *testing.T) {
	t.Parallel()
	drip := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1<<30))
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte("drop"))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Second) // the time of the bubble
		}
	})
	inBubble(t, good(t), drip, func(t *testing.T, cfg agent.Config) {
		start := time.Now()
		err := newClient(t, cfg).GetBlobUpTo(t.Context(), agent.LogsLimit, blobID, io.Discard, "", nil)
		if took := time.Since(start); err == nil || !strings.Contains(err.Error(), "the transfer is too slow: less than 64 KiB in 1m0s") || took > 2*time.Minute {
			t.Errorf("after %s got %v", took, err)
		}
		time.Sleep(time.Hour) // until the handler has returned
	})
}

// An upload that is never answered ends within minutes, or within the time limit
// of tasks if that is shorter.
func TestUploadIsNotAnswered(t *testing.T) {
	t.Parallel()
	path, _ := blobFile(t, 1000)
	for limit, want := range map[time.Duration]time.Duration{0: 2 * time.Minute, 10 * time.Second: 10 * time.Second} {
		inBubble(t, good(t), http.HandlerFunc(neverAnswers), func(t *testing.T, cfg agent.Config) {
			cfg.TaskTimeout = limit
			start := time.Now()
			err := newClient(t, cfg).PutBlob(t.Context(), blobID, path, nil)
			if took := time.Since(start); err == nil || took > want+time.Second {
				t.Errorf("after %s got %v", took, err)
			}
		})
	}
}

// More bytes than the limit are refused, whether or not the agent announces the
// size.
func TestBlobTooLarge(t *testing.T) {
	t.Parallel()
	for _, announced := range []bool{true, false} {
		inBubble(t, good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if announced {
				w.Header().Set("Content-Length", strconv.Itoa(3<<20))
			}
			for range 3 {
				_, _ = w.Write(make([]byte, 1<<20))
				_ = http.NewResponseController(w).Flush()
			}
		}), func(t *testing.T, cfg agent.Config) {
			var got bytes.Buffer
			err := newClient(t, cfg).GetBlobUpTo(t.Context(), 2<<20, blobID, &got, "", nil)
			var large *agent.TooLargeError
			if !errors.As(err, &large) || got.Len() > 2<<20 || !strings.Contains(err.Error(), "larger than the limit of 2 MiB") {
				t.Errorf("got %v with %d bytes", err, got.Len())
			}
		})
	}
}

func TestReplyTooLong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 9<<20)
	inBubble(t, good(t), messages(t, func(agent.Request) (any, error) {
		return map[string]any{"stdout": long, "exit_code": 0}, nil
	}), func(t *testing.T, cfg agent.Config) {
		c := newClient(t, cfg)
		if _, err := c.GetState(t.Context(), false); err == nil || !strings.Contains(err.Error(), "the reply is longer than the limit of 8 MiB") {
			t.Errorf("got %.200v", err)
		}
	})
}
