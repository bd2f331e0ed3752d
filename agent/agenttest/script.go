package agenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"
	"testing"

	"bootstrap/agent"
)

// Script answers one exchange as the real agent did. It fails the test if the client
// sends another request. It reports a task as running once, and then its result.
type Script struct {
	T        testing.TB
	User     string
	Password string

	mu   sync.Mutex
	next Exchange
	got  int
	poll int
}

// Play sets the next exchange.
func (s *Script) Play(e Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.got, s.poll = e, 0, 0
}

// Requests returns how often the client sent the request of the exchange.
func (s *Script) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

func (s *Script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if user, password, ok := r.BasicAuth(); !ok || user != s.User || password != s.Password {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/agent" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.T.Errorf("%s: %v", s.next.Name, err)
		return
	}
	var request agent.Request
	if err := json.Unmarshal(body, &request); err != nil {
		s.T.Errorf("%s: %s: %v", s.next.Name, body, err)
	}
	if s.got > 0 && s.next.TaskReply != nil && request.Method == "get_task" {
		s.poll++
		if s.poll == 1 {
			_, _ = w.Write(s.next.Reply)
			return
		}
		_, _ = w.Write(s.next.TaskReply)
		return
	}
	s.got++
	if problem := differ(*s.next.Request, request); problem != "" {
		s.T.Errorf("%s: %s", s.next.Name, problem)
	}
	_, _ = w.Write(s.next.Reply)
}

// differ returns the differences of two requests, which ignore reply_to and the
// formatting of the JSON.
func differ(want, got agent.Request) string {
	if got.Method != want.Method || got.Protocol != want.Protocol {
		return fmt.Sprintf("the client sends %s with protocol %d, want %s with %d", got.Method, got.Protocol, want.Method, want.Protocol)
	}
	a, errA := json.Marshal(want.Arguments)
	b, errB := json.Marshal(got.Arguments)
	if errA != nil || errB != nil || !SameJSON(a, b) {
		return fmt.Sprintf("the client sends the arguments %s, want %s", b, a)
	}
	return ""
}

// SameJSON compares two JSON texts by their values.
func SameJSON(a, b []byte) bool {
	var x, y any
	for text, value := range map[*[]byte]*any{&a: &x, &b: &y} {
		decoder := json.NewDecoder(bytes.NewReader(*text))
		decoder.UseNumber()
		if decoder.Decode(value) != nil {
			return false
		}
	}
	return reflect.DeepEqual(x, y)
}
