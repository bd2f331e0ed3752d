package manifest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"bootstrap/manifest/document"
)

// FuzzLoad searches for manifests with which Load panics, hangs, or returns neither a
// manifest nor an error.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yml", "testdata/*/*.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds in %s: %v", pattern, err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Load(t.Context(), "-", document.Options{Stdin: bytes.NewReader(data)})
		if err == nil {
			m.Interfaces()
			m.Address()
			if m.Name == "" || m.CPI.MBusURL == nil || len(m.Digest) != 128 || m.Group.Name == "" {
				t.Fatalf("accepted: %+v", m)
			}
			sketch, err := m.Sketch()
			if err != nil {
				t.Fatal(err)
			}
			if same, err := document.Diff(sketch, sketch); err != nil || len(same) > 0 {
				t.Fatalf("the sketch differs from itself: %v, %v\n%s", same, err, sketch)
			}
			return
		}
		problems, ok := err.(*document.Problems)
		var lost *document.FileError // for a cloud config that the manifest names
		if !ok && (len(data) > 2<<20 || errors.As(err, &lost)) {
			return
		}
		if !ok {
			t.Fatalf("unexpected kind of error: %v", err)
		}
		lines := 1
		for _, r := range string(data) {
			if strings.ContainsRune("\n\r\u0085\u2028\u2029", r) {
				lines++
			}
		}
		if bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.HasPrefix(data, []byte("\xff\xfe")) {
			lines = len(data) // in UTF-16, line ends are hard to count
		}
		for _, p := range *problems {
			if p.Pos.Line > lines+1 || p.Message == "" || strings.ContainsAny(p.String(), "\r\n") || len(p.Message) > 1500 || strings.Contains(p.Message, "%!") {
				t.Fatalf("bad problem: %v", p)
			}
		}
	})
}

// FuzzCloudConfig searches for manifests and cloud configs with which Load panics or
// hangs, or returns an instance without a network.
func FuzzCloudConfig(f *testing.F) {
	archives := []string{directorStyle}
	for _, name := range []string{"cloud-config", "no-cloud-provider"} {
		text, err := os.ReadFile("testdata/mistakes/" + name + ".txtar")
		if err != nil {
			f.Fatal(err)
		}
		archives = append(archives, string(text))
	}
	for _, text := range archives {
		parts := map[string][]byte{}
		for _, part := range txtar.Parse([]byte(text)).Files {
			parts[part.Name] = part.Data
		}
		f.Add(parts["manifest.yml"], parts["cloud.yml"])
	}
	path := filepath.Join(f.TempDir(), "cloud.yml")
	f.Fuzz(func(t *testing.T, data, cloud []byte) {
		if err := os.WriteFile(path, cloud, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := Load(t.Context(), "-", document.Options{Stdin: bytes.NewReader(data), CloudConfigs: []string{path}})
		if err != nil {
			if strings.Contains(err.Error(), "%!") {
				t.Fatal(err)
			}
			return
		}
		p := m.Placement
		if p == nil || len(m.Interfaces()) != len(p.Group.Wishes) || len(p.Group.Zones) > 0 && p.Zone == "" {
			t.Fatalf("accepted: %+v", m)
		}
		m.Address()
		for _, w := range p.Open() {
			if p.Blocks[w.Network].IsValid() {
				t.Fatalf("%s is open and has %v", w.Network, p.Blocks[w.Network])
			}
		}
	})
}
