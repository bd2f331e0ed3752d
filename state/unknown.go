package state

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// unknown are the keys of a JSON object that this version does not know, with
// what they have. A newer version, or another tool, has written them: they are
// kept through every rewrite.
type unknown map[string]json.RawMessage

// The types below are as their names say, without the methods that keep unknown
// keys.
type (
	plainState State
	plainOwn   Own
)

// UnmarshalJSON reads the state, and keeps the keys that it does not know.
func (s *State) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*plainState)(s)); err != nil {
		return err
	}
	s.unknown = unknownIn(data, s)
	return nil
}

// MarshalJSON writes the state with the keys that it does not know.
func (s State) MarshalJSON() ([]byte, error) { return withUnknown(plainState(s), s.unknown) }

// UnmarshalJSON reads the program's own part as State's does.
func (o *Own) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*plainOwn)(o)); err != nil {
		return err
	}
	o.unknown = unknownIn(data, o)
	return nil
}

// MarshalJSON writes the program's own part as State's does.
func (o Own) MarshalJSON() ([]byte, error) { return withUnknown(plainOwn(o), o.unknown) }

// unknownIn returns the keys of an object that no field of the struct that v
// points to has. Like encoding/json, it does not tell capitals from others.
func unknownIn(data []byte, v any) unknown {
	var all unknown
	if json.Unmarshal(data, &all) != nil {
		return nil // null
	}
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" {
			continue // the unknown ones themselves
		}
		maps.DeleteFunc(all, func(key string, _ json.RawMessage) bool { return strings.EqualFold(key, name) })
	}
	// bosh-init's digest of the manifest is in the own part by now.
	delete(all, "current_manifest_sha1")
	if len(all) == 0 {
		return nil
	}
	return all
}

// withUnknown writes a struct, and behind its keys the unknown ones.
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
		out.WriteByte(',') // a struct is never empty here
		out.Write(name)
		out.WriteByte(':')
		out.Write(more[key])
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
