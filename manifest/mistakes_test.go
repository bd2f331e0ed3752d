package manifest

import (
	"testing"

	"bootstrap/manifest/document"
	"bootstrap/manifest/manifesttest"
)

func TestMistakes(t *testing.T) {
	manifesttest.Mistakes(t, "manifest.yml", func(path string, opts document.Options) error {
		_, err := Load(t.Context(), path, opts)
		return err
	})
}
