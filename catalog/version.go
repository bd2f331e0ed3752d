package catalog

import (
	"cmp"
	"strconv"
	"strings"
)

// latest is the version that means the newest one.
const latest = "latest"

// fits reports whether a version matches the one in a manifest: the same, latest, or
// 1.2.latest for versions that begin with 1.2.
func fits(wanted, version string) bool {
	if wanted == latest || wanted == "" {
		return true
	}
	if line, ok := strings.CutSuffix(wanted, "."+latest); ok {
		return version == line || strings.HasPrefix(version, line+".")
	}
	return wanted == version
}

// compareVersions orders versions as the Director does: numbers as numbers, 1.0-rc.1
// before 1.0, and 1.0+dev.1 behind it.
func compareVersions(a, b string) int {
	mainA, preA, postA := split(a)
	mainB, preB, postB := split(b)
	if c := compareSegments(mainA, mainB); c != 0 {
		return c
	}
	switch {
	case preA == "" && preB != "":
		return 1
	case preA != "" && preB == "":
		return -1
	}
	return cmp.Or(compareSegments(preA, preB), compareSegments(postA, postB))
}

func split(version string) (main, pre, post string) {
	main, post, _ = strings.Cut(version, "+")
	main, pre, _ = strings.Cut(main, "-")
	return main, pre, post
}

func compareSegments(a, b string) int {
	one, other := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(one), len(other)) {
		var left, right string
		if i < len(one) {
			left = one[i]
		}
		if i < len(other) {
			right = other[i]
		}
		n, errN := strconv.ParseUint(left, 10, 64)
		m, errM := strconv.ParseUint(right, 10, 64)
		c := 0
		switch {
		case left == right:
		case errN == nil && errM == nil:
			c = cmp.Compare(n, m)
		case errN == nil && right != "": // numbers precede words
			c = -1
		case errM == nil && left != "":
			c = 1
		case errN == nil: // 1.0 and 1 are the same
			c = cmp.Compare(n, 0)
		case errM == nil:
			c = cmp.Compare(0, m)
		default:
			c = strings.Compare(left, right)
		}
		if c != 0 {
			return c
		}
	}
	return 0
}
