package cruby

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
)

// OpenLibrary opens an archive of Ruby files as a folder.
func OpenLibrary(data []byte) (fs.FS, error) {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	return library{r}, err
}

// library unpacks the whole file when it is opened, because Ruby seeks in it.
type library struct{ *zip.Reader }

func (l library) Open(name string) (fs.File, error) {
	f, err := l.Reader.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return f, err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return &unpacked{bytes.NewReader(data), info}, err
}

type unpacked struct {
	*bytes.Reader
	info fs.FileInfo
}

func (u *unpacked) Stat() (fs.FileInfo, error) { return u.info, nil }
func (u *unpacked) Close() error               { return nil }
