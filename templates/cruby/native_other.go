//go:build !amd64 && !arm64

package cruby

import "embed"

// native is empty: wazero makes no machine code for this processor.
var native embed.FS
