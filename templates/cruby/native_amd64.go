package cruby

import "embed"

// native has the machine code for this processor, if it was made (make image).
//
//go:embed native/amd64
var native embed.FS
