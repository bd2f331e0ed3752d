package bpm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bootstrap/internal/regular"
	"bootstrap/local/machine"

	"go.yaml.in/yaml/v3"
)

// settings describe one process in a config/bpm.yml. The fields are those of bpm-release,
// which also ignores unknown ones.
type settings struct {
	Name              string            `yaml:"name"`
	Executable        string            `yaml:"executable"`
	Args              []string          `yaml:"args"`
	Env               map[string]string `yaml:"env"`
	WorkDir           string            `yaml:"workdir"`
	Hooks             hooks             `yaml:"hooks"`
	Capabilities      []string          `yaml:"capabilities"`
	Limits            limits            `yaml:"limits"`
	EphemeralDisk     bool              `yaml:"ephemeral_disk"`
	PersistentDisk    bool              `yaml:"persistent_disk"`
	AdditionalVolumes []volume          `yaml:"additional_volumes"`
	ShutdownSignal    string            `yaml:"shutdown_signal"`
	Unsafe            unsafe            `yaml:"unsafe"`

	line int
}

// jobConfig is a config/bpm.yml.
type jobConfig struct {
	Processes []settings `yaml:"processes"`
}

type hooks struct {
	PreStart string `yaml:"pre_start"`
}

type limits struct {
	Memory       string  `yaml:"memory"`
	OpenFiles    *uint64 `yaml:"open_files"`
	Processes    *int64  `yaml:"processes"`
	CoreFileSize *uint64 `yaml:"core_file_size"`
}

type volume struct {
	Path            string `yaml:"path"`
	Writable        bool   `yaml:"writable"`
	AllowExecutions bool   `yaml:"allow_executions"`
	MountOnly       bool   `yaml:"mount_only"`
	Shared          bool   `yaml:"shared"`

	line int
}

type unsafe struct {
	Privileged          bool     `yaml:"privileged"`
	HostPIDNamespace    bool     `yaml:"host_pid_namespace"`
	UnrestrictedVolumes []volume `yaml:"unrestricted_volumes"`
}

// UnmarshalYAML also stores the line, for messages.
func (s *settings) UnmarshalYAML(n *yaml.Node) error {
	type plain settings
	s.line = n.Line
	return n.Decode((*plain)(s))
}

// UnmarshalYAML also stores the line, for messages.
func (v *volume) UnmarshalYAML(n *yaml.Node) error {
	type plain volume
	v.line = n.Line
	return n.Decode((*plain)(v))
}

// configOf is the path of a job's bpm.yml.
func configOf(vm machine.VM, job string) string { return vm.Path("jobs", job, "config", "bpm.yml") }

// readConfig reads and checks the bpm.yml of a job. Each message begins with the file
// and, if it is known, the line.
func readConfig(vm machine.VM, job string) ([]settings, error) {
	file := configOf(vm, job)
	data, err := readFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, missing := os.Stat(vm.Path("jobs", job)); missing != nil {
			return nil, fmt.Errorf("there is no job %s on this VM: %w", job, fs.ErrNotExist)
		}
		return nil, fmt.Errorf("the job %s has no config/bpm.yml: %w", job, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the job's configuration: %w", err)
	}
	var config jobConfig
	if err := yaml.Unmarshal(data, &config); err != nil {
		var types *yaml.TypeError
		if errors.As(err, &types) {
			return nil, fmt.Errorf("%s: %s", file, ofTypes(types.Errors))
		}
		return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	for _, s := range config.Processes {
		if err := s.check(vm, job); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return config.Processes, nil
}

func readFile(name string) ([]byte, error) {
	f, _, err := regular.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// mostErrors is how many wrong types are reported at most.
const mostErrors = 3

// ofTypes rewords errors about types without the names of Go types.
func ofTypes(errs []string) string {
	var list []string
	for i, text := range errs {
		if i == mostErrors {
			list = append(list, fmt.Sprintf("and %d more", len(errs)-i))
			break
		}
		line, rest, ok := strings.Cut(text, "cannot unmarshal ")
		what, kind, into := cutLast(rest, " into ")
		if !ok || !into {
			list = append(list, text)
			continue
		}
		tag, value, _ := strings.Cut(what, " ")
		switch tag {
		case "!!seq":
			value = "a list"
		case "!!map":
			value = "a map"
		}
		switch kind {
		case "bpm.jobConfig":
			kind = "a map with a list of processes"
		case "[]bpm.settings":
			kind = "a list of processes"
		case "bpm.plain":
			kind = "a process or a volume"
		case "bpm.hooks", "bpm.limits", "bpm.unsafe":
			kind = "a map"
		case "[]bpm.volume":
			kind = "a list of volumes"
		case "[]string":
			kind = "a list of texts"
		case "map[string]string":
			kind = "a map of texts"
		case "string":
			kind = "a text"
		case "bool":
			kind = "true or false"
		case "uint64":
			kind = "a whole number that is not negative"
		case "int64":
			kind = "a whole number"
		}
		list = append(list, line+"this must be "+kind+", not "+value)
	}
	return strings.Join(list, "; ")
}

// cutLast splits a text at the last separator.
func cutLast(text, at string) (before, after string, found bool) {
	i := strings.LastIndex(text, at)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(at):], true
}

// readProcess returns the settings of one process of a job.
func readProcess(vm machine.VM, job, name string) (*settings, error) {
	all, err := readConfig(vm, job)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
		names = append(names, all[i].Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s lists no processes", configOf(vm, job))
	}
	return nil, fmt.Errorf("%s has no process %q: it has %s", configOf(vm, job), name, strings.Join(names, ", "))
}

func (s *settings) check(vm machine.VM, job string) error {
	fail := func(line int, format string, args ...any) error {
		return fmt.Errorf("line %d: "+format, append([]any{line}, args...)...)
	}
	switch {
	case s.Name == "":
		return fail(s.line, "the process has no name")
	case !isName(s.Name):
		return fail(s.line, "%q cannot be the name of a process, because it becomes the name of a file", s.Name)
	case s.Executable == "":
		return fail(s.line, "the process %s has no executable", s.Name)
	case !slices.Contains([]string{"", "TERM", "INT"}, s.ShutdownSignal):
		return fail(s.line, "shutdown_signal of the process %s must be TERM or INT, not %q", s.Name, s.ShutdownSignal)
	}
	if _, err := parseSize(s.Limits.Memory); err != nil {
		return fail(s.line, "limits.memory of the process %s: %w", s.Name, err)
	}
	for _, v := range s.AdditionalVolumes {
		if err := v.check(vm, job); err != nil {
			return fail(v.line, "the process %s cannot have the volume %s: %w", s.Name, v.Path, err)
		}
	}
	return nil
}

func (v volume) check(vm machine.VM, job string) error {
	path := vm.Resolve(v.Path)
	switch {
	case v.Path == "" || filepath.Clean(path) != path:
		return fmt.Errorf("the path must be written as %q", filepath.Clean(v.Path))
	case path == vm.Path("data", job) || path == vm.Path("store", job):
		return errors.New("it is the folder of ephemeral_disk or persistent_disk")
	case !strings.HasPrefix(path, vm.Root()+string(filepath.Separator)):
		return errors.New("the path must be below /var/vcap")
	}
	return nil
}

// parseVolume reads a volume in the form of the flag -v of bpm run: PATH[:OPTION,...].
func parseVolume(text string) (volume, error) {
	path, options, found := strings.Cut(text, ":")
	v := volume{Path: path}
	if !found {
		return v, nil
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "writable":
			v.Writable = true
		case "allow_executions":
			v.AllowExecutions = true
		case "mount_only":
			v.MountOnly = true
		case "shared":
			v.Shared = true
		default:
			return v, fmt.Errorf("unknown option %q of the volume %s: there are writable, allow_executions, mount_only and shared", option, path)
		}
	}
	return v, nil
}

// parseSize reads a number of bytes such as 512M or 1.5G; empty is 0.
func parseSize(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	digits := strings.TrimRightFunc(text, func(r rune) bool { return 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' })
	unit := strings.ToUpper(text[len(digits):])
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "B"), "I")
	power := strings.Index("KMGTPE", unit)
	n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	switch {
	case err != nil || n <= 0 || len(unit) > 1 || power < 0 || digits == text:
		return 0, fmt.Errorf("%q is not a size: write a number and a unit, for example 512M or 1G", text)
	case unit != "":
		n *= float64(uint64(1) << (10 * (power + 1)))
	}
	if !(n < 1<<63) { // also if it is not a number
		return 0, fmt.Errorf("%q is not a size: it must be less than 8E", text)
	}
	return uint64(n), nil
}

// isName reports whether a name may become part of a path.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, `/\`+"\x00")
}
