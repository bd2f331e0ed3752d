package state

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// unknown holds the keys of a JSON object that this version does not know, with
// their values. A newer version or another tool wrote them: every write keeps
// them.
type unknown map[string]json.RawMessage

// These types lack the methods that keep unknown keys.
type (
	plainState State
	plainOwn   Own
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
			continue // the field unknown
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
		out.WriteByte(',') // a struct is never empty here
		out.Write(name)
		out.WriteByte(':')
		out.Write(more[key])
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
