package deployer

import (
	"fmt"
	"regexp"
	"strings"

	"bootstrap/internal/proxy"
)

// The environments of the programs of others that run on this machine. Nothing
// of the caller's is in them but what is listed here and what --pass-env names.

// packagingEnv is what the packaging scripts of the CPI's packages get beside
// what artifact/packaging makes: how to reach the network.
func (r *run) packagingEnv() []string {
	return append(r.inherited(proxies()...), r.inherited(r.opts.PassEnv...)...)
}

// cpiEnv is the CPI's whole environment. What the protocol names stands last,
// so that nothing else counts.
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

// rubyEnv is the whole environment of the Ruby that renders templates.
func (r *run) rubyEnv() []string { return r.inherited("PATH", "HOME") }

// inherited are those of the variables that are set, as NAME=value.
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

// tellPassEnv warns of names that are not set, and tells the redactor of values
// whose names tell of secrets.
func (r *run) tellPassEnv() {
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
