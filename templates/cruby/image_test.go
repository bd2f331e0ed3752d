package cruby

import (
	"errors"
	"testing"
	"testing/fstest"
)

// TestOtherImage says what to do about an image that was built by a version of this
// program with other files in it.
func TestOtherImage(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{}
	if _, err := embedded(files); err != ErrNoImage {
		t.Errorf("no image: %v", err)
	}
	files["image/about.json"] = &fstest.MapFile{Data: []byte("{}")}
	for _, name := range []string{"code.wasm.zst", "memory.zst", "profile", "library.zip"} {
		if _, err := embedded(files); !errors.Is(err, errOtherImage) {
			t.Errorf("without %s: %v", name, err)
		}
		files["image/"+name] = &fstest.MapFile{}
	}
	if _, err := embedded(files); err != nil {
		t.Error(err)
	}
}
