// The program build makes the image of Ruby that is embedded into bootstrap. The image is
// the official CRuby for WebAssembly, after its boot and after it has loaded its
// libraries and the driver, as a module that starts in this state. The same input gives
// the same bytes.
package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // embeds the files that are loaded before the driver
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"bootstrap/templates/cruby"
)

//go:embed prelude.rb
var prelude string

//go:embed socket.rb
var socket []byte

//go:embed io.rb
var terminal []byte

// findLibrary returns the Ruby files of the module that contains the standard library:
// a line for each, with its name there and its content. It leaves out files that the
// other module has, too: those of the platform.
const findLibrary = `
base = "/usr/local/lib/ruby/"
version = RUBY_VERSION[/\A\d+\.\d+/] + ".0"
gems = %w[abbrev base64 benchmark csv drb getoptlong logger matrix mutex_m observer ostruct prime pstore rexml]
folders = [base + version + "/"] + gems.flat_map { |gem| Dir.glob(base + "gems/#{version}/gems/#{gem}-*/lib/").sort }
folders.flat_map do |folder|
  Dir.glob(folder + "**/*.rb").sort.reject { |file| file.include?("/wasm32-wasi/") }.map do |file|
    [file[folder.length..-1]].pack("m0") + " " + [File.binread(file)].pack("m0")
  end
end.join("\n")`

func main() {
	var b builder
	flag.StringVar(&b.source, "package", "", "the folder of the npm package; default: that of the package.json")
	flag.StringVar(&b.driver, "driver", "templates/driver.rb", "the Ruby file that the image has loaded")
	flag.StringVar(&b.out, "out", "templates/cruby", "the folder with the folders that are written to")
	flag.BoolVar(&b.profile, "profile", false, "make the profile again")
	native := flag.Bool("native", false, "make only the machine code, of the image that is in the folder, for the processor that this program was compiled for")
	flag.BoolVar(&b.best, "best", false, "make nothing, but compress what is in the folder again with the program zstd, which takes longer")
	check := flag.Bool("check", false, "write nothing, but compare what is in the folder with its recorded digests and with machine code that is made again; with -profile, build and compare all")
	flag.Parse()
	do := b.run
	switch {
	case b.best:
		do = b.readAll
	case *native:
		do = b.runNative
	case *check && !b.profile:
		do = b.runCheck
	}
	err := do(context.Background())
	if err == nil && *check {
		err = b.compare()
	} else if err == nil {
		err = b.write(context.Background())
	}
	if err == nil && !*check && !*native && !b.best {
		err = b.clean()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the image of Ruby:", err)
		os.Exit(1)
	}
}

type builder struct {
	source, driver, out string
	profile             bool
	best                bool              // compress with the program zstd
	files               map[string][]byte // the results by name; .zst files are compressed later
}

func (b *builder) run(ctx context.Context) error {
	source, err := b.folder()
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, name := range []string{"ruby.wasm", "ruby+stdlib.wasm", "NOTICE", "LICENSE", "../package.json"} {
		data, err := os.ReadFile(filepath.Join(source, "dist", name))
		if err != nil {
			return fmt.Errorf("%w (npm ci fetches the package)", err)
		}
		files[name] = data
	}
	driver, err := os.ReadFile(b.driver)
	if err != nil {
		return err
	}
	lib, err := standardLibrary(ctx, files["ruby+stdlib.wasm"])
	if err != nil {
		return fmt.Errorf("cannot read the standard library: %w", err)
	}
	made, err := image(ctx, files["ruby.wasm"], lib, string(driver))
	if err != nil {
		return err
	}
	var from struct{ Name, Version string }
	if err := json.Unmarshal(files["../package.json"], &from); err != nil {
		return err
	}
	pkg := from.Name + "@" + from.Version
	b.files = map[string][]byte{}
	if b.profile {
		folder, err := cruby.OpenLibrary(lib)
		if err != nil {
			return err
		}
		if made.profile, err = profile(ctx, made.code, made.memory, folder, b.golden()); err != nil {
			return err
		}
		b.files["build/profile.txt"] = writeProfile(made.profile, pkg)
	} else if made.profile, err = readProfile(profileText, pkg); err != nil {
		return err
	}
	about := cruby.About{
		Package: pkg, Ruby: made.version,
		Module: sum(append(slices.Clone(made.code), made.memory...)), Driver: sum(driver), Profile: sum(made.profile),
	}
	text, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	machineCode, err := cruby.MachineCode(ctx, about, made.code, made.profile)
	if err != nil {
		return fmt.Errorf("cannot make the machine code: %w", err)
	}
	maps.Copy(b.files, map[string][]byte{
		"image/library.zip.zst": lib, "image/about.json": append(text, '\n'), "image/profile": made.profile,
		"image/NOTICE": files["NOTICE"], "image/LICENSE": files["LICENSE"],
		"image/code.wasm.zst": made.code, "image/memory.zst": made.memory, nativeFile: machineCode,
	})
	return b.record(made, lib)
}

// folder returns the folder of the npm package with Ruby: the only one that the
// package.json depends on.
func (b *builder) folder() (string, error) {
	if b.source != "" {
		return b.source, nil
	}
	text, err := os.ReadFile(filepath.Join(b.out, "package.json"))
	if err != nil {
		return "", err
	}
	var of struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &of); err != nil {
		return "", err
	}
	names := slices.Collect(maps.Keys(of.Dependencies))
	if len(names) != 1 {
		return "", fmt.Errorf("the package.json depends on %d packages, and not on one Ruby", len(names))
	}
	return filepath.Join(b.out, "node_modules", filepath.FromSlash(names[0])), nil
}

const nativeFile = "native/" + runtime.GOARCH + "/code.tar.zst"

// runNative only makes the machine code. For another processor, this program does it in
// an emulator.
func (b *builder) runNative(ctx context.Context) error {
	var about cruby.About
	text, err := os.ReadFile(filepath.Join(b.out, "image", "about.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return err
	}
	profile, err := os.ReadFile(filepath.Join(b.out, "image", "profile"))
	if err != nil {
		return err
	}
	code, err := b.read("image/code.wasm.zst")
	if err != nil {
		return err
	}
	machineCode, err := cruby.MachineCode(ctx, about, code, profile)
	b.files = map[string][]byte{nativeFile: machineCode}
	return err
}

// readAll reads the files of the folder, to compress them again.
func (b *builder) readAll(context.Context) error {
	b.files = map[string][]byte{}
	for _, pattern := range []string{"image/*.zst", "native/*/*.zst"} {
		found, err := filepath.Glob(filepath.Join(b.out, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			name, err := filepath.Rel(b.out, path)
			if err != nil {
				return err
			}
			if b.files[name], err = b.read(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// write compresses and writes the files.
func (b *builder) write(ctx context.Context) error {
	for name, data := range b.files {
		if !compressed(name) {
			continue
		}
		small, err := compress(ctx, data, b.best)
		if err != nil {
			return err
		}
		b.files[name] = small
	}
	for name, data := range b.files {
		path := filepath.Join(b.out, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// clean removes the files of an image of another version, which would be embedded, too.
func (b *builder) clean() error {
	old, err := filepath.Glob(filepath.Join(b.out, "image", "*"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if _, ok := b.files["image/"+filepath.Base(path)]; ok || filepath.Base(path) == "README.md" {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

func compressed(name string) bool { return filepath.Ext(name) == ".zst" }

// read returns an uncompressed file of the folder.
func (b *builder) read(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(b.out, name))
	if err != nil || !compressed(name) {
		return data, err
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(data, nil)
}

// standardLibrary returns an archive of the Ruby files in the module that contains
// them.
func standardLibrary(ctx context.Context, wasm []byte) ([]byte, error) {
	r, end, err := boot(ctx, wasm, nil)
	if err != nil {
		return nil, err
	}
	defer end()
	text, err := evaluate(ctx, r, findLibrary)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for line := range strings.Lines(text) {
		name64, data64, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, err := base64.StdEncoding.DecodeString(name64)
		if err != nil {
			return nil, err
		}
		data, err := base64.StdEncoding.DecodeString(data64)
		if err != nil {
			return nil, err
		}
		if unused(string(name)) {
			continue
		}
		if err := add(w, string(name), data); err != nil {
			return nil, err
		}
	}
	for _, stub := range []struct {
		name string
		data []byte
	}{{"socket.rb", socket}, {"io/console.rb", terminal}, {"io/nonblock.rb", terminal}, {"io/wait.rb", terminal}} {
		if err := add(w, stub.name, stub.data); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}

// unused reports whether a file belongs to developers' tools, which are most of the
// library. Of RubyGems, templates use only Gem::Version.
func unused(name string) bool {
	switch name {
	case "rubygems/deprecate.rb", "rubygems/requirement.rb", "rubygems/version.rb":
		return false
	}
	top, _, _ := strings.Cut(name, "/")
	switch strings.TrimSuffix(top, ".rb") {
	case "bundler", "bundled_gems", "rubygems", "rdoc", "irb", "reline", "readline", "prism", "ruby_vm", "debug", "syntax_suggest", "did_you_mean", "error_highlight", "mkmf", "un", "racc", "js":
		return true
	}
	return false
}

// add adds a file without compression: the whole archive is compressed, which takes a
// third less space.
func add(w *zip.Writer, name string, data []byte) error {
	f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return err
}

// settings make Ruby collect garbage rarely, because it lives only for the templates of
// one job. The prelude hides them.
func settings() []string {
	env := []string{"RUBY_GC_MALLOC_LIMIT=67108864", "RUBY_GC_OLDMALLOC_LIMIT=67108864"}
	for i, slots := range []int{400_000, 100_000, 50_000, 25_000, 12_500} {
		env = append(env, fmt.Sprintf("RUBY_GC_HEAP_%d_INIT_SLOTS=%d", i, slots))
	}
	return env
}

// boot starts a plain Ruby, always in the same way.
func boot(ctx context.Context, wasm []byte, lib fs.FS) (*cruby.Ruby, func(), error) {
	m, err := cruby.CompileToBoot(ctx, wasm)
	if err != nil {
		return nil, nil, err
	}
	r, err := m.Start(ctx, cruby.Machine{Library: lib, Output: os.Stderr, Env: settings(), Frozen: true})
	if err == nil {
		err = r.Boot(ctx, "ruby", "-EUTF-8", "-W0", "--disable-gems", "-e_=0")
	}
	if err != nil {
		_ = m.Close(ctx)
		return nil, nil, err
	}
	return r, func() { _ = m.Close(ctx) }, nil
}

// made is a Ruby with everything loaded.
type made struct {
	code, memory []byte // see snapshot, cruby.PackMemory
	profile      cruby.Profile
	version      string // version of Ruby
}

func image(ctx context.Context, wasm, lib []byte, driver string) (*made, error) {
	opened, err := open(wasm)
	if err != nil {
		return nil, fmt.Errorf("cannot read the module of Ruby: %w", err)
	}
	folder, err := cruby.OpenLibrary(lib)
	if err != nil {
		return nil, err
	}
	r, end, err := boot(ctx, opened, folder)
	if err != nil {
		return nil, err
	}
	defer end()
	for _, code := range []string{prelude, driver, "BootstrapTemplates.answer(%(" + rehearsal + "))", "3.times { GC.start }"} {
		if _, err := evaluate(ctx, r, code); err != nil {
			return nil, err
		}
	}
	m := &made{}
	if m.version, err = r.Eval(ctx, "RUBY_VERSION"); err != nil {
		return nil, err
	}
	memory, ok := r.Memory()
	if !ok {
		return nil, errors.New("its memory cannot be read")
	}
	if m.code, err = snapshot(wasm, memory, r.Global); err != nil {
		return nil, err
	}
	m.memory, err = cruby.PackMemory(memory)
	return m, err
}

// evaluate returns the value of the code as a text; exceptions are errors.
func evaluate(ctx context.Context, r *cruby.Ruby, code string) (string, error) {
	text, err := r.Eval(ctx, `begin; "=" + eval(`+literal(code)+`, TOPLEVEL_BINDING).to_s; rescue Exception => e; e.full_message(:highlight => false); end`)
	if err != nil {
		return "", err
	}
	value, ok := strings.CutPrefix(text, "=")
	if !ok {
		return "", errors.New(text)
	}
	return value, nil
}

// rehearsal is a request that makes Ruby fill its caches.
const rehearsal = `{"file":"x","template":"PCU9IHAoJ2EnKS50b19qc29uICU+","context":{"job":{"name":"x"},"default_properties":{"a":1}}}`

// literal returns Ruby code whose value is the text.
func literal(text string) string {
	return `"` + base64.StdEncoding.EncodeToString([]byte(text)) + `".unpack1("m").force_encoding("UTF-8")`
}

// compress compresses data. With best it uses the program zstd, whose result is an
// eighth smaller and takes twenty times as long. The window determines the memory for
// unpacking; both use 8 MiB.
func compress(ctx context.Context, data []byte, best bool) ([]byte, error) {
	if best {
		var out, messages bytes.Buffer
		cmd := exec.CommandContext(ctx, "zstd", "-q", "-19", "--zstd=wlog=23", "--single-thread", "--no-check", "-c", fmt.Sprintf("--stream-size=%d", len(data))) // #nosec G204 -- zstd, when the program is built
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(data), &out, &messages
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("zstd: %w: %s", err, messages.String())
		}
		return out.Bytes(), nil
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.EncodeAll(data, nil), nil
}
