package agent_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"bootstrap/agent"
)

func TestTrace(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	address := serve(t, ca.good(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusCreated)
			return
		}
		_, _ = w.Write([]byte(`{"value":"pong"}`))
	}))
	var got []string
	c := newClient(t, agent.Config{URL: address, CA: ca.pem, Trace: func(method, moment string) { got = append(got, method+" "+moment) }})
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "blob")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.PutBlob(t.Context(), "id", file, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"ping before", "ping after", "put_blob before", "put_blob after"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
