package cruby

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/klauspost/compress/zstd"
	"github.com/tetratelabs/wazero"
	"golang.org/x/sync/errgroup"

	"bootstrap/internal/guard"
)

// nativeName is the archive with the files of OpenReached's folder, except the memory.
// Its folder is named by CacheName. wazero names the folder of its file for the operating
// system; the archive has no such folder, because the content of the file does not depend
// on the operating system.
const nativeName = "code.tar.zst"

var errNotShipped = errors.New("this program has no machine code for this machine")

// unship fills the folder with the machine code in this program, and loads it.
func (s *store) unship(ctx context.Context) (*Module, error) {
	small, err := native.Open(path.Join("native", runtime.GOARCH, nativeName))
	if err != nil {
		return nil, errNotShipped
	}
	defer small.Close()
	var group errgroup.Group
	if err := os.MkdirAll(s.folder(), 0o700); err != nil {
		return nil, err
	}
	group.Go(guard.Func(s.storeMemory))
	group.Go(guard.Func(func() error { return s.extract(small) }))
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if s.files, err = s.list(); err != nil {
		return nil, err
	}
	m, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.vouch(); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

// extract writes the files of an archive, if it belongs to this image.
func (s *store) extract(small io.Reader) error {
	code, err := codeFolder(s.folder())
	if err != nil {
		return err
	}
	d, err := zstd.NewReader(small)
	if err != nil {
		return err
	}
	defer d.Close()
	for r := tar.NewReader(d); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		folder, name := path.Split(h.Name)
		if path.Clean(folder) != s.name || !filepath.IsLocal(name) {
			return errNotShipped
		}
		to := filepath.Join(s.folder(), name)
		if name != hollowName {
			to = filepath.Join(code, name)
		}
		if err := writeNew(to, r); err != nil {
			return err
		}
	}
}

// codeFolder returns the folder in which wazero looks for machine code, and creates it.
func codeFolder(folder string) (string, error) {
	if _, err := wazero.NewCompilationCacheWithDir(folder); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(folder, "wazero-*"))
	if err != nil || len(found) != 1 {
		return "", cmp.Or(err, errors.New("it is not in the format in which wazero keeps code"))
	}
	return found[0], nil
}

// MachineCode compiles the functions of an image that templates call, and returns the
// archive of them that programs for this machine's processor ship, not compressed.
func MachineCode(ctx context.Context, about About, wasm []byte, profile Profile) (archive []byte, err error) {
	folder, err := os.MkdirTemp("", "ruby-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	small, err := reduce(wasm, profile)
	if err != nil {
		return nil, err
	}
	full := filepath.Join(folder, "full")
	m, err := compileIn(ctx, small, full)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(m.Close(ctx), place(ctx, small, full, folder)); err != nil {
		return nil, err
	}
	code, err := filepath.Glob(filepath.Join(folder, "wazero-*", "*"))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, file := range append(code, filepath.Join(folder, hollowName)) {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: path.Join(CacheName(about), filepath.Base(file)), Mode: 0o600, Size: int64(len(data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}
