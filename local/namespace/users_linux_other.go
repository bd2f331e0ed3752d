//go:build linux && !amd64 && !arm64

package namespace

func changesIDs() (arch uint32, calls []idCall) { return 0, nil }

func keyCalls() []archCalls { return nil }
