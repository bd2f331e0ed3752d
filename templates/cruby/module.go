// Package cruby runs CRuby, compiled to WebAssembly, inside this process: no
// files, no programs, no network, no cgo.
package cruby

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// memoryPages limits the memory of one Ruby to 512 MiB; code that needs more gets a
// NoMemoryError.
const memoryPages = 512 << 20 >> 16

// bootPages is the limit while Ruby boots for an image, 256 MiB: with more, Ruby 4.0
// fills 256 MiB with zeros for a cache of object shapes, which it does without if that
// fails, and each machine of the image would have them.
const bootPages = 256 << 20 >> 16

// Module is compiled code, from which any number of machines can be started.
type Module struct {
	runtime wazero.Runtime
	code    wazero.CompiledModule
	cache   wazero.CompilationCache // nil: there is no cache that must be closed with the module
	initial *initial                // the memory of a new machine; nil: the module's own
}

// Compile compiles a WebAssembly module, or takes its code from the cache, which may
// be nil. The caller closes the cache after the module.
func Compile(ctx context.Context, wasm []byte, cache wazero.CompilationCache) (*Module, error) {
	return compile(ctx, wasm, cache, memoryPages)
}

// CompileToBoot compiles a module whose machines become images.
func CompileToBoot(ctx context.Context, wasm []byte) (*Module, error) {
	return compile(ctx, wasm, nil, bootPages)
}

func compile(ctx context.Context, wasm []byte, cache wazero.CompilationCache, pages uint32) (*Module, error) {
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(pages).WithDebugInfoEnabled(false)
	if cache != nil {
		config = config.WithCompilationCache(cache)
	}
	m := &Module{runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	err := m.compile(ctx, wasm)
	if err != nil {
		_ = m.Close(ctx)
		return nil, fmt.Errorf("cannot compile Ruby: %w", err)
	}
	return m, nil
}

// CompileImage compiles the module of an image whose machines start with a memory: see
// PackMemory.
func CompileImage(ctx context.Context, wasm, memory []byte) (*Module, error) {
	first, err := newInitial(memory)
	if err != nil {
		return nil, err
	}
	m, err := Compile(ctx, wasm, nil)
	if err != nil {
		return nil, err
	}
	m.initial = first
	return m, nil
}

func (m *Module) compile(ctx context.Context, wasm []byte) (err error) {
	system := m.runtime.NewHostModuleBuilder(wasi_snapshot_preview1.ModuleName)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(system)
	// Ruby sets the files that it loads to blocking mode. The files of the library are in
	// this mode, but wazero cannot report it for an fs.File.
	system.NewFunctionBuilder().WithFunc(func(context.Context, uint32, uint32) uint32 { return 0 }).Export("fd_fdstat_set_flags")
	if _, err := system.Instantiate(ctx); err != nil {
		return err
	}
	ctx = experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0))
	if m.code, err = m.runtime.CompileModule(ctx, wasm); err != nil {
		return err
	}
	return m.host(ctx)
}

// Close ends all machines and frees the code.
func (m *Module) Close(ctx context.Context) error {
	err := m.runtime.Close(ctx)
	if m.cache != nil {
		err = errors.Join(err, m.cache.Close(ctx))
	}
	if m.initial != nil {
		err = errors.Join(err, m.initial.Close())
	}
	return err
}

// host defines Ruby's imports besides WASI: an interface to JavaScript, of which Ruby
// uses only the table of handles. A handle is the value itself.
func (m *Module) host(ctx context.Context) error {
	modules := map[string]wazero.HostModuleBuilder{}
	for _, f := range m.code.ImportedFunctions() {
		module, name, _ := f.Import()
		if module == wasi_snapshot_preview1.ModuleName {
			continue
		}
		b := modules[module]
		if b == nil {
			b = m.runtime.NewHostModuleBuilder(module)
			modules[module] = b
		}
		var fn api.GoFunc
		switch name {
		case "resource_new_rb-abi-value", "resource_get_rb-abi-value":
			fn = func(context.Context, []uint64) {}
		case "resource_drop_js-abi-value", "rb_wasm_throw_prohibit_rewind_exception":
			fn = func(context.Context, []uint64) {}
		default:
			fn = func(context.Context, []uint64) {
				panic(fmt.Errorf("Ruby called the JavaScript function %s, which does not exist", name))
			}
		}
		b.NewFunctionBuilder().WithGoFunction(fn, f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, b := range modules {
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Machine describes the environment of a Ruby.
type Machine struct {
	// Library is the folder /library; nil: there is none.
	Library fs.FS
	// Output gets standard output and standard error; nil: they are discarded.
	Output io.Writer
	// Env are variables, NAME=value.
	Env []string
	// Frozen gives each start the same time and the same random numbers.
	Frozen bool
}

// Ruby is one running interpreter. It serves one goroutine at a time.
type Ruby struct {
	instance api.Module
	memory   api.Memory
	eval     api.Function
	text     api.Function
	free     api.Function
	drop     api.Function
	alloc    api.Function
}

// Start starts an interpreter with its own memory. With the module of an image it is
// ready to evaluate; with another module it needs Boot.
func (m *Module) Start(ctx context.Context, machine Machine) (*Ruby, error) {
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions().WithArgs("ruby")
	if machine.Library != nil {
		config = config.WithFSConfig(wazero.NewFSConfig().WithFSMount(machine.Library, "/library"))
	}
	for _, entry := range machine.Env {
		name, value, _ := strings.Cut(entry, "=")
		config = config.WithEnv(name, value)
	}
	if machine.Output != nil {
		// Ruby examines what kind of file it writes to, and its memory would depend on
		// the kind.
		out := struct{ io.Writer }{machine.Output}
		config = config.WithStdout(out).WithStderr(out)
	}
	if !machine.Frozen {
		config = config.WithRandSource(rand.Reader).WithSysWalltime().WithSysNanotime().WithSysNanosleep()
	}
	instance, err := m.instantiate(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("cannot start Ruby: %w", err)
	}
	r := &Ruby{instance: instance, memory: instance.Memory()}
	for name, f := range map[string]*api.Function{
		"rb-eval-string-protect: func(str: string) -> tuple<handle<rb-abi-value>, s32>": &r.eval,
		"rstring-ptr: func(value: handle<rb-abi-value>) -> string":                      &r.text,
		"cabi_post_rstring-ptr":           &r.free,
		"canonical_abi_drop_rb-abi-value": &r.drop,
		"cabi_realloc":                    &r.alloc,
	} {
		if *f = instance.ExportedFunction(name); *f == nil {
			_ = r.Close(ctx)
			return nil, fmt.Errorf("cannot start Ruby: the module does not export %s", name)
		}
	}
	return r, nil
}

// instantiate returns an instance with its first memory.
func (m *Module) instantiate(ctx context.Context, config wazero.ModuleConfig) (api.Module, error) {
	instance, err := m.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, allocator(m.initial)), m.code, config)
	if err != nil || m.initial == nil || m.initial.file != nil {
		return instance, err
	}
	if err := m.initial.write(instance.Memory()); err != nil {
		return nil, errors.Join(err, instance.Close(ctx))
	}
	return instance, nil
}

// Close frees the memory.
func (r *Ruby) Close(ctx context.Context) error { return r.instance.Close(ctx) }

// Boot initialises an interpreter that does not come from an image.
func (r *Ruby) Boot(ctx context.Context, args ...string) error {
	if _, err := r.instance.ExportedFunction("_initialize").Call(ctx); err != nil {
		return fmt.Errorf("cannot boot Ruby: %w", err)
	}
	list, err := r.allocate(ctx, 4, uint64(8*len(args)))
	if err != nil {
		return err
	}
	for i, arg := range args {
		p, err := r.give(ctx, arg)
		if err != nil {
			return err
		}
		at := list + uint32(8*i)
		if !r.memory.WriteUint32Le(at, p) || !r.memory.WriteUint32Le(at+4, uint32(len(arg))) {
			return errMemory
		}
	}
	init := r.instance.ExportedFunction("ruby-init: func(args: list<string>) -> ()")
	if init == nil {
		return errors.New("cannot boot Ruby: the module does not export ruby-init")
	}
	if _, err = init.Call(ctx, uint64(list), uint64(len(args))); err != nil {
		return fmt.Errorf("cannot boot Ruby: %w", err)
	}
	return nil
}

var errMemory = errors.New("Ruby returned an address outside of its memory")

// ExitError says that Ruby has ended; it cannot be used any more.
type ExitError struct{ Status int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Status) }

// ErrMissing says that Ruby needed a function that the module of OpenReached lacks. Ruby
// also ends in this way when it finds a bug in itself.
var ErrMissing = errors.New("Ruby needs a function that was left out")

// Eval evaluates code whose value must be a text. An exception that the code does not
// rescue is an error without its message. After an error only Close may be called.
func (r *Ruby) Eval(ctx context.Context, code string) (string, error) {
	text, err := r.evaluate(ctx, code)
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		return "", &ExitError{Status: int(exit.ExitCode())}
	}
	// The error of wazero is in a package that others cannot import.
	if err != nil && strings.HasPrefix(err.Error(), "wasm error: unreachable") {
		err = fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return text, err
}

func (r *Ruby) evaluate(ctx context.Context, code string) (string, error) {
	p, err := r.give(ctx, code)
	if err != nil {
		return "", err
	}
	out, err := r.eval.Call(ctx, uint64(p), uint64(len(code)))
	if err != nil {
		return "", err
	}
	value, ok := r.memory.ReadUint32Le(uint32(out[0]))
	state, ok2 := r.memory.ReadUint32Le(uint32(out[0]) + 4)
	if !ok || !ok2 {
		return "", errMemory
	}
	if state != 0 {
		return "", errors.New("Ruby raised an exception")
	}
	out, err = r.text.Call(ctx, uint64(value))
	if err != nil {
		return "", err
	}
	area := uint32(out[0])
	head, ok := r.memory.Read(area, 8)
	if !ok {
		return "", errMemory
	}
	data, ok := r.memory.Read(binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:]))
	if !ok {
		return "", errMemory
	}
	text := string(data)
	if _, err := r.free.Call(ctx, uint64(area)); err != nil {
		return "", err
	}
	_, err = r.drop.Call(ctx, uint64(value))
	return text, err
}

// give copies a text into Ruby's memory, with a NUL at its end, which Ruby needs.
func (r *Ruby) give(ctx context.Context, text string) (uint32, error) {
	p, err := r.allocate(ctx, 1, uint64(len(text)+1))
	if err != nil {
		return 0, err
	}
	if !r.memory.WriteString(p, text) || !r.memory.WriteByte(p+uint32(len(text)), 0) {
		return 0, errMemory
	}
	return p, nil
}

func (r *Ruby) allocate(ctx context.Context, align, size uint64) (uint32, error) {
	out, err := r.alloc.Call(ctx, 0, 0, align, size)
	if err != nil {
		return 0, err
	}
	return uint32(out[0]), nil
}

// Memory returns the whole memory, valid until Ruby runs again.
func (r *Ruby) Memory() ([]byte, bool) { return r.memory.Read(0, r.memory.Size()) }

// Global returns the value of an exported global.
func (r *Ruby) Global(name string) (uint64, bool) {
	g := r.instance.ExportedGlobal(name)
	if g == nil {
		return 0, false
	}
	return g.Get(), true
}
