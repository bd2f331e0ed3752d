// Package team keeps the state of a deployment that a team shares: in an S3 bucket, in a
// PostgreSQL database, or on an HTTPS server. A write replaces only the version that its
// run has read, and a lease allows one run at a time.
package team

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"bootstrap/state/versions"
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

// The names of documents, after the folder of their part.
const (
	stateName   = "state.json"
	varsName    = "vars.yml.age"
	keptName    = "kept.json.age"
	lockName    = "lock.json"
	historyName = "history.json"
	keyName     = "key.age"
	// historyFolder begins the names of versions of the state.
	historyFolder = "history/"
)

// limit is the largest size of a document, in bytes.
const limit = 64 << 20

// scope is a set of parts of a store. Documents of only the whole store are shared by all
// parts.
type scope int

const (
	whole     scope = 1 << iota // the whole store
	ofRecord                    // the record of a deployment with several instances
	ofOne                       // an instance or a compilation VM
	everyPart = whole | ofRecord | ofOne
)

// scopeOf returns the scope of a part with this folder.
func scopeOf(folder string) scope {
	switch folder {
	case "":
		return whole
	case deploymentFolder:
		return ofRecord
	}
	return ofOne
}

// kind describes documents of a store with the same name in different parts.
type kind struct {
	name  string // a folder ends with a slash: its documents have numbers
	scope scope
	// sealed is true if the documents are encrypted for machines.
	sealed bool
	// unsigned is true if the documents begin without a proof.
	unsigned bool
	// remade is true if the next deploy writes a missing document again.
	remade bool
	// removed is true if the documents are removed with the state of their part.
	removed bool
	// fixed is true if the documents never change, so that none of them can be older than
	// what a machine has seen.
	fixed bool
	// parts and documents return the folders of other parts, and the names of other
	// documents of the same part, that the content of a document names. The content need
	// not be valid.
	parts, documents func(content []byte) []string
}

// kinds describes all documents of a store. The state is removed last: while it exists, the
// same command can finish a removal that was killed.
var kinds = []kind{
	{name: deletedName, scope: everyPart}, // It is signed again before the state, which is newer.
	{name: stateName, scope: whole | ofOne, removed: true},
	{name: recordDocument, scope: ofRecord, removed: true, parts: instancesIn},
	{name: varsName, scope: whole, sealed: true},
	{name: keptName, scope: whole | ofOne, sealed: true, remade: true, removed: true},
	{name: linksName, scope: whole, sealed: true, remade: true},
	{name: inputsName, scope: whole, sealed: true, remade: true},
	{name: workersName, scope: whole, parts: workersIn},
	{name: historyName, scope: everyPart, documents: versionsIn},
	{name: historyFolder, scope: everyPart, fixed: true},
	{name: lockName, scope: everyPart, unsigned: true},
	{name: keyName, scope: whole, sealed: true, unsigned: true},
}

// kindOf returns the kind of a document; the zero kind if there is none with its name.
func kindOf(document string) kind {
	base, inHistory := path.Base(document), path.Base(path.Dir(document))+"/" == historyFolder
	for _, k := range kinds {
		if k.name == base || k.name == historyFolder && inHistory {
			return k
		}
	}
	return kind{}
}

// walk calls visit once for each document that a store may have: those of the whole store
// and of the record, and those that the contents of other documents name. visit returns
// the content; nil: there is no such document.
func walk(visit func(name string, k kind) (content []byte, err error)) error {
	names, done := []string{"", deploymentFolder}, map[string]bool{}
	for i := 0; i < len(names); i++ {
		name := names[i]
		if done[name] {
			continue
		}
		done[name] = true
		if name == "" || strings.HasSuffix(name, "/") {
			for _, k := range kinds {
				if k.scope&scopeOf(name) != 0 && k.name != historyFolder {
					names = append(names, name+k.name)
				}
			}
			continue
		}
		k := kindOf(name)
		content, err := visit(name, k)
		if err != nil {
			return err
		}
		if k.parts != nil && content != nil {
			names = append(names, k.parts(content)...)
		}
		if k.documents != nil && content != nil {
			for _, document := range k.documents(content) {
				names = append(names, strings.TrimSuffix(name, k.name)+document)
			}
		}
	}
	return nil
}

// instancesIn returns the folders of the instances and former instances in a record.
func instancesIn(content []byte) (folders []string) {
	var r struct {
		Instances []struct{ State string } `json:"instances"`
		Former    []struct{ State string } `json:"former_instances"`
	}
	if json.Unmarshal(content, &r) != nil {
		return nil
	}
	for _, in := range slices.Concat(r.Instances, r.Former) {
		if instanceState.MatchString(in.State) {
			folders = append(folders, deploymentFolder+path.Dir(in.State)+"/")
		}
	}
	return folders
}

// workersIn returns the folders of the compilation VMs that a document counts.
func workersIn(content []byte) (folders []string) {
	var w workersDocument
	if json.Unmarshal(content, &w) != nil {
		return nil
	}
	for n := range min(w.VMs, MostWorkers) {
		folders = append(folders, deploymentFolder+path.Dir(WorkerState(n))+"/")
	}
	return folders
}

// mostVersions limits the versions of a history whose documents are read.
const mostVersions = 1000

// versionsIn returns the documents of the versions that a history lists.
func versionsIn(content []byte) (documents []string) {
	var h versions.List
	if json.Unmarshal(content, &h) != nil {
		return nil
	}
	for _, v := range h.Versions[:min(len(h.Versions), mostVersions)] {
		for _, name := range documentsOf(v) {
			if !notInName.MatchString(strings.TrimPrefix(name, historyFolder)) { // it may be forged
				documents = append(documents, name)
			}
		}
	}
	return documents
}
