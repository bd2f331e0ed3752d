package bpm

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// environ returns the environment of the process: first the tag, then the defaults of
// bpm-release and the variables of bpm.yml.
func (p process) environ(s *settings) []string {
	home := p.vm.Path("data", p.job)
	values := map[string]string{
		"TMPDIR":    filepath.Join(home, "tmp"),
		"LANG":      "en_US.UTF-8",
		"PATH":      p.vm.Path("jobs", p.job, "bin") + ":/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin:.",
		"HOME":      home,
		"VCAP_ROOT": p.vm.Root(), // the CPI finds the processes of a VM by it
	}
	for key, value := range s.Env {
		if key != "VCAP_ROOT" {
			values[key] = p.vm.ResolveAll(value)
		}
	}
	env := []string{p.tag()}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		env = append(env, key+"="+values[key])
	}
	return env
}

// lookPath finds a program in the PATH of the process's environment env. It does not use
// the PATH of this process.
func lookPath(program string, env []string) string {
	if strings.ContainsRune(program, '/') {
		return program
	}
	for _, kv := range env {
		path, found := strings.CutPrefix(kv, "PATH=")
		if !found {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			file := filepath.Join(dir, program)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return file
			}
		}
	}
	return program
}
