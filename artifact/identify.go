package artifact

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/metadata"
	"bootstrap/internal/regular"
)

// Identity is what a release or a stemcell says of itself.
type Identity struct {
	Kind          Kind
	Name, Version string
	OS            string // of a stemcell
}

// Identify reads what an archive says of itself. It reads the archive only up to that
// place, and verifies nothing. The error is ErrUnknownArchive if the file is neither a
// release nor a stemcell.
func Identify(ctx context.Context, path string) (Identity, error) {
	f, info, err := regular.Open(path)
	if err != nil {
		return Identity{}, err
	}
	defer f.Close()
	u, err := archive.Unpack(&archive.Input{Ctx: ctx, R: f, Total: info.Size()}, archive.Limits{})
	if err != nil {
		return Identity{}, err
	}
	defer u.Close()
	var id Identity
	err = u.Entries(path, func(entry string, h *tar.Header, r io.Reader) error {
		if h.Typeflag != tar.TypeReg || entry != "release.MF" && entry != "stemcell.MF" {
			return nil
		}
		text, err := metadata.Read(r)
		if err != nil {
			return err
		}
		if id, err = identityOf(entry, text); err != nil {
			return err
		}
		return archive.ErrStop
	})
	switch {
	case errors.Is(err, archive.ErrStop):
		return id, nil
	case err == nil:
		err = ErrUnknownArchive
	}
	return Identity{}, err
}

// ErrUnknownArchive says that an archive is neither a release nor a stemcell.
var ErrUnknownArchive = errors.New("it has neither a release.MF nor a stemcell.MF")

func identityOf(name string, text []byte) (Identity, error) {
	if name == "release.MF" {
		mf, err := parseReleaseMF(text)
		return Identity{Kind: KindRelease, Name: mf.Name, Version: mf.Version}, err
	}
	st, err := parseStemcellMF(text)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Kind: KindStemcell, Name: st.Name, Version: st.Version, OS: st.OS}, nil
}

// IsFolder reports whether a folder is a release or a stemcell in the layout of its
// source, and not a folder with archives.
func IsFolder(dir string, kind Kind) (bool, error) {
	names := []string{"jobs", "packages"}
	if kind == KindStemcell {
		names = []string{"stemcell.MF"}
	}
	for _, name := range names {
		switch _, err := os.Stat(filepath.Join(dir, name)); {
		case err == nil:
			return true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return false, fmt.Errorf("cannot read the folder %s: %w", dir, err)
		}
	}
	return false, nil
}
