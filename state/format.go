package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// upgrade turns the content of a state file of one format into the next.
type upgrade struct {
	is   func(map[string]json.RawMessage) bool // whether the content is of the format
	next func(map[string]json.RawMessage) error
}

// upgrades lists all formats there have been, oldest first, without the newest.
// What stands here is never edited: a new format gets a new entry, and its
// files stay in testdata.
func upgrades() []upgrade {
	return []upgrade{
		{is: ofBoshInit, next: fromBoshInit},
		{is: ofCreateEnv, next: fromCreateEnv},
	}
}

// decode reads a state in any format, and tells whether our own part was in
// it.
func decode(data []byte) (s State, own bool, err error) {
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

// object reads the one JSON object that a state file is.
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
	return fmt.Errorf("it is not a state file (%w); nothing was changed: bring back an earlier version with `bootstrap state restore`, or point --state at the right file", err)
}

// ofBoshInit tells whether a file is bosh-init's: the digest of the manifest
// has another name, and is another one.
func ofBoshInit(raw map[string]json.RawMessage) bool {
	_, sha1 := raw["current_manifest_sha1"]
	_, sha := raw["current_manifest_sha"]
	return sha1 && !sha
}

// fromBoshInit makes create-env's format of bosh-init's. The SHA-1 of the
// manifest's bytes is no digest of what create-env compares: it is kept for
// whoever wants to know whether the manifest is still the same.
func fromBoshInit(raw map[string]json.RawMessage) error {
	raw["current_manifest_sha"] = json.RawMessage(`""`)
	return nil
}

// ofCreateEnv tells whether a file was written by create-env last.
func ofCreateEnv(raw map[string]json.RawMessage) bool {
	own, ok := raw["bootstrap"]
	return !ok || string(bytes.TrimSpace(own)) == "null"
}

// fromCreateEnv makes format 1, which has a part of our own.
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
