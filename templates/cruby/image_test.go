package cruby

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// TestOtherImage checks the error for an image that another version of this program built
// with other files.
func TestOtherImage(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{}
	if _, err := embedded(files); err != ErrNoImage {
		t.Errorf("no image: %v", err)
	}
	files["image/about.json"] = &fstest.MapFile{Data: []byte("{}")}
	for _, name := range []string{"code.wasm.zst", "memory.zst", "profile", "library.zip.zst"} {
		if _, err := embedded(files); !errors.Is(err, errOtherImage) {
			t.Errorf("without %s: %v", name, err)
		}
		files["image/"+name] = &fstest.MapFile{}
	}
	if _, err := embedded(files); err != nil {
		t.Error(err)
	}
}

// TestLibrary opens a file of the image's library.
func TestLibrary(t *testing.T) {
	t.Parallel()
	if _, err := Embedded(); err != nil {
		t.Skip(err)
	}
	text, err := fs.ReadFile(Library(), "csv.rb")
	if err != nil || len(text) == 0 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := Library().Open("none.rb"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestMachineCode unpacks the machine code of each processor, and checks that it belongs
// to this image: other code would be useless.
func TestMachineCode(t *testing.T) {
	t.Parallel()
	about, err := Embedded()
	if err != nil {
		t.Skip(err)
	}
	archives, err := filepath.Glob(filepath.Join("native", "*", nativeName))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range archives {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s := &store{dir: t.TempDir(), name: CacheName(about)}
		if err := s.extract(f); err != nil {
			t.Errorf("%s: %v (make image or make dist makes it again)", path, err)
		}
	}
}
