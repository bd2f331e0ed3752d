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

// hollow returns the module with functions that only fail.
func hollow(wasm []byte) ([]byte, error) {
	list, err := Sections(wasm)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].ID != sectionCode {
			continue
		}
		count, n := binary.Uvarint(list[i].Body)
		if n <= 0 || count > uint64(len(list[i].Body)) {
			return nil, errors.New("its code cannot be read")
		}
		body := binary.AppendUvarint(nil, count)
		for range count {
			// Three bytes: no locals, unreachable, end.
			body = append(body, 3, 0, 0x00, 0x0b)
		}
		list[i].Body = body
	}
	return Join(list), nil
}
