package state

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// unknown contains the keys of a JSON object, with their values, that this version does
// not know. A newer version or another tool wrote them: every write keeps them.
type unknown map[string]json.RawMessage

// These types lack the methods that keep unknown keys.
type (
	plainState    State
	plainOwn      Own
	plainNamed    NamedDisk
	plainDisk     Disk
	plainStemcell Stemcell
	plainRelease  Release
	plainOldVM    OldVM
	plainAddress  Address
	plainOrphan   Orphan
	plainSnapshot Snapshot
	plainIntent   Intent
)

// UnmarshalJSON reads the state and keeps its unknown keys.
func (s *State) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*plainState)(s)); err != nil {
		return err
	}
	s.unknown = unknownIn(data, s)
	return nil
}

// MarshalJSON writes the state with its unknown keys.
func (s State) MarshalJSON() ([]byte, error) { return withUnknown(plainState(s), s.unknown) }

// UnmarshalJSON reads the program's own part and keeps its unknown keys.
func (o *Own) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*plainOwn)(o)); err != nil {
		return err
	}
	o.unknown = unknownIn(data, o)
	return nil
}

// MarshalJSON writes the program's own part with its unknown keys.
func (o Own) MarshalJSON() ([]byte, error) { return withUnknown(plainOwn(o), o.unknown) }

// UnmarshalJSON reads a disk and keeps its unknown keys.
func (d *Disk) UnmarshalJSON(data []byte) error {
	d.unknown = nil
	return readUnknown(data, (*plainDisk)(d), &d.unknown)
}

// MarshalJSON writes a disk with its unknown keys.
func (d Disk) MarshalJSON() ([]byte, error) { return withMore(plainDisk(d), d.unknown) }

// UnmarshalJSON reads a stemcell and keeps its unknown keys.
func (s *Stemcell) UnmarshalJSON(data []byte) error {
	s.unknown = nil
	return readUnknown(data, (*plainStemcell)(s), &s.unknown)
}

// MarshalJSON writes a stemcell with its unknown keys.
func (s Stemcell) MarshalJSON() ([]byte, error) { return withMore(plainStemcell(s), s.unknown) }

// UnmarshalJSON reads a release and keeps its unknown keys.
func (r *Release) UnmarshalJSON(data []byte) error {
	r.unknown = nil
	return readUnknown(data, (*plainRelease)(r), &r.unknown)
}

// MarshalJSON writes a release with its unknown keys.
func (r Release) MarshalJSON() ([]byte, error) { return withMore(plainRelease(r), r.unknown) }

// UnmarshalJSON reads a replaced VM and keeps its unknown keys.
func (v *OldVM) UnmarshalJSON(data []byte) error {
	v.unknown = nil
	return readUnknown(data, (*plainOldVM)(v), &v.unknown)
}

// MarshalJSON writes a replaced VM with its unknown keys.
func (v OldVM) MarshalJSON() ([]byte, error) { return withMore(plainOldVM(v), v.unknown) }

// UnmarshalJSON reads an address and keeps its unknown keys.
func (a *Address) UnmarshalJSON(data []byte) error {
	a.unknown = nil
	return readUnknown(data, (*plainAddress)(a), &a.unknown)
}

// MarshalJSON writes an address with its unknown keys.
func (a Address) MarshalJSON() ([]byte, error) { return withMore(plainAddress(a), a.unknown) }

// UnmarshalJSON reads the name of a disk and keeps its unknown keys.
func (n *NamedDisk) UnmarshalJSON(data []byte) error {
	n.unknown = nil
	return readUnknown(data, (*plainNamed)(n), &n.unknown)
}

// MarshalJSON writes the name of a disk with its unknown keys.
func (n NamedDisk) MarshalJSON() ([]byte, error) { return withMore(plainNamed(n), n.unknown) }

// UnmarshalJSON reads an orphan and keeps its unknown keys.
func (o *Orphan) UnmarshalJSON(data []byte) error {
	o.unknown = nil
	return readUnknown(data, (*plainOrphan)(o), &o.unknown)
}

// MarshalJSON writes an orphan with its unknown keys.
func (o Orphan) MarshalJSON() ([]byte, error) { return withMore(plainOrphan(o), o.unknown) }

// UnmarshalJSON reads a snapshot and keeps its unknown keys.
func (s *Snapshot) UnmarshalJSON(data []byte) error {
	s.unknown = nil
	return readUnknown(data, (*plainSnapshot)(s), &s.unknown)
}

// MarshalJSON writes a snapshot with its unknown keys.
func (s Snapshot) MarshalJSON() ([]byte, error) { return withMore(plainSnapshot(s), s.unknown) }

// UnmarshalJSON reads an intent and keeps its unknown keys.
func (i *Intent) UnmarshalJSON(data []byte) error {
	i.unknown = nil
	return readUnknown(data, (*plainIntent)(i), &i.unknown)
}

// MarshalJSON writes an intent with its unknown keys.
func (i Intent) MarshalJSON() ([]byte, error) { return withMore(plainIntent(i), i.unknown) }

// UnmarshalJSON reads a leftover and keeps its unknown keys, which are those of its
// intent.
func (l *Leftover) UnmarshalJSON(data []byte) error {
	var more struct {
		Why string `json:"why"`
	}
	if err := json.Unmarshal(data, &more); err != nil {
		return err
	}
	l.Why = more.Why
	if err := json.Unmarshal(data, &l.Intent); err != nil || l.unknown == nil {
		return err
	}
	maps.DeleteFunc(l.unknown.keys, func(key string, _ json.RawMessage) bool { return strings.EqualFold(key, "why") })
	return nil
}

// MarshalJSON writes a leftover with its unknown keys.
func (l Leftover) MarshalJSON() ([]byte, error) {
	why, err := json.Marshal(l.Why)
	if err != nil {
		return nil, err
	}
	keys := unknown{"why": why}
	if l.unknown != nil {
		maps.Copy(keys, l.unknown.keys)
		keys["why"] = why
	}
	return withUnknown(plainIntent(l.Intent), keys)
}

// more contains the unknown keys of a record in a list. It exists because records are
// compared, and a map cannot be.
type more struct{ keys unknown }

// readUnknown reads an object into the struct that v points to, and its unknown keys.
func readUnknown(data []byte, v any, into **more) error {
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	if keys := unknownIn(data, v); len(keys) > 0 {
		*into = &more{keys}
	}
	return nil
}

func withMore(v any, more *more) ([]byte, error) {
	if more == nil {
		return json.Marshal(v)
	}
	return withUnknown(v, more.keys)
}

// unknownIn returns the keys of an object for which the struct that v points to
// has no field. Like encoding/json, it ignores case.
func unknownIn(data []byte, v any) unknown {
	var all unknown
	if json.Unmarshal(data, &all) != nil {
		return nil // null
	}
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" {
			continue // the field unknown of the struct
		}
		maps.DeleteFunc(all, func(key string, _ json.RawMessage) bool { return strings.EqualFold(key, name) })
	}
	// fromCreateEnv has moved bosh-init's digest of the manifest.
	delete(all, "current_manifest_sha1")
	if len(all) == 0 {
		return nil
	}
	return all
}

// withUnknown writes a struct, and the unknown keys after its own.
func withUnknown(v any, more unknown) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil || len(more) == 0 {
		return data, err
	}
	out := bytes.NewBuffer(bytes.TrimSuffix(data, []byte("}")))
	for _, key := range slices.Sorted(maps.Keys(more)) {
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		out.WriteByte(',') // the struct always has fields before these keys
		out.Write(name)
		out.WriteByte(':')
		out.Write(more[key])
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
