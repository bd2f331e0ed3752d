package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// upgrade converts a state from one format to the next.
type upgrade struct {
	is   func(map[string]json.RawMessage) bool // whether the state is in the format
	next func(map[string]json.RawMessage) error
}

// upgrades lists the earlier formats, oldest first. Entries are never edited: a
// new format gets a new entry, and a file of the old one stays in testdata.
func upgrades() []upgrade {
	return []upgrade{
		{is: ofBoshInit, next: fromBoshInit},
		{is: ofCreateEnv, next: fromCreateEnv},
	}
}

// Encode returns the state as JSON.
func (s *State) Encode() ([]byte, error) { return json.MarshalIndent(s, "", "    ") }

// Decode reads a state in any format: bosh-init's, create-env's or ours. It neither
// repairs nor checks it. The error is a *MovedError if the state was moved. own reports
// whether the state contains the program's own part, which create-env removes when it
// saves.
func Decode(data []byte) (s State, own bool, err error) {
	if to, ok := WhereTo(data); ok {
		return s, false, &MovedError{To: to}
	}
	raw, err := object(data)
	if err != nil {
		return s, false, err
	}
	if data, ok := raw["bootstrap"]; ok {
		var is struct {
			Format int `json:"format"`
		}
		if err := json.Unmarshal(data, &is); err != nil {
			return s, false, notState(fmt.Errorf("under the key bootstrap, %w", inWords(data, err)))
		}
		if is.Format < 0 {
			return s, false, notState(fmt.Errorf("its format is %d", is.Format))
		}
		if is.Format > Format {
			return s, false, fmt.Errorf("its format is %d and this bootstrap knows formats up to %d; nothing was changed: use a newer bootstrap", is.Format, Format)
		}
	}
	own = !ofCreateEnv(raw)
	for _, u := range upgrades() {
		if !u.is(raw) {
			continue
		}
		if err := u.next(raw); err != nil {
			return s, false, err
		}
	}
	whole, err := json.Marshal(raw)
	if err != nil {
		return s, false, err
	}
	if err := json.Unmarshal(whole, &s); err != nil {
		return s, false, notState(inWords(whole, err))
	}
	return s, own, nil
}

// DecodeAny reads a state in any format of Decode, or a bosh-deployments.yml, and
// repairs it. The ids may be missing.
func DecodeAny(data []byte) (s State, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		s, _, err = Decode(data)
	} else if s, err = FromDeployments(data); err == nil && len(s.Owned()) == 0 {
		err = errors.New("it records nothing")
	}
	s.Repair()
	return s, err
}

// object reads the one JSON object that a state file contains.
func object(data []byte) (map[string]json.RawMessage, error) {
	var raw map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&raw); err != nil {
		return nil, notState(inWords(data, err))
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, notState(errors.New("text follows the JSON object"))
	}
	if raw == nil {
		return nil, notState(fmt.Errorf("it is null"))
	}
	return raw, nil
}

func notState(err error) error {
	return fmt.Errorf("it is not a state file (%w); nothing was changed: restore an earlier version, which `bootstrap state backups MANIFEST` lists, or point --state at the right file", err)
}

// ofBoshInit reports whether bosh-init wrote the state: its key for the manifest's digest
// differs.
func ofBoshInit(raw map[string]json.RawMessage) bool {
	_, sha1 := raw["current_manifest_sha1"]
	_, sha := raw["current_manifest_sha"]
	return sha1 && !sha
}

// fromBoshInit converts bosh-init's format to create-env's. create-env's digest of the
// manifest differs from bosh-init's SHA-1 of its bytes, which is kept to find out whether
// the manifest has changed since.
func fromBoshInit(raw map[string]json.RawMessage) error {
	raw["current_manifest_sha"] = json.RawMessage(`""`)
	return nil
}

// ofCreateEnv reports whether create-env wrote the state last.
func ofCreateEnv(raw map[string]json.RawMessage) bool {
	own, ok := raw["bootstrap"]
	return !ok || string(bytes.TrimSpace(own)) == "null"
}

// fromCreateEnv turns create-env's format into format 1, which has a part of our
// own.
func fromCreateEnv(raw map[string]json.RawMessage) error {
	var sha1 string
	if old, ok := raw["current_manifest_sha1"]; ok {
		if err := json.Unmarshal(old, &sha1); err != nil {
			return notState(fmt.Errorf("current_manifest_sha1: %w", inWords(old, err)))
		}
	}
	own, err := json.Marshal(map[string]any{"format": 1, "manifest_sha1": sha1})
	raw["bootstrap"] = own
	return err
}
