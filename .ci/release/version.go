package main

import (
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// version is a version of the program in the forms that package formats sort.
type version struct {
	Go string // v1.2.3, v1.2.3-rc.1, or Go's version of a commit: v0.0.0-20261123071030-2688745abcde
}

// newVersion returns the version that the build recorded. For a program that was built
// without version control, it is made of the date alone.
func newVersion(recorded string, date time.Time) version {
	if !semver.IsValid(recorded) {
		recorded = "v0.0.0-" + date.UTC().Format("20060102150405") + "-devel"
	}
	return version{Go: recorded}
}

func (v version) core() string {
	core, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(v.Go, "v"), semver.Build(v.Go)), "-")
	return core
}

// debian returns the version for dpkg and rpm, which sort a version with a tilde before
// the one without: 0.0.0~20261123071030.2688745abcde.
func (v version) debian() string {
	text := v.core()
	if pre := strings.TrimPrefix(semver.Prerelease(v.Go), "-"); pre != "" {
		text += "~" + strings.ReplaceAll(pre, "-", ".")
	}
	return text + strings.ReplaceAll(semver.Build(v.Go), "-", ".")
}

// alpine returns the version for apk, which allows only a few words, followed by numbers:
// 0.0.0_pre20261123071030.
func (v version) alpine() string {
	pre := semver.Prerelease(v.Go)
	if pre == "" {
		return v.core()
	}
	word := "pre"
	for _, known := range []string{"alpha", "beta", "rc"} {
		if strings.HasPrefix(pre, "-"+known) {
			word = known
		}
	}
	number := regexp.MustCompile(`\d{2,}|[1-9]`).FindString(pre)
	return v.core() + "_" + word + number
}
