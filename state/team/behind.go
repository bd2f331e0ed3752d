package team

import (
	"context"
	"encoding/json"
	"path"
	"strings"

	"bootstrap/state/versions"
)

// numbered is the part of a state or a record that has its serial number.
type numbered struct {
	Serial int `json:"serial"` // of a record
	Own    struct {
		Serial int `json:"serial"`
	} `json:"bootstrap"` // of a state
}

// SerialOf returns the serial number of a state or record; 0: another tool has written it.
// name is that of the document.
func SerialOf(name string, content []byte) int {
	var n numbered
	switch {
	case json.Unmarshal(content, &n) != nil:
		return 0
	case path.Base(name) == recordDocument:
		return n.Serial
	}
	return n.Own.Serial
}

// Raise returns a state or a record with a serial number above the newest one of a history,
// unless it is that one or above it. name is that of the document.
func Raise(name string, content []byte, newest int) ([]byte, error) {
	if had := SerialOf(name, content); had == 0 || had >= newest {
		return content, nil
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(content, &whole); err != nil {
		return nil, err
	}
	number, err := json.Marshal(newest + 1)
	if err != nil {
		return nil, err
	}
	if path.Base(name) == recordDocument {
		whole["serial"] = number
	} else {
		var own map[string]json.RawMessage
		if err := json.Unmarshal(whole["bootstrap"], &own); err != nil {
			return nil, err
		}
		own["serial"] = number
		if whole["bootstrap"], err = json.Marshal(own); err != nil {
			return nil, err
		}
	}
	data, err := json.MarshalIndent(whole, "", "    ")
	return append(data, '\n'), err
}

// newestIn returns the serial number of the newest state or record of a history; 0: unknown.
// name is that of the state or record. earlier returns the document of a version, in which
// earlier programs have recorded the number of a record.
func newestIn(h versions.List, name string, earlier func(versions.Version) ([]byte, error)) (int, error) {
	if path.Base(name) != recordDocument {
		newest := 0
		for _, v := range h.Versions {
			newest = max(newest, v.Serial)
		}
		return newest, nil
	}
	for _, v := range h.Versions {
		switch {
		case len(v.Only) > 0: // It may be of a deployment that was deleted.
		case v.Record > 0:
			return v.Record, nil
		default:
			data, err := earlier(v)
			_, serial := recordIn(data)
			return serial, err
		}
	}
	return 0, nil
}

// Newest returns the serial number of the newest state or record in the history; 0: unknown.
func (s *Store) Newest(ctx context.Context) (int, error) {
	h, err := s.History(ctx)
	if err != nil {
		return 0, err
	}
	return newestIn(h, s.full(stateName), func(v versions.Version) ([]byte, error) { return s.Earlier(ctx, v.Serial) })
}

// behind returns a *ProofError if a state or record with a valid proof is older than the newest
// one in the history. A machine that has seen neither could not find that out by the
// generation.
func (s *Store) behind(ctx context.Context, content []byte) (*ProofError, error) {
	name := s.full(stateName)
	serial := SerialOf(name, content)
	if serial == 0 {
		return nil, nil
	}
	newest, err := s.Newest(ctx)
	if err != nil || serial >= newest {
		return nil, err
	}
	return s.trust.doubt(name, ProofError{Why: Behind, Is: uint64(serial), Seen: uint64(newest)}), nil
}

// findBehind adds the doubts of behind to the documents.
func (e *Examined) findBehind(judge *trust) error {
	contents := map[string][]byte{}
	for _, d := range e.Documents {
		if d.Doubt == nil {
			contents[d.Name] = d.Content
		}
	}
	for i := range e.Documents {
		d := &e.Documents[i]
		base := path.Base(d.Name)
		folder := strings.TrimSuffix(d.Name, base)
		serial := SerialOf(d.Name, d.Content)
		var h versions.List
		if d.Doubt != nil || serial == 0 || base != stateName && base != recordDocument || json.Unmarshal(contents[folder+historyName], &h) != nil {
			continue
		}
		newest, err := newestIn(h, d.Name, func(v versions.Version) ([]byte, error) {
			return contents[folder+documentOf(v.Serial, versions.Snapshot)], nil
		})
		if err != nil {
			return err
		}
		if serial < newest && d.proof.generation > judge.pin.Seen[d.Name] {
			d.Doubt = judge.doubt(d.Name, ProofError{Why: Behind, Is: uint64(serial), Seen: uint64(newest)})
		}
	}
	return nil
}
