package cruby

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
)

// aMemory returns a memory with two runs of data, and zeros before, between and after
// them.
func aMemory() []byte {
	memory := make([]byte, 8*block)
	for _, at := range []int{block, 3*block - 1, 5 * block, 7*block - 17} {
		memory[at] = 1
	}
	return memory
}

// TestMemory packs a memory, and starts machines with it: none sees the writes of
// another.
func TestMemory(t *testing.T) {
	t.Parallel()
	want := aMemory()
	data, err := PackMemory(want)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) != 5*block {
		t.Errorf("the file has %d bytes", len(data))
	}
	path := filepath.Join(t.TempDir(), "memory")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	stored, err := openInitial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer stored.Close()
	unpacked, err := newInitial(data)
	if err != nil {
		t.Fatal(err)
	}
	// A module that exports a memory of 8 pages.
	wasm := Join([]Section{{ID: 5, Body: []byte{1, 0, 8}}, {ID: 7, Body: []byte{1, 1, 'm', 2, 0}}})
	for name, first := range map[string]*initial{"file": stored, "data": unpacked} {
		for range 2 {
			m, err := Compile(t.Context(), wasm, nil)
			if err != nil {
				t.Fatal(err)
			}
			m.initial = first
			instance, err := m.instantiate(t.Context(), wazero.NewModuleConfig())
			if err != nil {
				t.Fatal(err)
			}
			got, _ := instance.Memory().Read(0, instance.Memory().Size())
			if !bytes.Equal(got, want) {
				t.Errorf("%s: the memory is another one", name)
			}
			got[0], got[block] = 9, 9
			if _, ok := instance.Memory().Grow(1); !ok {
				t.Errorf("%s: it does not grow", name)
			}
			if b, _ := instance.Memory().ReadByte(9*block - 1); b != 0 {
				t.Errorf("%s: it grows by other things than zeros", name)
			}
			m.initial = nil
			if err := m.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, data) {
		t.Error("the file changed", err)
	}
}

// TestBadMemory reads files that are not a packed memory.
func TestBadMemory(t *testing.T) {
	t.Parallel()
	good, err := PackMemory(aMemory())
	if err != nil {
		t.Fatal(err)
	}
	entry := func(at int, v uint32) []byte {
		data := bytes.Clone(good)
		binary.LittleEndian.PutUint32(data[at:], v)
		return data
	}
	for name, data := range map[string][]byte{
		"empty": nil, "short": good[:100], "cut off": good[:2*block], "longer": append(bytes.Clone(good), 0),
		"many runs": entry(0, 1<<30), "fewer runs": entry(0, 1), "an odd address": entry(4, 1), "an odd size": entry(8, 1),
		"no size": entry(8, 0), "runs in another order": entry(4, 6*block), "beyond the limit": entry(12, memoryPages*block),
	} {
		if _, err := newInitial(data); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := PackMemory(make([]byte, 100)); err == nil {
		t.Error("a part of a page is taken for a memory")
	}
}

// TestReduce removes functions that are not in a profile.
func TestReduce(t *testing.T) {
	t.Parallel()
	code := []byte{3, 2, 0, 0x0b, 4, 0, 0x41, 7, 0x0b, 2, 0, 0x0b}
	wasm := Join([]Section{{ID: 3, Body: []byte{3, 0, 0, 0}}, {ID: sectionCode, Body: code}})
	for _, test := range []struct {
		profile Profile
		want    []byte
	}{
		{nil, []byte{3, 3, 0, 0, 0x0b, 3, 0, 0, 0x0b, 3, 0, 0, 0x0b}},
		{Profile{2}, []byte{3, 3, 0, 0, 0x0b, 4, 0, 0x41, 7, 0x0b, 3, 0, 0, 0x0b}},
		{Profile{7}, code},
	} {
		got, err := reduce(wasm, test.profile)
		if err != nil {
			t.Fatal(err)
		}
		list, err := Sections(got)
		if err != nil || len(list) != 2 || !bytes.Equal(list[1].Body, test.want) {
			t.Errorf("%v: got %v, %v", test.profile, list, err)
		}
	}
	for _, body := range [][]byte{nil, {1}, {1, 5, 0}, {200}} {
		if _, err := reduce(Join([]Section{{ID: sectionCode, Body: body}}), nil); err == nil {
			t.Errorf("%v is taken", body)
		}
	}
}
