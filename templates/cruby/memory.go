package cruby

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tetratelabs/wazero/api"
)

// block is the size of the units in which zeros are left out of a memory's file. It is
// a multiple of the page size of every machine, so that the file can be mapped.
const block = 64 << 10

// PackMemory returns the file of a memory, whose size is a multiple of 64 KiB: one block
// with the number of runs and, for each, its address and its size; then the runs. Zeros
// are left out.
func PackMemory(memory []byte) ([]byte, error) {
	zero := make([]byte, block)
	var runs []run
	out := make([]byte, block)
	for at := 0; at+block <= len(memory); at += block {
		if string(memory[at:at+block]) == string(zero) {
			continue
		}
		if last := len(runs) - 1; last >= 0 && runs[last].at+runs[last].size == at {
			runs[last].size += block
		} else {
			runs = append(runs, run{at: at, size: block})
		}
		out = append(out, memory[at:at+block]...)
	}
	if len(memory)%block != 0 || 4+8*len(runs) > block {
		return nil, fmt.Errorf("a memory of %d bytes with %d runs has no file", len(memory), len(runs))
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(runs)))
	for _, r := range runs {
		head = binary.LittleEndian.AppendUint32(head, uint32(r.at))
		head = binary.LittleEndian.AppendUint32(head, uint32(r.size))
	}
	copy(out, head)
	return out, nil
}

// run is a part of a memory that is not zero.
type run struct {
	at, size int
	from     int64 // where the run begins in the file
}

var errRuns = errors.New("it is not the memory of a Ruby")

// readRuns reads the first block of a file of PackMemory with that many bytes.
func readRuns(head []byte, size int64) ([]run, error) {
	if len(head) < block {
		return nil, errRuns
	}
	count := binary.LittleEndian.Uint32(head)
	if count > (block-4)/8 {
		return nil, errRuns
	}
	runs := make([]run, count)
	from, free := int64(block), 0
	for i := range runs {
		entry := head[4+8*i:]
		r := run{int(binary.LittleEndian.Uint32(entry)), int(binary.LittleEndian.Uint32(entry[4:])), from}
		if r.size == 0 || r.at%block != 0 || r.size%block != 0 || r.at < free || r.at+r.size > memoryPages*block {
			return nil, errRuns
		}
		from += int64(r.size)
		free = r.at + r.size
		runs[i] = r
	}
	if from != size {
		return nil, errRuns
	}
	return runs, nil
}

// initial is the memory with which each machine of a module starts. If the system can
// do that, the file is mapped, so that a machine costs only the pages that it uses.
type initial struct {
	runs []run
	file *os.File // nil: data has the content
	data []byte
}

func newInitial(data []byte) (*initial, error) {
	runs, err := readRuns(data, int64(len(data)))
	return &initial{runs: runs, data: data}, err
}

// openInitial opens a file, which Close closes.
func openInitial(path string) (*initial, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := readInitial(f)
	if err != nil || !mapsFiles {
		err = errors.Join(err, f.Close())
	} else {
		m.file = f
	}
	return m, err
}

func readInitial(f *os.File) (*initial, error) {
	if !mapsFiles {
		data, err := io.ReadAll(f)
		if err != nil {
			return nil, err
		}
		return newInitial(data)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, block)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, err
	}
	runs, err := readRuns(head, info.Size())
	return &initial{runs: runs}, err
}

// write fills a memory that is not mapped.
func (m *initial) write(memory api.Memory) error {
	for _, r := range m.runs {
		if !memory.Write(uint32(r.at), m.data[r.from:r.from+int64(r.size)]) {
			return errMemory
		}
	}
	return nil
}

// Close closes the file.
func (m *initial) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}
