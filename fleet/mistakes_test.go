package fleet

import (
	"testing"

	"bootstrap/manifest/document"
	"bootstrap/manifest/manifesttest"
)

func TestMistakes(t *testing.T) {
	manifesttest.Mistakes(t, "fleet.yml", func(path string, opts document.Options) error {
		_, err := Read(t.Context(), path, opts)
		return err
	})
}
