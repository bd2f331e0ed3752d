// Package team keeps the state of a deployment where a team shares it: in a bucket
// of S3, in a PostgreSQL database, or on an HTTPS server. A write replaces
// only the version that its run has read, and a lease admits one run at a time.
package team

import (
	"context"
	"errors"
	"time"
)

// Documents is a place that keeps named documents. A name has letters, digits, dots,
// dashes and slashes.
type Documents interface {
	// Get returns a document. The error wraps fs.ErrNotExist if there is none.
	Get(ctx context.Context, name string) (Document, error)
	// Put writes a document in place of the version was; empty: there must be none.
	// The error wraps ErrChanged if another version is there. After any other error
	// the document may have been written.
	Put(ctx context.Context, name string, data []byte, was string) (version string, err error)
	// Remove removes a document; that there is none is no error.
	Remove(ctx context.Context, name string) error
	Close()
}

// Document is a document as it was read.
type Document struct {
	Data    []byte
	Version string        // as the place names it: an ETag, or a number
	Age     time.Duration // since it was written, by the clock of the place; negative: the place does not say
}

// ErrChanged says that a document has another version than the one to be replaced.
var ErrChanged = errors.New("somebody else has changed it since it was read")

// The names of the documents of an environment. All but the lock and the key have a proof
// of their writer.
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

// limit is how much of a document is read, in bytes.
const limit = 64 << 20
