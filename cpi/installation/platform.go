package installation

import (
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// platform is the operating system of this machine.
type platform struct {
	name    string   // "os/version", for messages and keys
	systems []string // names that stemcells use for it, in lower case
	version string
}

func (p platform) String() string { return p.name }

// runs reports whether packages compiled on a stemcell "os/version" run here.
// The version in "ubuntu-jammy/1.199" counts builds of the stemcell, so only the
// name is compared. If the name does not contain the release of the system, the
// version is compared as well.
func (p platform) runs(stemcell string) bool {
	system, version, _ := strings.Cut(strings.ToLower(stemcell), "/")
	if !slices.Contains(p.systems, system) {
		return false
	}
	if strings.Contains(system, "-") || p.version == "" || system == "darwin" || system == "macos" {
		return true
	}
	return version == p.version || strings.HasPrefix(version, p.version+".") || strings.HasPrefix(p.version, version+".")
}

// Machine returns the system of this machine as "os/version", for example
// "ubuntu-jammy/22.04".
func Machine() string { return machine("").String() }

// machine returns the platform that the argument describes; if the argument is empty,
// that of this machine.
func machine(given string) platform {
	switch {
	case given != "":
		system, version, _ := strings.Cut(given, "/")
		return platform{name: given, systems: []string{strings.ToLower(system)}, version: strings.ToLower(version)}
	case runtime.GOOS == "darwin":
		plist, _ := os.ReadFile("/System/Library/CoreServices/SystemVersion.plist")
		return macOS(string(plist))
	}
	for _, file := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if text, err := os.ReadFile(file); err == nil {
			return linux(string(text))
		}
	}
	return platform{name: runtime.GOOS, systems: []string{runtime.GOOS}}
}

// macOS returns the platform that SystemVersion.plist describes. Only the major version
// counts: compiled packages still work after a minor update.
func macOS(plist string) platform {
	p := platform{name: "macos", systems: []string{"macos", "darwin"}}
	found := regexp.MustCompile(`<key>ProductVersion</key>\s*<string>(\d+)`).FindStringSubmatch(plist)
	if found != nil {
		p.version = found[1]
		p.name += "/" + p.version
		p.systems = append(p.systems, "macos-"+p.version)
	}
	return p
}

// linux reads an os-release file.
func linux(text string) platform {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok {
			fields[name] = strings.ToLower(strings.Trim(value, `"'`))
		}
	}
	id, version := fields["ID"], fields["VERSION_ID"]
	if id == "" {
		return platform{name: "linux", systems: []string{"linux"}}
	}
	p := platform{name: id, systems: []string{id}, version: version}
	codename := fields["VERSION_CODENAME"]
	if codename != "" {
		p.name += "-" + codename
		p.systems = append(p.systems, id+"-"+codename)
	}
	if version != "" {
		p.name += "/" + version
		p.systems = append(p.systems, id+"-"+version)
	}
	// Derivatives of Ubuntu run packages compiled for Ubuntu.
	if ubuntu := fields["UBUNTU_CODENAME"]; ubuntu != "" {
		p.systems = append(p.systems, "ubuntu-"+ubuntu)
	}
	return p
}
