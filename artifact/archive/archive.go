// Package archive packs folders into archives, and unpacks untrusted archives.
package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// BufferSize is the size of reads and copies: large enough to make system calls
// rare, small enough for several files at once.
const BufferSize = 256 << 10

// Limits limits what an archive may unpack to; zero fields have defaults.
type Limits struct {
	Size    int64 // bytes of the unpacked archive; default 64 GiB
	Entries int   // default 1,000,000
	// Ratio is the largest ratio of unpacked to packed bytes, checked after the
	// first 2 GiB, which even a disk full of zeros may need; default 200.
	Ratio int
	// AnyLinks allows symbolic links that lead out of the folder, which packages
	// compiled on a VM contain. Nothing is ever written through a link.
	AnyLinks bool
	// Skip reports whether an entry with that cleaned name and header is not
	// unpacked; nil: all are.
	Skip func(name string, h *tar.Header) bool
}

const ratioFrom = 2 << 30

func (l Limits) orDefault() Limits {
	if l.Size <= 0 {
		l.Size = 64 << 30
	}
	if l.Entries <= 0 {
		l.Entries = 1_000_000
	}
	if l.Ratio <= 0 {
		l.Ratio = 200
	}
	return l
}

// Progress is called with the number of bytes done; total is 0 as long as it is
// unknown. Several goroutines may call it, but never at the same time.
type Progress func(done, total int64)

// Input reads a packed file; it counts bytes, reports progress and ends with
// Ctx. The fields after R may be empty.
type Input struct {
	Ctx      context.Context
	R        io.Reader
	Total    int64 // bytes, for Progress
	Progress Progress
	Each     io.Writer // sees every byte

	done int64
}

// Read implements io.Reader.
func (s *Input) Read(p []byte) (int, error) {
	if err := context.Cause(s.Ctx); err != nil {
		return 0, err
	}
	n, err := s.R.Read(p)
	if n > 0 {
		s.done += int64(n)
		if s.Each != nil {
			s.Each.Write(p[:n])
		}
		if s.Progress != nil {
			s.Progress(s.done, s.Total)
		}
	}
	return n, err
}

// Tar is the tar stream in an archive, bounded by limits.
type Tar struct {
	r      io.Reader
	packed *Input
	lim    Limits
	done   int64
	end    func()
}

// Unpack recognises the compression by the first bytes: gzip, zstd, bzip2 or
// none.
func Unpack(src *Input, lim Limits) (*Tar, error) {
	buf := bufio.NewReaderSize(src, BufferSize)
	head, err := buf.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	u := &Tar{r: buf, packed: src, lim: lim.orDefault(), end: func() {}}
	switch {
	case len(head) == 0:
		return nil, errors.New("the file is empty")
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(buf)
		if err != nil {
			return nil, fmt.Errorf("cannot unpack gzip: %w", err)
		}
		u.r = z
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// There is one decoder, with its window in memory; a file cannot enlarge the
		// window.
		z, err := zstd.NewReader(buf, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, fmt.Errorf("cannot unpack zstd: %w", err)
		}
		u.r, u.end = z, z.Close
	case bytes.HasPrefix(head, []byte("BZh")):
		u.r = bzip2.NewReader(buf)
	case bytes.HasPrefix(head, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return nil, errors.New("it is compressed with xz; use gzip, zstd, bzip2 or a plain tar")
	}
	return u, nil
}

// Close releases the resources that unpacking needed.
func (u *Tar) Close() { u.end() }

// Read reads the tar; more than the limits allow is an error.
func (u *Tar) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	u.done += int64(n)
	if u.done > u.lim.Size {
		return 0, &bombError{fmt.Sprintf("it unpacks to more than %d bytes", u.lim.Size)}
	}
	if u.done > ratioFrom && u.done/int64(u.lim.Ratio) > u.packed.done {
		return 0, &bombError{fmt.Sprintf("it unpacks to more than %d times its size", u.lim.Ratio)}
	}
	return n, err
}

// finish reads the rest of the file, so that checksums at the end of the compressed
// stream are checked and the digest covers the whole file.
func (u *Tar) finish() error {
	// gzip itself ignores data after its last stream, for example the zeros of a tape.
	if err := Drain(u); err != nil && !errors.Is(err, gzip.ErrHeader) {
		return err
	}
	return Drain(u.packed)
}

// Drain reads r to its end, in large pieces.
func Drain(r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, BufferSize))
	return err
}

// bombError says which limit an archive exceeded; it becomes an *UnsafeError with the
// name of the entry.
type bombError struct{ reason string }

func (e *bombError) Error() string { return e.reason }
