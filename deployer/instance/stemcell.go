package instance

import (
	"slices"
	"strings"

	"bootstrap/artifact"
)

// IsLight reports whether a stemcell only names an image of the cloud.
func IsLight(sc *artifact.Stemcell) bool {
	return slices.ContainsFunc(sc.Formats, func(f string) bool { return strings.HasSuffix(f, "-light") })
}
