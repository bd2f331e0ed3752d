package cruby

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Section is one part of a WebAssembly module.
type Section struct {
	ID   byte
	Body []byte
}

const (
	header        = "\x00asm\x01\x00\x00\x00"
	sectionCustom = 0
	sectionCode   = 10
)

// Sections splits a module. It leaves out custom sections, which do not matter for
// running it.
func Sections(wasm []byte) ([]Section, error) {
	rest, ok := bytes.CutPrefix(wasm, []byte(header))
	if !ok {
		return nil, errors.New("it is not a WebAssembly module")
	}
	var list []Section
	for r := bytes.NewReader(rest); ; {
		id, err := r.ReadByte()
		if err == io.EOF {
			return list, nil
		}
		size, err := binary.ReadUvarint(r)
		if err != nil || size > uint64(r.Len()) {
			return nil, fmt.Errorf("section %d is incomplete", id)
		}
		at := len(rest) - r.Len()
		if id != sectionCustom {
			list = append(list, Section{id, rest[at : at+int(size)]})
		}
		_, _ = r.Seek(int64(size), io.SeekCurrent)
	}
}

// Join returns the module of its sections.
func Join(list []Section) []byte {
	out := []byte(header)
	for _, s := range list {
		out = append(out, s.ID)
		out = binary.AppendUvarint(out, uint64(len(s.Body)))
		out = append(out, s.Body...)
	}
	return out
}

// reduce returns the module with the functions of the profile; the others only fail.
func reduce(wasm []byte, p Profile) ([]byte, error) {
	list, err := Sections(wasm)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].ID != sectionCode {
			continue
		}
		bodies, err := functions(list[i].Body)
		if err != nil {
			return nil, err
		}
		out := binary.AppendUvarint(nil, uint64(len(bodies)))
		for f, body := range bodies {
			if !p.has(f) {
				body = []byte{0, 0x00, 0x0b} // no locals, unreachable, end
			}
			out = binary.AppendUvarint(out, uint64(len(body)))
			out = append(out, body...)
		}
		list[i].Body = out
	}
	return Join(list), nil
}

// functions splits the section of code.
func functions(code []byte) ([][]byte, error) {
	count, n := binary.Uvarint(code)
	if n <= 0 || count > uint64(len(code)) {
		return nil, errors.New("its code cannot be read")
	}
	code = code[n:]
	list := make([][]byte, count)
	for i := range list {
		size, n := binary.Uvarint(code)
		if n <= 0 || size > uint64(len(code)-n) {
			return nil, fmt.Errorf("function %d is incomplete", i)
		}
		list[i] = code[n : n+int(size)]
		code = code[n+int(size):]
	}
	return list, nil
}

// Functions returns the size of each of a module's own functions.
func Functions(wasm []byte) (sizes []int, err error) {
	list, err := Sections(wasm)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if s.ID != sectionCode {
			continue
		}
		bodies, err := functions(s.Body)
		if err != nil {
			return nil, err
		}
		for _, body := range bodies {
			sizes = append(sizes, len(body))
		}
	}
	return sizes, nil
}

// Profile says which of a module's own functions templates call: one bit for each
// function. The empty profile has no functions.
type Profile []byte

func (p Profile) has(f int) bool { return f/8 < len(p) && p[f/8]>>(f%8)&1 == 1 }

// Add adds a function, for which the profile has a bit.
func (p Profile) Add(f int) { p[f/8] |= 1 << (f % 8) }
