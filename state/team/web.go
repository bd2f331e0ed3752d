package team

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// web keeps documents on an HTTP server with ETags: GET, PUT with If-Match or
// If-None-Match, and DELETE, below one address.
type web struct {
	client  *http.Client
	base    *url.URL // ends with a slash
	user    *url.Userinfo
	secrets []string
	locks   bool   // the server may have locks of its own
	bucket  bool   // the server is S3
	advice  string // what to do if the server cannot be reached; may be empty
}

func openWeb(u *url.URL, client *http.Client, secrets []string) *web {
	base := *u
	base.User = nil
	base.Path = strings.TrimSuffix(base.Path, "/") + "/"
	base.RawPath = ""
	return &web{client: client, base: &base, user: u.User, secrets: secrets}
}

// do sends a request and returns the answer with its body.
func (w *web) do(ctx context.Context, method, name string, body []byte, header map[string]string) (*http.Response, []byte, error) {
	at := *w.base
	at.Path += name
	request, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, redact(err, w.secrets)
	}
	for key, value := range header {
		request.Header.Set(key, value)
	}
	if w.user != nil {
		password, _ := w.user.Password()
		request.SetBasicAuth(w.user.Username(), password)
	}
	answer, err := w.client.Do(request)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return nil, nil, &RefusedError{fmt.Errorf("%w: if it has a CA of its own, let this machine trust it; on Linux, SSL_CERT_FILE names a file of CAs", redact(err, w.secrets))}
	}
	if err != nil {
		err = redact(err, w.secrets)
		if w.advice != "" {
			err = fmt.Errorf("%w; %s", err, w.advice)
		}
		return nil, nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("it is larger than %d MiB", limit>>20)
	}
	return answer, data, err
}

// refused returns the error for an answer with an unexpected status.
func (w *web) refused(method string, answer *http.Response, body []byte) error {
	err := fmt.Errorf("the server answers %s to %s", answer.Status, method)
	if failure := s3ErrorOf(body); failure.Code != "" {
		err = fmt.Errorf("%w (%s: %s)", err, failure.Code, failure.Message)
	}
	if w.bucket {
		return refusedByS3(err, answer.StatusCode, codeOf(body))
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &RefusedError{fmt.Errorf("%w: give the user and the password in the URL, https://user:password@host/…", err)}
	case http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusBadRequest:
		return &RefusedError{err}
	}
	return err
}

// refusedByS3 adds advice to the error of an answer of S3.
func refusedByS3(err error, status int, code string) error {
	switch {
	case code == "NoSuchBucket":
		err = fmt.Errorf("%w: create the bucket, or correct its name", err)
	case code == "PermanentRedirect", code == "AuthorizationHeaderMalformed":
		err = fmt.Errorf("%w: give the region of the bucket, ?region=REGION", err)
	case status == http.StatusNotFound && code == "":
		err = fmt.Errorf("%w: is the endpoint an S3 server?", err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		err = fmt.Errorf("%w: check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE), and what they allow in the bucket, also s3:ListBucket", err)
	}
	if status/100 == 4 && status != http.StatusTooManyRequests {
		return &RefusedError{err}
	}
	return err
}

// absent reports whether an answer says that there is no such document. S3 also answers
// 404 if the bucket, or the owner of the key, does not exist.
func (w *web) absent(answer *http.Response, body []byte) bool {
	return answer.StatusCode == http.StatusNotFound && (!w.bucket || codeOf(body) == "NoSuchKey")
}

// s3Error is the error document of S3.
type s3Error struct{ Code, Message string }

func s3ErrorOf(body []byte) (s s3Error) {
	if xml.Unmarshal(body, &s) != nil {
		return s3Error{}
	}
	return s
}

func codeOf(body []byte) string { return s3ErrorOf(body).Code }

func (w *web) Get(ctx context.Context, name string) (Document, error) {
	answer, data, err := w.do(ctx, http.MethodGet, name, nil, map[string]string{"Cache-Control": "no-cache"})
	switch {
	case err != nil:
		return Document{}, err
	case w.absent(answer, data):
		return Document{}, fs.ErrNotExist
	case answer.StatusCode != http.StatusOK:
		return Document{}, w.refused(http.MethodGet, answer, data)
	}
	version := answer.Header.Get("ETag")
	if version == "" || strings.HasPrefix(version, "W/") {
		return Document{}, &RefusedError{errors.New("the server gives no ETag that names one version of a document, so two people could overwrite the changes of each other")}
	}
	return Document{Data: data, Version: version, Age: age(answer.Header)}, nil
}

// age returns the age of a document by the server's clock; negative: the server does
// not report it.
func age(header http.Header) time.Duration {
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return -1
	}
	written, err := http.ParseTime(header.Get("Last-Modified"))
	if err != nil {
		return -1
	}
	return max(0, now.Sub(written))
}

func (w *web) Put(ctx context.Context, name string, data []byte, was string) (string, error) {
	header := map[string]string{"Content-Type": "application/octet-stream", "If-None-Match": "*"}
	if was != "" {
		delete(header, "If-None-Match")
		header["If-Match"] = was
	}
	if strings.HasSuffix(name, ".json") {
		header["Content-Type"] = "application/json"
	}
	answer, body, err := w.do(ctx, http.MethodPut, name, data, header)
	switch {
	case err != nil:
		return "", err
	case answer.StatusCode == http.StatusPreconditionFailed, answer.StatusCode == http.StatusConflict:
		return "", ErrChanged
	case was != "" && w.absent(answer, body): // the document was removed
		return "", ErrChanged
	case answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusNoContent:
		return "", w.refused(http.MethodPut, answer, body)
	}
	if version := answer.Header.Get("ETag"); version != "" && !strings.HasPrefix(version, "W/") {
		return version, nil
	}
	// A server need not return the new version.
	d, err := w.Get(ctx, name)
	if err == nil && !bytes.Equal(d.Data, data) {
		err = ErrChanged
	}
	return d.Version, err
}

func (w *web) Remove(ctx context.Context, name string) error {
	answer, body, err := w.do(ctx, http.MethodDelete, name, nil, nil)
	switch {
	case err != nil:
		return err
	case answer.StatusCode/100 == 2, w.absent(answer, body), answer.StatusCode == http.StatusGone:
		return nil
	}
	return w.refused(http.MethodDelete, answer, body)
}

func (w *web) Close() { w.client.CloseIdleConnections() }

// These are the server's own locks, as the HTTP backend of Terraform uses them: LOCK and
// UNLOCK with a JSON object that names the holder. The answers 423 and 409 contain the
// object of another holder.

// ticket is the object that LOCK and UNLOCK send.
type ticket struct {
	ID      string
	Who     string
	Info    string
	Created time.Time
}

// lock takes the lock of the server. other is the present holder, if that is another
// one. If the server has no locks, lock notes that and does nothing from then on.
func (w *web) lock(ctx context.Context, t ticket) (other *ticket, err error) {
	answer, data, err := w.ask(ctx, "LOCK", t)
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode/100 == 2:
		return nil, nil
	case answer.StatusCode == http.StatusLocked, answer.StatusCode == http.StatusConflict:
		other = &ticket{}
		_ = json.Unmarshal(data, other) // a server need not name the holder
		return other, nil
	case slices.Contains([]int{http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusNotFound, http.StatusBadRequest}, answer.StatusCode):
		w.locks = false
		return nil, nil
	}
	return nil, w.refused("LOCK", answer, data)
}

// unlock gives up the lock of the server.
func (w *web) unlock(ctx context.Context, t ticket) error {
	answer, data, err := w.ask(ctx, "UNLOCK", t)
	if err != nil || answer.StatusCode/100 == 2 {
		return err
	}
	return w.refused("UNLOCK", answer, data)
}

func (w *web) ask(ctx context.Context, method string, t ticket) (*http.Response, []byte, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return nil, nil, err
	}
	return w.do(ctx, method, stateName, body, map[string]string{"Content-Type": "application/json"})
}
