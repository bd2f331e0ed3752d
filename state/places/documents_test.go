package places

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/jackc/pgx/v5"

	"bootstrap/state/team/teamtest"
)

// documents are the documents of a place as anybody who may write there reads and
// replaces them.
type documents interface {
	names(t *testing.T) []string // without locks
	get(t *testing.T, name string) []byte
	put(t *testing.T, name string, data []byte)
	remove(t *testing.T, name string)
}

func isLock(name string) bool { return name == "lock.json" || strings.HasSuffix(name, ".lock") }

// files are the documents in a folder.
type files struct{ dir string }

func (f files) names(t *testing.T) (names []string) {
	t.Helper()
	check(t, filepath.WalkDir(f.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && !isLock(path) {
			name, _ := filepath.Rel(f.dir, path) // it is below
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	return names
}

func (f files) get(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, name))
	check(t, err)
	return data
}

func (f files) put(t *testing.T, name string, data []byte) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(f.dir, name), data, 0o600))
}

func (f files) remove(t *testing.T, name string) {
	t.Helper()
	check(t, os.Remove(filepath.Join(f.dir, name)))
}

// inWeb are the documents on a web server.
type inWeb struct {
	web    *teamtest.Web
	prefix string
}

func (w inWeb) names(*testing.T) (names []string) {
	for _, name := range w.web.Names() {
		if name = strings.TrimPrefix(name, w.prefix); !isLock(name) {
			names = append(names, name)
		}
	}
	return names
}

func (w inWeb) get(_ *testing.T, name string) []byte { return w.web.Documents()[w.prefix+name] }

func (w inWeb) put(_ *testing.T, name string, data []byte) { w.web.Put(w.prefix+name, data) }

func (w inWeb) remove(_ *testing.T, name string) { w.web.Remove(w.prefix + name) }

// inBucket are the documents in a bucket.
type inBucket struct{ url, prefix string }

// do sends a signed request.
func (b inBucket) do(t *testing.T, method, path string, query url.Values, body []byte) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, b.url+"/"+teamtest.Bucket+path+"?"+query.Encode(), bytes.NewReader(body))
	check(t, err)
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	r.Header.Set("X-Amz-Content-Sha256", digest)
	keys := aws.Credentials{AccessKeyID: teamtest.KeyID, SecretAccessKey: teamtest.Secret}
	check(t, v4.NewSigner().SignHTTP(ctx, keys, r, digest, "s3", "us-east-1", time.Now(), func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }))
	answer, err := http.DefaultClient.Do(r)
	check(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	check(t, err)
	if answer.StatusCode >= 300 && answer.StatusCode != http.StatusNotFound {
		t.Fatalf("%s %s: %s: %s", method, path, answer.Status, data)
	}
	if answer.StatusCode == http.StatusNotFound {
		return nil
	}
	return data
}

func (b inBucket) names(t *testing.T) (names []string) {
	t.Helper()
	var list struct {
		Contents []struct{ Key string }
	}
	check(t, xml.Unmarshal(b.do(t, http.MethodGet, "", url.Values{"list-type": {"2"}, "prefix": {b.prefix}}, nil), &list))
	for _, c := range list.Contents {
		if name := strings.TrimPrefix(c.Key, b.prefix); !isLock(name) {
			names = append(names, name)
		}
	}
	return names
}

func (b inBucket) get(t *testing.T, name string) []byte {
	t.Helper()
	return b.do(t, http.MethodGet, "/"+b.prefix+name, nil, nil)
}

func (b inBucket) put(t *testing.T, name string, data []byte) {
	t.Helper()
	b.do(t, http.MethodPut, "/"+b.prefix+name, nil, data)
}

func (b inBucket) remove(t *testing.T, name string) {
	t.Helper()
	b.do(t, http.MethodDelete, "/"+b.prefix+name, nil, nil)
}

// inDatabase are the documents of an environment in a database.
type inDatabase struct{ url, environment string }

func (d inDatabase) do(t *testing.T, query string, values ...any) (rows [][]byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.url)
	check(t, err)
	defer conn.Close(ctx)
	result, err := conn.Query(ctx, query, append([]any{d.environment}, values...)...)
	check(t, err)
	rows, err = pgx.CollectRows(result, pgx.RowTo[[]byte])
	check(t, err)
	return rows
}

func (d inDatabase) names(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range d.do(t, `SELECT convert_to(name, 'UTF8') FROM bootstrap_documents WHERE environment = $1 ORDER BY name`) {
		names = append(names, string(name))
	}
	return slices.DeleteFunc(names, isLock)
}

func (d inDatabase) get(t *testing.T, name string) []byte {
	t.Helper()
	rows := d.do(t, `SELECT data FROM bootstrap_documents WHERE environment = $1 AND name = $2`, name)
	if len(rows) == 0 {
		return nil
	}
	return rows[0]
}

func (d inDatabase) put(t *testing.T, name string, data []byte) {
	t.Helper()
	if data == nil {
		data = []byte{}
	}
	d.do(t, `INSERT INTO bootstrap_documents (environment, name, data) VALUES ($1, $2, $3) ON CONFLICT (environment, name)
		DO UPDATE SET data = $3, version = nextval('bootstrap_document_versions'), written = clock_timestamp()`, name, data)
}

func (d inDatabase) remove(t *testing.T, name string) {
	t.Helper()
	d.do(t, `DELETE FROM bootstrap_documents WHERE environment = $1 AND name = $2`, name)
}

// stateLeft returns the documents that a removed state must not leave.
func stateLeft(t *testing.T, d documents) (left []string) {
	t.Helper()
	for _, name := range d.names(t) {
		if strings.HasSuffix(name, "state.json") || strings.Contains(name, "history") || strings.Contains(name, ".backups/") {
			left = append(left, name)
		}
	}
	return left
}

var errKilled = errors.New("the run was killed")
