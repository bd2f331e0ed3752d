package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"sync/atomic"
	"time"
)

// peerTimeout limits the search for a peer.
const peerTimeout = 10 * time.Second

// Peer is the server at the agent's address, trusted or not.
type Peer struct {
	// Certificates are the peer's certificates, its own first.
	Certificates []*x509.Certificate
	// Date is the peer's clock, to the second; zero if unknown.
	Date time.Time
}

// Peer connects to the agent's address, accepts any certificate, and sends
// neither user nor password. The error is an *UnreachableError if no server
// shows a certificate there.
func (c *Client) Peer(ctx context.Context) (Peer, error) {
	var shown atomic.Pointer[[]*x509.Certificate]
	trans := c.trans.Clone()
	defer trans.CloseIdleConnections()
	trans.TLSClientConfig = &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Only the certificate is needed; nothing secret is sent.
		InsecureSkipVerify: true, // #nosec G402
		VerifyConnection: func(s tls.ConnectionState) error {
			shown.Store(&s.PeerCertificates)
			return nil
		},
	}
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	var met stage
	req, err := http.NewRequestWithContext(met.trace(ctx), http.MethodHead, c.base.String()+"/agent", nil)
	if err != nil {
		return Peer{}, err
	}
	var peer Peer
	resp, err := (&http.Client{Transport: trans, CheckRedirect: c.http.CheckRedirect}).Do(req)
	if err == nil {
		resp.Body.Close()
		peer.Date, _ = http.ParseTime(resp.Header.Get("Date")) // zero if absent
	}
	if chain := shown.Load(); chain != nil {
		peer.Certificates = *chain
		return peer, nil // even if it does not speak HTTP
	}
	return Peer{}, &UnreachableError{Address: c.Address(), Method: "look", doing: "see the certificate", Last: c.classify(err, &met)}
}
