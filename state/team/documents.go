// Package team keeps the state of a deployment that a team shares: in an S3 bucket, in a
// PostgreSQL database, or on an HTTPS server. A write replaces only the version that its
// run has read, and a lease allows one run at a time.
package team

import (
	"context"
	"errors"
	"time"
)

// Documents is a place with named documents. A name consists of letters, digits, dots,
// dashes, underscores and slashes.
type Documents interface {
	// Get returns a document. The error wraps fs.ErrNotExist if there is none.
	Get(ctx context.Context, name string) (Document, error)
	// Put replaces the version was of a document; empty: there must be no document. If
	// the place has another version, the error wraps ErrChanged. After any other error
	// the document may have been written.
	Put(ctx context.Context, name string, data []byte, was string) (version string, err error)
	// Remove removes a document. If there is none, that is no error.
	Remove(ctx context.Context, name string) error
	Close()
}

// Document is a document with its version.
type Document struct {
	Data    []byte
	Version string        // an ETag or a number of the place
	Age     time.Duration // time since it was written, by the clock of the place; negative: the place does not report it
}

// ErrChanged says that a document does not have the version that should be replaced.
var ErrChanged = errors.New("somebody else has changed it since it was read")

// The names of the documents of an environment. All except the lock and the key begin
// with a proof.
const (
	stateName   = "state.json"
	varsName    = "vars.yml.age"
	keptName    = "kept.json.age"
	lockName    = "lock.json"
	historyName = "history.json"
	keyName     = "key.age"
)

// historyFolder begins the names of versions of the state.
const historyFolder = "history/"

// limit is the largest size of a document, in bytes.
const limit = 64 << 20
