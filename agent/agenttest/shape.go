package agenttest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Shape describes a JSON value as far as samples show it: the kinds of values, the
// keys, and the keys that are always present.
type Shape struct {
	kinds map[string]bool
	keys  map[string]*Shape
	seen  int            // number of objects seen
	count map[string]int // number of objects that have the key
	items *Shape         // shape of the items of an array, or of the values of an object whose keys are names
	free  bool           // any value
}

// Shapes derives the values of each method from the transcripts. It ignores exceptions.
func Shapes(transcripts []Transcript) (map[string]*Shape, error) {
	shapes := map[string]*Shape{}
	for _, transcript := range transcripts {
		for _, e := range transcript.Exchanges {
			if e.Request == nil || e.Final() == nil {
				continue
			}
			var reply struct {
				Value     any `json:"value"`
				Exception any `json:"exception"`
			}
			if err := json.Unmarshal(e.Final(), &reply); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", transcript.Name, e.Name, err)
			}
			if reply.Exception != nil {
				continue
			}
			// A result of get_task belongs to another method.
			if e.Request.Method == "get_task" {
				continue
			}
			shape := shapes[e.Request.Method]
			if shape == nil {
				shape = new(Shape)
				shapes[e.Request.Method] = shape
			}
			shape.add(e.Request.Method, reply.Value)
		}
	}
	return shapes, nil
}

func (s *Shape) add(path string, value any) {
	if s.kinds == nil {
		s.kinds, s.keys, s.count = map[string]bool{}, map[string]*Shape{}, map[string]int{}
	}
	s.kinds[kind(value)] = true
	switch value := value.(type) {
	case []any:
		if s.items == nil {
			s.items = new(Shape)
		}
		for _, item := range value {
			s.items.add(path+"[]", item)
		}
	case map[string]any:
		if named(path) {
			if s.items == nil {
				s.items = &Shape{free: strings.HasSuffix(path, ".networks")}
			}
			for _, item := range value {
				s.items.add(path+".*", item)
			}
			return
		}
		s.free = s.free || strings.HasSuffix(path, ".vitals")
		s.seen++
		for key, item := range value {
			if s.keys[key] == nil && added(path+"."+key) {
				continue
			}
			if s.keys[key] == nil {
				s.keys[key] = new(Shape)
			}
			s.count[key]++
			s.keys[key].add(path+"."+key, item)
		}
	}
}

// named reports whether the keys of an object are chosen by the user.
func named(path string) bool {
	return slices.Contains([]string{"get_state.packages", "get_state.networks"}, path)
}

// added reports whether only the embedded agent has this key in its replies. Such a key
// says what a VM consists of, which a real VM need not report, or helps messages about it.
func added(path string) bool {
	return path == "get_state.vm.machine" || path == "fetch_logs.before_start"
}

// Check lists the parts of the value that the real agent never returned, and missing
// parts that it always returned.
func (s *Shape) Check(path string, value any) []string {
	if s.free {
		return nil
	}
	if s.kinds == nil {
		return nil // no sample had an item here
	}
	if k := kind(value); !s.kinds[k] {
		return []string{fmt.Sprintf("%s is a %s, want %s", path, k, strings.Join(sorted(s.kinds), " or "))}
	}
	var problems []string
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			problems = append(problems, s.items.Check(fmt.Sprintf("%s[%d]", path, i), item)...)
		}
	case map[string]any:
		if named(path) {
			for key, item := range value {
				problems = append(problems, s.items.Check(path+"."+key, item)...)
			}
			return problems
		}
		for key, item := range value {
			if s.keys[key] == nil && added(path+"."+key) {
				continue
			}
			if s.keys[key] == nil {
				problems = append(problems, fmt.Sprintf("%s has the unknown key %s", path, key))
				continue
			}
			problems = append(problems, s.keys[key].Check(path+"."+key, item)...)
		}
		for _, key := range sorted(s.keys) {
			if _, ok := value[key]; !ok && s.count[key] == s.seen {
				problems = append(problems, fmt.Sprintf("%s lacks the key %s", path, key))
			}
		}
	}
	return problems
}

func kind(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64, json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "list"
	}
	return "map"
}

func sorted[V any](set map[string]V) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
