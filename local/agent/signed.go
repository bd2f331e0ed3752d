package agent

import (
	"context"
	"crypto/sha1"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"bootstrap/internal/wait"
)

// A blob is fetched three times at most, as by the real agent.
const (
	signedAttempts = 3
	signedPause    = time.Second
	signedTimeout  = 10 * time.Minute
)

// signedURL is the place of a blob in a blobstore that a Director has signed for the agent,
// with headers for the requests.
type signedURL struct {
	URL     string
	Headers map[string]string
}

// get returns the file of a blob and a function that removes a fetched file. Without a
// signed URL, the blob is one of the agent's own.
func (b blobs) get(ctx context.Context, id string, from signedURL, d digest) (name string, done func(), err error) {
	if from.URL == "" {
		if id == "" {
			return "", nil, failf("Both signedURL and blobID are blank which is invalid")
		}
		name, err = b.path(id, d)
		return name, func() {}, err
	}
	for try := 1; ; try++ {
		if name, err = b.fetch(ctx, from, d); err == nil {
			return name, func() { _ = os.Remove(name) }, nil
		}
		err = failf("Failed to download blob: %w", err)
		if try == signedAttempts {
			return "", nil, err
		}
		if ended := wait.For(ctx, signedPause); ended != nil {
			return "", nil, err
		}
	}
}

// fetch stores a blob in a temporary file.
func (b blobs) fetch(ctx context.Context, from signedURL, d digest) (name string, err error) {
	reply, end, err := b.request(ctx, http.MethodGet, from, nil, 0)
	if err != nil {
		return "", err
	}
	defer end()
	f, err := os.CreateTemp(b.vm.Temp(), "signed-")
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := io.Copy(f, reply.Body); err != nil {
		return "", failf("Copying response to tempfile: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if err := d.verify(f); err != nil {
		return "", failf("Checking downloaded blob digest: %w", err)
	}
	return f.Name(), nil
}

// put uploads one of the agent's blobs to a signed URL and removes it here. It returns the
// digests of its content.
func (b blobs) put(ctx context.Context, id string, to signedURL) (string, error) {
	defer func() { _ = b.remove(id) }()
	f, info, err := b.open(id)
	if err != nil {
		return "", err
	}
	defer f.Close()
	short, long := sha1.New(), sha512.New()
	if _, err := io.Copy(io.MultiWriter(short, long), f); err != nil {
		return "", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	_, end, err := b.request(ctx, http.MethodPut, to, f, info.Size())
	if err != nil {
		return "", err
	}
	end()
	return hex.EncodeToString(short.Sum(nil)) + ";sha512:" + hex.EncodeToString(long.Sum(nil)), nil
}

// request makes one request; the caller must call end.
func (b blobs) request(ctx context.Context, method string, at signedURL, body io.Reader, size int64) (reply *http.Response, end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, signedTimeout)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	message, err := http.NewRequestWithContext(ctx, method, at.URL, body)
	if err != nil {
		return nil, nil, failf("Creating %s Request: the signed URL is not valid", method) // the URL is a secret
	}
	message.ContentLength = size
	for name, value := range at.Headers {
		message.Header.Set(name, value)
	}
	transport, err := b.transport()
	if err != nil {
		return nil, nil, err
	}
	reply, err = (&http.Client{Transport: transport}).Do(message)
	if err != nil {
		transport.CloseIdleConnections()
		return nil, nil, failf("Excuting %s request: %w", method, errors.Unwrap(err)) // without the URL
	}
	end = func() {
		_ = reply.Body.Close()
		transport.CloseIdleConnections()
		cancel()
	}
	if reply.StatusCode < 200 || reply.StatusCode > 299 {
		end()
		return nil, nil, failf("Error executing %s, response was %d", method, reply.StatusCode)
	}
	return reply, end, nil
}

// transport trusts the CA of the first blobstore in the settings, or those of this machine
// if it has none.
func (b blobs) transport() (*http.Transport, error) {
	trusted := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca := b.ca(); ca != "" {
		trusted.RootCAs = x509.NewCertPool()
		if !trusted.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("the CA of the blobstore in the settings is no PEM")
		}
	}
	return &http.Transport{TLSClientConfig: trusted, Proxy: http.ProxyFromEnvironment}, nil
}

// blobstoreCA returns options.tls.cert.ca of the blobstore that counts: the first one of
// update_settings, else of the env; empty: there is none.
func (s *settings) blobstoreCA() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	stores := s.update.Blobstores
	if len(stores) == 0 {
		stores = s.current.Env.Bosh.Blobstores
	}
	if len(stores) == 0 {
		return ""
	}
	trusted, _ := stores[0].Options["tls"].(map[string]any)
	cert, _ := trusted["cert"].(map[string]any)
	ca, _ := cert["ca"].(string)
	return ca
}

// fetchSigned is the message fetch_logs_with_signed_url: it uploads the logs.
func (l logs) fetchSigned(ctx context.Context, c *call) (any, error) {
	var request struct {
		SignedURL        string            `json:"signed_url"`
		LogType          string            `json:"log_type"`
		Filters          []string          `json:"filters"`
		BlobstoreHeaders map[string]string `json:"blobstore_headers"`
	}
	if err := c.bind(1, &request); err != nil {
		return nil, err
	}
	blob, err := l.pack(ctx, request.LogType, request.Filters)
	if err != nil {
		return nil, err
	}
	sum := blob.SHA1
	if request.SignedURL != "" {
		if sum, err = l.blobs.put(ctx, blob.BlobstoreID, signedURL{request.SignedURL, request.BlobstoreHeaders}); err != nil {
			return nil, failf("Create file on blobstore: %w", err)
		}
	}
	return map[string]string{"sha1": sum}, nil
}

// syncSigned is the message sync_dns_with_signed_url.
func (r dnsRecords) syncSigned(ctx context.Context, c *call) (any, error) {
	var request struct {
		SignedURL        string            `json:"signed_url"`
		MultiDigest      digest            `json:"multi_digest"`
		Version          uint64            `json:"version"`
		BlobstoreHeaders map[string]string `json:"blobstore_headers"`
	}
	if err := c.bind(1, &request); err != nil {
		return nil, err
	}
	if !r.outdated(request.Version) {
		return "synced", nil
	}
	blob, done, err := r.blobs.get(ctx, "", signedURL{request.SignedURL, request.BlobstoreHeaders}, request.MultiDigest)
	if err != nil {
		return nil, failf("fetching new DNS records: %w", err)
	}
	defer done()
	return r.save(blob, request.Version)
}

// signedPackage is a package in compile_package_with_signed_url.
type signedPackage struct {
	Name                string            `json:"name"`
	Version             string            `json:"version"`
	SHA1                digest            `json:"sha1"`
	BlobstoreID         string            `json:"blobstore_id"`
	PackageGetSignedURL string            `json:"package_get_signed_url"`
	BlobstoreHeaders    map[string]string `json:"blobstore_headers"`
}

// compileSigned is the message compile_package_with_signed_url: source and result are in a
// blobstore.
func (cp compiler) compileSigned(ctx context.Context, c *call) (any, error) {
	var request struct {
		signedPackage
		Digest          digest                   `json:"digest"`
		UploadSignedURL string                   `json:"upload_signed_url"`
		Deps            map[string]signedPackage `json:"deps"`
	}
	if err := c.bind(1, &request); err != nil {
		return nil, err
	}
	source := specPackage{
		Name: request.Name, Version: request.Version, SHA1: request.Digest,
		SignedURL: request.PackageGetSignedURL, BlobstoreHeaders: request.BlobstoreHeaders,
	}
	deps := map[string]specPackage{}
	for key, dep := range request.Deps {
		deps[key] = specPackage{
			Name: dep.Name, Version: dep.Version, SHA1: dep.SHA1, BlobstoreID: dep.BlobstoreID,
			SignedURL: dep.PackageGetSignedURL, BlobstoreHeaders: dep.BlobstoreHeaders,
		}
	}
	result, err := cp.compile(ctx, source, deps)
	if err != nil {
		return nil, failf("Compiling package %s: %w", request.Name, err)
	}
	sum := result.SHA1
	if request.UploadSignedURL != "" {
		if sum, err = cp.blobs.put(ctx, result.BlobstoreID, signedURL{request.UploadSignedURL, request.BlobstoreHeaders}); err != nil {
			return nil, failf("Compiling package %s: Uploading compiled package: %w", request.Name, err)
		}
	}
	return map[string]any{"result": map[string]string{"sha1": sum}}, nil
}
