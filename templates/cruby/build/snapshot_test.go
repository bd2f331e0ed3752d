package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/tetratelabs/wazero"

	"bootstrap/templates/cruby"
)

// counter is a module with a page of memory, a data segment, a global, and a function
// that increments the global and the first byte.
var counter = cruby.Join([]cruby.Section{
	{ID: 1, Body: []byte{1, 0x60, 0, 1, 0x7f}},                  // a function without parameters that returns a number
	{ID: 3, Body: []byte{1, 0}},                                 // one function of this type
	{ID: 5, Body: []byte{1, 0, 1}},                              // memory
	{ID: 6, Body: []byte{1, 0x7f, 1, 0x41, 0xe4, 0, 0x0b}},      // the global, 100
	{ID: 7, Body: []byte{2, 1, 'f', 0, 0, 1, 'm', 2, 0}},        // exports
	{ID: 12, Body: []byte{1}},                                   // data count
	{ID: 10, Body: append([]byte{1, byte(len(code))}, code...)}, // code
	{ID: 11, Body: []byte{1, 0, 0x41, 0, 0x0b, 1, 7}},           // the first byte is 7
})

var code = []byte{0,
	0x23, 0, 0x41, 1, 0x6a, 0x24, 0, // global += 1
	0x41, 0, 0x41, 0, 0x2d, 0, 0, 0x41, 1, 0x6a, 0x3a, 0, 0, // memory[0] += 1
	0x41, 1, 0x40, 0, 0x1a, // one more page
	0x23, 0, 0x41, 0, 0x2d, 0, 0, 0x6a, // global + memory[0]
	0x0b,
}

// TestSnapshot runs a module, takes a snapshot of it, and continues with the
// snapshot.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	opened, err := open(counter)
	if err != nil {
		t.Fatal(err)
	}
	module, memory := opened, []byte(nil)
	for i, want := range []uint64{101 + 8, 102 + 9, 103 + 10} {
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
		defer r.Close(context.WithoutCancel(ctx))
		m, err := r.Instantiate(ctx, module)
		if err != nil {
			t.Fatal(err)
		}
		if size := m.Memory().Size(); size != uint32(i+1)*pageSize {
			t.Errorf("run %d begins with %d bytes", i, size)
		}
		if memory != nil && !m.Memory().Write(0, memory) {
			t.Fatal("the memory is too small")
		}
		out, err := m.ExportedFunction("f").Call(ctx)
		if err != nil || out[0] != want {
			t.Errorf("run %d: got %v, %v, want %d", i, out, err, want)
		}
		view, _ := m.Memory().Read(0, m.Memory().Size())
		memory = bytes.Clone(view)
		module, err = snapshot(opened, memory, func(name string) (uint64, bool) {
			g := m.ExportedGlobal(name)
			return g.Get(), g != nil
		})
		if err != nil {
			t.Fatal(err)
		}
		again, err := snapshot(opened, memory, func(string) (uint64, bool) { return m.ExportedGlobal(globalName(0)).Get(), true })
		if err != nil || !bytes.Equal(module, again) {
			t.Error("the same state makes two snapshots", err)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, wasm := range map[string][]byte{
		"nothing":        nil,
		"no module":      []byte("hello"),
		"cut off":        counter[:len(counter)-3],
		"no globals":     cruby.Join([]cruby.Section{{ID: 7, Body: []byte{0}}}),
		"no exports":     cruby.Join([]cruby.Section{{ID: 6, Body: []byte{0}}}),
		"another global": cruby.Join([]cruby.Section{{ID: 6, Body: []byte{1, 0x7e, 1, 0x42, 0, 0x0b}}, {ID: 7, Body: []byte{0}}}),
		"short globals":  cruby.Join([]cruby.Section{{ID: 6, Body: []byte{5, 0x7f, 1, 0x41}}, {ID: 7, Body: []byte{0}}}),
	} {
		if _, err := open(wasm); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestSigned(t *testing.T) {
	t.Parallel()
	for value, want := range map[int32]string{0: "\x00", 63: "\x3f", 64: "\xc0\x00", -1: "\x7f", -65: "\xbf\x7f", 1 << 20: "\x80\x80\xc0\x00", -1 << 31: "\x80\x80\x80\x80\x78"} {
		if got := appendSigned(nil, value); string(got) != want {
			t.Errorf("%d: got %x, want %x", value, got, want)
		}
	}
}
