package catalog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/artifact"
	"bootstrap/internal/guard"
	"bootstrap/internal/proxy"
	"bootstrap/manifest/document"
)

// maxIndex limits an index, in bytes. That of a stemcell at bosh.io has 200 KB.
const maxIndex = document.MaxFileSize

// indexWait is how long a server may take for an index, and archiveWait for an archive;
// silence is how long it may send nothing.
const (
	indexWait   = time.Minute
	archiveWait = time.Hour
	silence     = 30 * time.Second
)

// offer is an item of an index.
type offer struct {
	name, os, version, url, sha1 string
}

// fromIndex finds a release or stemcell in an index. Relative URLs in the index start from
// its place.
func (f *Finder) fromIndex(w want, r io.Reader, place string, e *Entry) error {
	data, err := io.ReadAll(r)
	switch {
	case err != nil:
		return err
	case len(data) > maxIndex:
		return fmt.Errorf("the index is larger than the limit of %d MiB", maxIndex>>20)
	}
	offers, named, err := readIndex(data, w.kind)
	if err != nil {
		return err
	}
	mine := slices.DeleteFunc(slices.Clone(offers), func(o offer) bool { return o.name != w.label && o.os != w.label })
	if len(mine) == 0 && w.specific && !named {
		mine = offers // bosh.io names a release by its repository, and lists only this one
	}
	var best *offer
	versions := []string{}
	for i, o := range mine {
		versions = append(versions, o.version)
		if fits(w.version, o.version) && (best == nil || compareVersions(o.version, best.version) > 0) {
			best = &mine[i]
		}
	}
	if best == nil {
		return lacks(w, versions)
	}
	e.Version, e.SHA1 = best.version, best.sha1
	if e.URL, err = absolute(best.url, place); err != nil {
		return err
	}
	if e.SHA1 == "" && isRemote(e.URL) {
		return fmt.Errorf("version %s has no digest (sha256 or sha1)", best.version)
	}
	return nil
}

// absolute returns a URL or path of an index that is at a place.
func absolute(ref, place string) (string, error) {
	switch {
	case ref == "":
		return "", errors.New("an item has no url")
	case isRemote(ref), strings.HasPrefix(ref, "file://") && !isRemote(place):
		return ref, nil
	case !isRemote(place):
		if filepath.IsAbs(ref) {
			return ref, nil
		}
		return filepath.Join(filepath.Dir(place), ref), nil
	}
	base, err := url.Parse(place)
	if err != nil {
		return "", errors.New("its address is not valid")
	}
	to, err := base.Parse(ref)
	if err != nil || !isRemote(to.String()) {
		return "", fmt.Errorf("an item has the url %q, which is not the URL of a server", ref)
	}
	return to.String(), nil
}

// readIndex reads an index: a list of releases or of stemcells as bosh.io answers, or a
// map with the keys releases and stemcells. named says that it is such a map, the items
// of which have the names of the manifest.
func readIndex(data []byte, kind Kind) (offers []offer, named bool, err error) {
	wrong := document.Check("the index", data, func(top document.Value) {
		list := top
		if top.IsMap() {
			list, named = top.Get(kind.String()+"s"), true
		}
		for _, item := range list.Items() {
			if !item.Map() {
				continue
			}
			offers = append(offers, readOffer(item)...)
		}
	})
	if wrong != nil {
		return nil, false, fmt.Errorf("it is neither a list of releases or stemcells, as https://bosh.io/api/v1 has them, nor a map with the keys releases and stemcells: %w", wrong)
	}
	return offers, named, nil
}

// readOffer reads an item. bosh.io has up to two files of a stemcell: of these, the light
// one is an image that the cloud has already.
func readOffer(item document.Value) []offer {
	o := offer{
		name: item.Get("name").Scalar(), os: textOf(item, "os", "operating_system"), version: item.Get("version").Scalar(),
	}
	file := item
	for _, kind := range []string{"regular", "light"} {
		if item.Get(kind).IsMap() {
			file = item.Get(kind)
		}
	}
	o.url, o.sha1 = file.Get("url").Scalar(), file.Get("sha1").Scalar()
	if strong := file.Get("sha256").Scalar(); strong != "" {
		o.sha1 = "sha256:" + strong
	}
	if o.version == "" || o.url == "" {
		return nil
	}
	return []offer{o}
}

// textOf returns the first of the keys that has a value.
func textOf(item document.Value, keys ...string) string {
	for _, key := range keys {
		if text := item.Get(key).Scalar(); text != "" {
			return text
		}
	}
	return ""
}

// lookUpRemote finds it at a server: in an index, or as an archive whose digest is noted.
func (f *Finder) lookUpRemote(ctx context.Context, w want, e *Entry) error {
	u, err := url.Parse(w.place)
	if err != nil || u.Hostname() == "" {
		return errors.New("is not a valid URL: expected https://HOST/PATH")
	}
	if u.Scheme == "http" && !isLocal(u.Hostname()) {
		return errors.New("must begin with https://: whoever changes the answer chooses what is deployed")
	}
	if u.User != nil {
		return errors.New("must not contain a password, which the lock file would show")
	}
	if isArchive(path.Base(u.Path)) {
		return f.fromArchive(ctx, w, u, e)
	}
	var data bytes.Buffer
	if err := f.get(ctx, u, indexWait, func(r io.Reader) error {
		_, err := io.Copy(&data, io.LimitReader(r, maxIndex+1))
		return err
	}); err != nil {
		return err
	}
	return f.fromIndex(w, &data, w.place, e)
}

// fromArchive reads one archive at a server, to note its version and digest.
func (f *Finder) fromArchive(ctx context.Context, w want, u *url.URL, e *Entry) error {
	dir, err := os.MkdirTemp("", "bootstrap-archive-")
	if err != nil {
		return fmt.Errorf("cannot make a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)
	temp, err := os.OpenFile(filepath.Join(dir, "archive.tgz"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot make a temporary file: %w", document.Cause(err))
	}
	defer temp.Close()
	sum := sha256.New()
	if err := f.get(ctx, u, archiveWait, func(r io.Reader) error {
		n, err := io.Copy(io.MultiWriter(temp, sum), io.LimitReader(r, f.largest()+1))
		if n > f.largest() {
			return fmt.Errorf("it is larger than the limit of %d bytes", f.largest())
		}
		return err
	}); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	e.URL, e.SHA1 = w.place, "sha256:"+hex.EncodeToString(sum.Sum(nil))
	return identify(ctx, w, temp.Name(), e)
}

// largest returns the size that an archive may have, in bytes.
func (f *Finder) largest() int64 { return cmp.Or(f.maxArchive, artifact.MaxDownload) }

func isLocal(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// get reads the answer of a server. An answer that takes too long, or stops, ends the read.
func (f *Finder) get(ctx context.Context, u *url.URL, within time.Duration, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the server has not sent all of it within %v", within))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	most := cmp.Or(f.maxSilence, silence)
	watch := guard.AfterFunc(ctx, most, func() { stop(fmt.Errorf("the server sent nothing for %v", most)) })
	defer watch.Stop()
	client, err := f.client(ctx)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return errors.New("its address is not valid")
	}
	resp, err := client.Do(req)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok { // its text repeats the URL
			err = wrapped.Err
		}
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", resp.Status)
	}
	err = read(&watched{resp.Body, func() { watch.Reset(most) }})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	return nil
}

// watched calls came for each part of a body.
type watched struct {
	body io.Reader
	came func()
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.body.Read(b)
	if n > 0 {
		w.came()
	}
	return n, err
}

// client returns a client that goes the way of the run, through proxies and jumpboxes.
func (f *Finder) client(ctx context.Context) (*http.Client, error) {
	choose, err := proxy.HTTP(f.Getenv)
	if err != nil {
		return nil, err
	}
	dial, err := f.Dial(ctx)
	if err != nil {
		return nil, err
	}
	if dial == nil {
		dial = proxy.Direct().DialContext
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:       func(r *http.Request) (*url.URL, error) { return choose(r.URL) },
			DialContext: guard.Dial(dial),
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch {
			case len(via) >= 10:
				return errors.New("it redirects more than 10 times")
			case req.URL.Scheme != "https" && via[0].URL.Scheme == "https":
				return fmt.Errorf("it redirects to %s, which is not https", req.URL.Host)
			}
			return nil
		},
	}, nil
}

// publicURL returns a URL without credentials, for messages.
func publicURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the source"
	}
	return u.Redacted()
}
