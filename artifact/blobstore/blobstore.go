// Package blobstore makes the requests for files of a release that are in a blobstore
// and not in git.
package blobstore

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"bootstrap/artifact/download"
	"bootstrap/artifact/metadata"
)

// Store has the files of a release that are not in git; the key blobstore in
// config/final.yml and config/private.yml configures it.
type Store struct {
	Name   string // for messages: the bucket, or the host
	Folder string // absolute path, for the provider local

	// Ask makes the request for an object, for the providers other than local. region is
	// empty at first; if S3 answers that the bucket is in another region, Ask is called
	// with that one.
	Ask func(id, region string) download.File
	// signed is true if requests carry credentials.
	signed bool
}

// options are the settings of a blobstore in final.yml, overridden by those in
// private.yml.
type options map[string]any

func (o options) text(name string) string {
	switch v := o[name].(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	}
	return ""
}

func (o options) flag(name string, otherwise bool) bool {
	if v, ok := o[name].(bool); ok {
		return v
	}
	return otherwise
}

// Read reads the settings of the release's blobstore from fsys. dir is the folder of
// the release: the path of a local blobstore is relative to it.
func Read(fsys fs.FS, dir string) (*Store, error) {
	type config struct {
		Blobstore struct {
			Provider string  `yaml:"provider"`
			Options  options `yaml:"options"`
			S3       options `yaml:"s3"` // old private.yml files have the options here
		} `yaml:"blobstore"`
	}
	var public, private config
	for file, c := range map[string]*config{"config/final.yml": &public, "config/private.yml": &private} {
		text, err := metadata.ReadFile(fsys, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = metadata.Decode(text, c)
		}
		if err != nil {
			// The error may contain credentials from the file.
			if c == &private {
				return nil, fmt.Errorf("cannot read %s", file)
			}
			return nil, fmt.Errorf("cannot read %s: %w", file, err)
		}
	}
	opts := options{}
	for _, from := range []options{public.Blobstore.Options, private.Blobstore.S3, private.Blobstore.Options} {
		for k, v := range from {
			opts[k] = v
		}
	}
	switch p := public.Blobstore.Provider; p {
	case "s3":
		return s3Blobstore(opts)
	case "gcs":
		return gcsBlobstore(opts)
	case "dav":
		return davBlobstore(opts)
	case "local":
		folder := filepath.FromSlash(opts.text("blobstore_path"))
		if folder == "" {
			return nil, errors.New("config/final.yml names no blobstore_path for its local blobstore")
		}
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		return &Store{Name: folder, Folder: folder}, nil
	case "":
		return nil, errors.New("config/final.yml names no blobstore")
	default:
		return nil, fmt.Errorf("config/final.yml names a blobstore of provider %q; use s3, gcs, dav or local", p)
	}
}

// Refusal says why the blobstore refused a request.
func (store *Store) Refusal(e *download.RefusedError) string {
	switch {
	case e.Code == 404:
		return store.Name + " does not have it"
	case e.Code != 401 && e.Code != 403:
		return fmt.Sprintf("%s answered %d", store.Name, e.Code)
	case store.signed:
		return fmt.Sprintf("%s answered %d to the credentials of config/private.yml", store.Name, e.Code)
	}
	return fmt.Sprintf("%s is not public (%d)", store.Name, e.Code)
}

// isRegion reports whether a text can be the name of a region.
func isRegion(name string) bool {
	return 0 < len(name) && len(name) <= 40 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// bucketName is stricter than every provider: the name becomes part of a path or
// host.
var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

var (
	awsHost      = regexp.MustCompile(`^s3[-.]?([a-z0-9-]*)\.amazonaws\.com(\.cn)?$`)
	alicloudHost = regexp.MustCompile(`^oss-[a-z0-9-]+\.aliyuncs\.com$`)
)

func s3Blobstore(opts options) (*Store, error) {
	bucket, err := opts.bucket()
	if err != nil {
		return nil, err
	}
	at, err := opts.server("")
	if err != nil {
		return nil, err
	}
	region := opts.text("region")
	if m := awsHost.FindStringSubmatch(at.Hostname()); region == "" && m != nil && m[1] != "external-1" {
		region = m[1]
	}
	if region == "" {
		region = "us-east-1"
	}
	if !isRegion(region) {
		return nil, fmt.Errorf("config/final.yml names the region %q, which is not a valid region name", region)
	}
	key, secret := opts.text("access_key_id"), opts.text("secret_access_key")
	inHost := opts.flag("host_style", alicloudHost.MatchString(at.Hostname()))
	ask := func(id, answered string) download.File {
		region := region
		u := *at
		aws := u.Host == "" || awsHost.MatchString(u.Hostname())
		if isRegion(answered) && aws {
			region = answered
		}
		if u.Host == "" || answered != "" && aws {
			u.Host = "s3." + region + ".amazonaws.com"
			if strings.HasPrefix(region, "cn-") {
				u.Host += ".cn"
			}
		}
		path := "/" + bucket + "/" + opts.key(id)
		if inHost {
			u.Host, path = bucket+"."+u.Host, "/"+opts.key(id)
		}
		u.Path, u.RawPath = path, s3Path(path)
		r := download.File{URL: &u}
		if key != "" && secret != "" {
			r.Sign = func(req *http.Request) { signV4(req, key, secret, region, time.Now()) }
		}
		return r
	}
	return &Store{Name: "the S3 bucket " + bucket, Ask: ask, signed: key != "" && secret != ""}, nil
}

func gcsBlobstore(opts options) (*Store, error) {
	bucket, err := opts.bucket()
	if err != nil {
		return nil, err
	}
	at, err := opts.server("storage.googleapis.com")
	if err != nil {
		return nil, err
	}
	ask := func(id, _ string) download.File {
		u := *at
		u.Path = "/" + bucket + "/" + opts.key(id)
		u.RawPath = s3Path(u.Path)
		return download.File{URL: &u}
	}
	return &Store{Name: "the GCS bucket " + bucket, Ask: ask}, nil
}

// davBlobstore keeps its objects in 256 folders, by the SHA-1 of their names.
func davBlobstore(opts options) (*Store, error) {
	at, err := opts.server("")
	if err != nil {
		return nil, err
	}
	if at.Host == "" {
		return nil, errors.New("config/final.yml names no endpoint for its dav blobstore")
	}
	user, password := opts.text("user"), opts.text("password")
	base := strings.TrimSuffix(at.Path, "/")
	ask := func(id, _ string) download.File {
		u := *at
		sum := sha1.Sum([]byte(id))
		u.Path = base + "/" + hex.EncodeToString(sum[:1]) + "/" + id
		u.RawPath = s3Path(u.Path)
		r := download.File{URL: &u}
		if user != "" {
			r.Sign = func(req *http.Request) { req.SetBasicAuth(user, password) }
		}
		return r
	}
	return &Store{Name: "the blobstore at " + at.Host, Ask: ask, signed: user != ""}, nil
}

func (o options) bucket() (string, error) {
	bucket := o.text("bucket_name")
	if !bucketName.MatchString(bucket) {
		return "", fmt.Errorf("config/final.yml names the bucket %q, which is not a valid bucket name", bucket)
	}
	return bucket, nil
}

// key is the name of an object in its bucket.
func (o options) key(id string) string {
	if folder := strings.Trim(o.text("folder_name"), "/"); folder != "" {
		return folder + "/" + id
	}
	return id
}

// server returns scheme and host from endpoint, or from host, port and use_ssl;
// the default host if neither is given.
func (o options) server(otherwise string) (*url.URL, error) {
	if folder := strings.Trim(o.text("folder_name"), "/"); folder != "" && !ValidName(folder) {
		return nil, fmt.Errorf("config/final.yml names the folder %q, which is not a valid folder of a bucket", folder)
	}
	u := &url.URL{Scheme: "https", Host: otherwise}
	if !o.flag("use_ssl", true) {
		u.Scheme = "http"
	}
	given := o.text("endpoint")
	if given == "" {
		given = o.text("host")
	}
	if given == "" {
		return u, nil
	}
	if strings.Contains(given, "://") {
		parsed, err := url.Parse(given)
		if err != nil || parsed.Hostname() == "" || parsed.Scheme != "https" && parsed.Scheme != "http" {
			return nil, errors.New("the endpoint in config/final.yml is not a URL such as https://host:port")
		}
		return &url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}, nil
	}
	if strings.ContainsAny(given, "/@?# ") {
		return nil, errors.New("the host in config/final.yml is not a host name or address")
	}
	u.Host = given
	if port := o.text("port"); port != "" {
		u.Host = net.JoinHostPort(given, port)
	}
	return u, nil
}

// ValidName reports whether an id may be part of a URL or of a path below a
// folder.
func ValidName(id string) bool {
	return len(id) <= 1024 && fs.ValidPath(id) && id != "." && filepath.IsLocal(filepath.FromSlash(id)) &&
		!strings.ContainsFunc(id, func(r rune) bool { return r == '\\' || unicode.IsControl(r) })
}

// s3Path escapes a path as S3 signs it: everything except unreserved characters
// and slashes.
func s3Path(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', strings.IndexByte("-_.~/", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// signV4 signs a request without a body: AWS Signature Version 4.
func signV4(req *http.Request, key, secret, region string, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	empty := sha256.Sum256(nil)
	payload := hex.EncodeToString(empty[:])
	req.Header.Set("X-Amz-Date", stamp)
	req.Header.Set("X-Amz-Content-Sha256", payload)
	headers, names := "host:"+req.URL.Host+"\n", "host"
	for _, name := range []string{"range", "x-amz-content-sha256", "x-amz-date"} {
		if v := req.Header.Get(name); v != "" {
			headers += name + ":" + v + "\n"
			names += ";" + name
		}
	}
	request := sha256.Sum256([]byte(strings.Join([]string{req.Method, req.URL.EscapedPath(), req.URL.RawQuery, headers, names, payload}, "\n")))
	scope := stamp[:8] + "/" + region + "/s3/aws4_request"
	text := "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hex.EncodeToString(request[:])
	k := []byte("AWS4" + secret)
	for _, part := range []string{stamp[:8], region, "s3", "aws4_request", text} {
		mac := hmac.New(sha256.New, k)
		mac.Write([]byte(part))
		k = mac.Sum(nil)
	}
	req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x", key, scope, names, k))
}
