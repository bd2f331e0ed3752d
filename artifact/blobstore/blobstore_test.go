package blobstore

import (
	"crypto/sha1"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestBlobstoreAddresses(t *testing.T) {
	t.Parallel()
	const id = "36764f38-6274"
	for name, c := range map[string]struct {
		final, region string // the server's answer to a question for the bucket's region
		want          string // the URL, or a part of the error
	}{
		"s3":             {"provider: s3, options: {bucket_name: b}", "", "https://s3.us-east-1.amazonaws.com/b/36764f38-6274"},
		"region":         {"provider: s3, options: {bucket_name: b, region: eu-west-1}", "", "https://s3.eu-west-1.amazonaws.com/b/36764f38-6274"},
		"answered":       {"provider: s3, options: {bucket_name: b}", "eu-west-1", "https://s3.eu-west-1.amazonaws.com/b/36764f38-6274"},
		"answered, host": {"provider: s3, options: {bucket_name: b, endpoint: 'https://s3-us-west-2.amazonaws.com'}", "eu-west-1", "https://s3.eu-west-1.amazonaws.com/b/36764f38-6274"},
		"hostile region": {"provider: s3, options: {bucket_name: b}", "x/@evil.example", "https://s3.us-east-1.amazonaws.com/b/36764f38-6274"},
		"china":          {"provider: s3, options: {bucket_name: b, region: cn-north-1}", "", "https://s3.cn-north-1.amazonaws.com.cn/b/36764f38-6274"},
		"folder":         {"provider: s3, options: {bucket_name: b, folder_name: a/c}", "", "https://s3.us-east-1.amazonaws.com/b/a/c/36764f38-6274"},
		"host style":     {"provider: s3, options: {bucket_name: b, host_style: true}", "", "https://b.s3.us-east-1.amazonaws.com/36764f38-6274"},
		"alicloud":       {"provider: s3, options: {bucket_name: b, host: oss-cn-beijing.aliyuncs.com}", "", "https://b.oss-cn-beijing.aliyuncs.com/36764f38-6274"},
		"endpoint":       {"provider: s3, options: {bucket_name: b, endpoint: 'http://minio:9000'}", "eu-west-1", "http://minio:9000/b/36764f38-6274"},
		"host and port":  {"provider: s3, options: {bucket_name: b, host: minio, port: 9000, use_ssl: false}", "", "http://minio:9000/b/36764f38-6274"},
		"s3 at google":   {"provider: s3, options: {bucket_name: b, host: storage.googleapis.com, region: us-east1}", "", "https://storage.googleapis.com/b/36764f38-6274"},
		"gcs":            {"provider: gcs, options: {bucket_name: b}", "", "https://storage.googleapis.com/b/36764f38-6274"},
		"dav":            {"provider: dav, options: {endpoint: 'https://dav.example:25250/x', user: u, password: hidden}", "", "https://dav.example:25250/x/" + fmt.Sprintf("%x", sha1.Sum([]byte(id)))[:2] + "/36764f38-6274"},
		"no provider":    {"options: {}", "", "names no blobstore"},
		"other provider": {"provider: atmos, options: {}", "", `provider "atmos"`},
		"no bucket":      {"provider: s3, options: {}", "", "bucket"},
		"bucket out":     {"provider: gcs, options: {bucket_name: ../x}", "", "not a valid bucket name"},
		"bucket is host": {"provider: s3, options: {bucket_name: 'evil.example/', host_style: true}", "", "not a valid bucket name"},
		"folder out":     {"provider: s3, options: {bucket_name: b, folder_name: a/../..}", "", "not a valid folder of a bucket"},
		"bad endpoint":   {"provider: s3, options: {bucket_name: b, endpoint: 'file:///etc'}", "", "endpoint"},
		"bad host":       {"provider: s3, options: {bucket_name: b, host: 'a@b/c'}", "", "host"},
		"bad region":     {"provider: s3, options: {bucket_name: b, region: 'x/y'}", "", "region"},
		"no path":        {"provider: local, options: {}", "", "blobstore_path"},
		"no map":         {"provider: s3, options: [a]", "", "config/final.yml"},
	} {
		fsys := fstest.MapFS{"config/final.yml": {Data: []byte("name: web\nblobstore: {" + c.final + "}\n")}}
		store, err := Read(fsys, "/release")
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || strings.HasPrefix(c.want, "http") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if got := store.Ask(id, c.region).URL.String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for path, want := range map[string]string{"final_blobs": "/release/final_blobs", "/elsewhere": "/elsewhere"} {
		fsys := fstest.MapFS{"config/final.yml": {Data: []byte("blobstore: {provider: local, options: {blobstore_path: " + path + "}}")}}
		if store, err := Read(fsys, "/release"); err != nil || store.Folder != filepath.FromSlash(want) {
			t.Errorf("local %s: %+v, %v", path, store, err)
		}
	}
}

// The example in AWS's documentation of Signature Version 4 has the same signature.
func TestSignV4(t *testing.T) {
	t.Parallel()
	req := httptest.NewRequest(http.MethodGet, "https://examplebucket.s3.amazonaws.com/test.txt", nil)
	req.Header.Set("Range", "bytes=0-9")
	signV4(req, "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1", time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
	want := "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, " +
		"Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
	if got := req.Header.Get("Authorization"); got != want {
		t.Errorf("signed\n%s, want\n%s", got, want)
	}
}
