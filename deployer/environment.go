package deployer

import (
	"fmt"
	"regexp"
	"strings"

	"bootstrap/internal/proxy"
)

// The environments of the child processes that we start. From the caller's
// environment they contain only the variables that are listed here or named
// with --pass-env.

// packagingEnv returns the proxy settings that the packaging scripts of the CPI
// get, besides the variables that artifact/packaging sets.
func (r *run) packagingEnv() []string {
	return append(r.inherited(proxies()...), r.inherited(r.opts.PassEnv...)...)
}

// cpiEnv returns the whole environment of the CPI. The variables of the
// protocol come last, so that no earlier value counts.
func (r *run) cpiEnv() []string {
	env := r.inherited("PATH", "HOME", "LANG", "TMPDIR", "USER")
	env = append(env, r.inherited(proxies()...)...)
	env = append(env, r.inherited(r.opts.PassEnv...)...)
	return append(env,
		"BOOTSTRAP_EXECUTABLE="+r.opts.Self, // for the embedded CPI
		"BOSH_PACKAGES_DIR="+r.cpiBuild.PackagesDir,
		"BOSH_JOBS_DIR="+r.cpiBuild.JobsDir,
	)
}

// rubyEnv returns the whole environment of the Ruby that renders templates.
func (r *run) rubyEnv() []string { return r.inherited("PATH", "HOME") }

// inherited returns the variables that are set, as NAME=value.
func (r *run) inherited(names ...string) []string {
	var env []string
	for _, n := range names {
		if v := r.opts.Getenv(n); v != "" {
			env = append(env, n+"="+v)
		}
	}
	return env
}

func proxies() []string {
	var names []string
	for _, n := range proxy.Names() {
		names = append(names, n, strings.ToLower(n))
	}
	return names
}

// checkPassEnv warns of names that are not set, and gives the redactor the
// values whose names suggest secrets.
func (r *run) checkPassEnv() {
	secret := regexp.MustCompile(`(?i)secret|passw|token|key|credential|auth`)
	for _, n := range r.opts.PassEnv {
		v := r.opts.Getenv(n)
		if v == "" {
			r.root.Warning(fmt.Sprintf("--pass-env names %s, which is not set in the environment", n))
		} else if secret.MatchString(n) {
			r.opts.Secret(v)
		}
	}
}
