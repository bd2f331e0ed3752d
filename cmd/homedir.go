package cmd

import "strings"

// withHome returns the environment with HOME, which Windows calls USERPROFILE. It changes
// nothing if HOME is set, or on another operating system.
func withHome(env []string, system string) []string {
	profile := ""
	for _, variable := range env {
		switch name, value, _ := strings.Cut(variable, "="); {
		case system != "windows", name == "HOME" && value != "":
			return env
		case strings.EqualFold(name, "USERPROFILE"):
			profile = value
		}
	}
	if profile == "" {
		return env
	}
	return append(env[:len(env):len(env)], "HOME="+profile)
}
