package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"bootstrap/templates/cruby"
)

// The sections of a module that this program reads or writes.
const (
	sectionMemory    = 5
	sectionGlobal    = 6
	sectionExport    = 7
	sectionDataCount = 12
	sectionData      = 11
)

const pageSize = 64 << 10

func find(list []cruby.Section, id byte) (*cruby.Section, error) {
	for i := range list {
		if list[i].ID == id {
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("it has no section %d", id)
}

const typeI32 = 0x7f

// globals reads the section of globals, which must all be 32 bit numbers with a
// constant value. It returns which of them can change.
func globals(list []cruby.Section) (mutable []bool, err error) {
	s, err := find(list, sectionGlobal)
	if err != nil {
		return nil, err
	}
	r := bytes.NewReader(s.Body)
	count, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	for range count {
		kind, _ := r.ReadByte()
		change, _ := r.ReadByte()
		op, _ := r.ReadByte()
		for {
			b, err := r.ReadByte()
			if err != nil {
				return nil, err
			}
			if b < 0x80 {
				break
			}
		}
		end, err := r.ReadByte()
		if err != nil || kind != typeI32 || op != 0x41 || end != 0x0b {
			return nil, errors.New("it has a global of a kind that this program does not know")
		}
		mutable = append(mutable, change == 1)
	}
	return mutable, nil
}

// globalName is the name under which open exports a global.
func globalName(i int) string { return fmt.Sprintf("snapshot-global-%d", i) }

// open exports the globals, so that their values can be read.
func open(wasm []byte) ([]byte, error) {
	list, err := cruby.Sections(wasm)
	if err != nil {
		return nil, err
	}
	mutable, err := globals(list)
	if err != nil {
		return nil, err
	}
	s, err := find(list, sectionExport)
	if err != nil {
		return nil, err
	}
	count, n := binary.Uvarint(s.Body)
	if n <= 0 {
		return nil, errors.New("its exports cannot be read")
	}
	body := binary.AppendUvarint(nil, count+uint64(len(mutable)))
	body = append(body, s.Body[n:]...)
	for i := range mutable {
		name := globalName(i)
		body = binary.AppendUvarint(body, uint64(len(name)))
		body = append(body, name...)
		body = append(body, 3) // a global
		body = binary.AppendUvarint(body, uint64(i))
	}
	s.Body = body
	return cruby.Join(list), nil
}

// snapshot returns the module without data, with the present values of its globals and
// the present size of its memory: started with that memory, it continues from this
// state. Its functions may not read data segments later.
func snapshot(wasm, memory []byte, value func(name string) (uint64, bool)) ([]byte, error) {
	list, err := cruby.Sections(wasm)
	if err != nil {
		return nil, err
	}
	mutable, err := globals(list)
	if err != nil {
		return nil, err
	}
	body := binary.AppendUvarint(nil, uint64(len(mutable)))
	for i, change := range mutable {
		v, ok := value(globalName(i))
		if !ok {
			return nil, fmt.Errorf("global %d is not exported", i)
		}
		body = append(body, typeI32, bit(change), 0x41)
		body = appendSigned(body, int32(v))
		body = append(body, 0x0b)
	}
	for id, body := range map[byte][]byte{
		sectionGlobal: body,
		// without an upper limit, because the host sets one
		sectionMemory: binary.AppendUvarint([]byte{1, 0}, uint64(len(memory)/pageSize)),
	} {
		s, err := find(list, id)
		if err != nil {
			return nil, err
		}
		s.Body = body
	}
	list = slices.DeleteFunc(list, func(s cruby.Section) bool { return s.ID == sectionData || s.ID == sectionDataCount })
	return cruby.Join(list), nil
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// appendSigned appends a number in signed LEB128.
func appendSigned(out []byte, v int32) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}
