package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"sync/atomic"
	"time"
)

// peerTimeout bounds a look at who answers.
const peerTimeout = 10 * time.Second

// Peer is who answers at the agent's address, trusted or not.
type Peer struct {
	// Certificates are those shown, the peer's own first.
	Certificates []*x509.Certificate
	// Date is the peer's clock, to the second; zero if it does not tell.
	Date time.Time
}

// Peer looks who answers at the agent's address: whatever the certificate is,
// and without telling user or password. It is an *UnreachableError if nobody
// shows a certificate.
func (c *Client) Peer(ctx context.Context) (Peer, error) {
	var shown atomic.Pointer[[]*x509.Certificate]
	trans := c.trans.Clone()
	defer trans.CloseIdleConnections()
	trans.TLSClientConfig = &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The certificate is what is asked for; nothing secret is sent.
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
		peer.Date, _ = http.ParseTime(resp.Header.Get("Date")) // zero where it is not told
	}
	if chain := shown.Load(); chain != nil {
		peer.Certificates = *chain
		return peer, nil // even if it does not speak HTTP
	}
	return Peer{}, &UnreachableError{Address: c.Address(), Method: "look", doing: "see the certificate", Last: c.classify(err, &met)}
}
