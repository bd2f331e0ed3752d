// Package docs embeds the pages of this folder that the program shows.
package docs

import _ "embed"

// Troubleshooting is troubleshooting.md: what each error and exit code means.
//
//go:embed troubleshooting.md
var Troubleshooting string
