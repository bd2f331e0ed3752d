package kept

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/regular"
	"bootstrap/manifest/document"
	"bootstrap/state"
)

// inputsFile has the inputs of the last deploys, with their secrets.
const inputsFile = "inputs.json"

// mostInputs is how many deploys have their inputs kept, and mostInputBytes limits the size of
// all: older ones are removed.
const (
	mostInputs     = 20
	mostInputBytes = 16 << 20
)

// Deploy is a deploy that has succeeded, and what it was made from: another deploy can be made
// from that.
type Deploy struct {
	// Key identifies what it has made: Key of the states after it.
	Key      string             `json:"key"`
	Written  time.Time          `json:"written"`
	Manifest *document.Recorded `json:"manifest"`
	Releases []Release          `json:"releases,omitempty"` // in the order of their names
}

// Release is the content of a release.
type Release struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Parts are the fingerprints of jobs and packages that the deploy has used, by names such as "job
	// web".
	Parts map[string]string `json:"parts"`
}

// Same reports whether a deploy of both makes the same.
func (in Deploy) Same(other Deploy) bool {
	if in.Manifest == nil || other.Manifest == nil {
		return false
	}
	// One of them may have been read from a file, which has no types of YAML.
	a, err := json.Marshal(Deploy{Manifest: in.Manifest, Releases: in.Releases})
	b, failed := json.Marshal(Deploy{Manifest: other.Manifest, Releases: other.Releases})
	return err == nil && failed == nil && bytes.Equal(a, b)
}

// Deploys are the last deploys, the newest first.
type Deploys []Deploy

// InputsFile has the last deploys as this machine keeps them.
type InputsFile struct {
	All Deploys `json:"inputs,omitempty"`
	// Sealed has them as encrypted JSON, with the recipients of the vars store; then All is
	// empty.
	Sealed []byte `json:"sealed,omitempty"`
	// Store is the place that has got the same inputs; empty: none.
	Store string `json:"store,omitempty"`
}

// ParseInputs reads what Encode returns; nil data has none.
func ParseInputs(data []byte) (Deploys, error) {
	in, err := parseInputs(data)
	return in.All, err
}

func parseInputs(data []byte) (in InputsFile, err error) {
	if data == nil {
		return in, nil
	}
	var head struct{ Format int }
	if err := errors.Join(json.Unmarshal(data, &head), json.Unmarshal(data, &in)); err != nil {
		return in, fmt.Errorf("cannot read the kept inputs of earlier deploys: %w", err)
	}
	if head.Format > Format {
		return in, &NewerError{Path: "the inputs of earlier deploys", Format: head.Format}
	}
	in.All = slices.DeleteFunc(in.All, func(in Deploy) bool { return in.Manifest == nil })
	return in, nil
}

// Encode returns the inputs in the form that is kept, without the oldest if they are too many.
func (all Deploys) Encode() ([]byte, error) { return all.encode("") }

func (all Deploys) encode(store string) ([]byte, error) {
	all = all[:min(len(all), mostInputs)]
	for {
		data, err := withFormat(InputsFile{All: all, Store: store})
		if err != nil || len(data) <= mostInputBytes || len(all) <= 1 {
			return data, err
		}
		all = all[:len(all)-1]
	}
}

// Find returns the inputs with the key.
func (all Deploys) Find(key string) (in Deploy, found bool) {
	i := slices.IndexFunc(all, func(in Deploy) bool { return key != "" && in.Key == key })
	if i < 0 {
		return Deploy{}, false
	}
	return all[i], true
}

// With returns the inputs together with others, the newest first. Of those with the same key,
// the newest one is in it.
func (all Deploys) With(others ...Deploy) Deploys {
	list := slices.Concat(Deploys(others), all)
	slices.SortStableFunc(list, func(a, b Deploy) int { return b.Written.Compare(a.Written) })
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(in Deploy) bool {
		had := seen[in.Key]
		seen[in.Key] = true
		return had
	})
}

// Inputs returns the inputs of the last deploys.
func (f Folder) Inputs() (InputsFile, error) {
	data, err := regular.Read(filepath.Join(f.dir, inputsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return InputsFile{}, nil
	}
	if err != nil {
		return InputsFile{}, fmt.Errorf("cannot read the kept inputs of earlier deploys: %w", err)
	}
	return parseInputs(data)
}

// SetInputs replaces the inputs of the last deploys.
func (f Folder) SetInputs(in InputsFile) error {
	data, err := in.All.encode(in.Store)
	if in.Sealed != nil {
		data, err = withFormat(in)
	}
	if err != nil {
		return err
	}
	return f.writeBytes(inputsFile, data)
}

// ForgetInputs removes the inputs of all deploys.
func (f Folder) ForgetInputs() error {
	err := os.Remove(filepath.Join(f.dir, inputsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the kept inputs of earlier deploys: %w", err)
	}
	return nil
}

// Key identifies what a deploy has made by the states of all instances after it; empty: the
// deploy of one has not finished. Commands that change nothing that is deployed, such as stop
// and start, do not change it.
func Key(states []state.State) string {
	var parts []string
	for _, st := range states {
		if st.CurrentManifestSHA == "" {
			return ""
		}
		applied, err := json.Marshal(st.Own.Applied) // which sorts the keys
		if err != nil {
			return ""
		}
		parts = append(parts, st.InstallationID+" "+st.CurrentManifestSHA+" "+string(applied))
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:16])
}
