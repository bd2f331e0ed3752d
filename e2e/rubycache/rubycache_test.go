package rubycache

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"bootstrap/templates/cruby"
)

// A test run that finds a kept Ruby which the program does not accept leaves its
// own in its place: otherwise every later run would compile it again.
func TestKeepReplaces(t *testing.T) {
	about, err := cruby.Embedded()
	if err != nil {
		t.Skip("no image")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	compiled := func(sums string) string {
		dir := t.TempDir()
		folder := filepath.Join(dir, cruby.CacheName(about))
		assert.NilError(t, os.MkdirAll(folder, 0o700))
		assert.NilError(t, os.WriteFile(filepath.Join(folder, "sums"), []byte(sums), 0o600))
		assert.NilError(t, os.WriteFile(filepath.Join(folder, "module.wasm"), []byte("code of "+sums), 0o600))
		return dir
	}
	taken := func() string {
		dir := t.TempDir()
		assert.NilError(t, Take(dir))
		code, err := os.ReadFile(filepath.Join(dir, cruby.CacheName(about), "module.wasm"))
		assert.NilError(t, err)
		return string(code)
	}
	assert.NilError(t, Keep(compiled("one version")))
	assert.Equal(t, taken(), "code of one version")
	assert.NilError(t, Keep(compiled("another version")))
	assert.Equal(t, taken(), "code of another version")
}
