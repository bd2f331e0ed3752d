package gen

import (
	"runtime"
	"testing"
	"time"
)

// Values that use prepared keys are valid for their definitions, in any order, and no key
// is used twice.
func TestKeys(t *testing.T) {
	t.Parallel()
	var keys Keys
	defer keys.Close()
	defs := []Definition{
		{"large", "certificate", map[string]any{"ca": "ca", "common_name": "large"}},
		{"small", "certificate", map[string]any{"ca": "ca", "common_name": "small", "key_length": 2048}},
		{"ca", "certificate", map[string]any{"is_ca": true, "common_name": "ca", "key_length": 2048}},
		{"rsa", "rsa", nil},
		{"ssh", "ssh", nil},
		{"curve", "certificate", map[string]any{"ca": "ca", "common_name": "curve", "key_type": "ecdsa"}},
		{"password", "password", nil},
	}
	for _, d := range defs {
		keys.Expect(d)
	}
	keys.Expect(Definition{"wrong", "rsa", map[string]any{"key_length": 1}})
	defs = append(defs, Definition{"unexpected", "rsa", nil})
	v, private := values{}, map[string]string{}
	for _, i := range []int{2, 0, 1, 5, 4, 3, 6, 7} {
		d := defs[i]
		value, err := keys.Generate(d, v.find)
		if err != nil {
			t.Fatal(err)
		}
		v[d.Name] = value
		if list := Check(d, value, v.find, time.Now(), month); len(list) != 0 {
			t.Errorf("%s: %v", d.Name, findings(list))
		}
		if fields, ok := fieldsOf(value); ok {
			key := fields["private_key"]
			if other, again := private[key]; again {
				t.Errorf("%s has the key of %s", d.Name, other)
			}
			private[key] = d.Name
		}
	}
	if len(private) != len(defs)-1 {
		t.Errorf("%d keys, want %d", len(private), len(defs)-1)
	}
}

// As many keys are generated at the same time as there are processors, and after Close no
// further key is begun.
func TestKeysAtATime(t *testing.T) {
	t.Parallel()
	var keys Keys
	limit := runtime.GOMAXPROCS(0)
	for range 10 * limit {
		keys.Expect(Definition{"v", "rsa", map[string]any{"key_length": 2048}})
	}
	keys.mu.Lock()
	workers := keys.workers
	keys.mu.Unlock()
	if workers != limit {
		t.Errorf("%d workers, want %d", workers, limit)
	}
	keys.Close()
	if c := keys.next(); c != nil {
		t.Error("a key is begun after Close")
	}
}
