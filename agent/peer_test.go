package agent_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"bootstrap/agent"
)

// Peer reports a server that no client would trust, and sends no password to it.
func TestPeer(t *testing.T) {
	ours, other := newAuthority(t), newAuthority(t)
	for name, cert := range map[string]struct {
		authority *authority
		to        time.Duration
	}{"trusted": {ours, time.Hour}, "of another authority": {other, time.Hour}, "expired": {ours, -time.Minute}} {
		t.Run(name, func(t *testing.T) {
			headers := make(chan string, 1)
			s := serve(t, cert.authority.issue(t, -time.Hour, cert.to, "127.0.0.1"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				headers <- r.Header.Get("Authorization")
				w.WriteHeader(http.StatusUnauthorized)
			}))
			peer, err := newClient(t, agent.Config{URL: s, CA: ours.pem}).Peer(t.Context())
			if err != nil || len(peer.Certificates) == 0 || peer.Certificates[0].Subject.CommonName != "agent" {
				t.Fatalf("%+v, %v", peer, err)
			}
			if header := <-headers; header != "" {
				t.Errorf("was sent %q", header)
			}
			if off := time.Since(peer.Date); off < -time.Minute || off > 10*time.Minute {
				t.Errorf("the date is %s", peer.Date)
			}
		})
	}
}

func TestPeerNobody(t *testing.T) {
	c := newClient(t, agent.Config{URL: "https://u:p@127.0.0.1:1"})
	var silent *agent.UnreachableError
	if _, err := c.Peer(t.Context()); !errors.As(err, &silent) || silent.Last.Cause != agent.Refused {
		t.Errorf("%v", err)
	}
}
