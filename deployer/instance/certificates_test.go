package instance

import (
	"crypto/x509"
	"math/big"
	"testing"
)

// The serial number looks like the output of "openssl x509 -serial", so that people can
// compare them.
func TestSerial(t *testing.T) {
	t.Parallel()
	for number, want := range map[int64]string{0: "00", 0xA: "0A", 0xAB: "AB", 0x8B0D0: "08B0D0"} {
		if got := Serial(&x509.Certificate{SerialNumber: big.NewInt(number)}); got != want {
			t.Errorf("%X: got %q, want %q", number, got, want)
		}
	}
	if got := Serial(nil); got != "none" {
		t.Errorf("got %q", got)
	}
}
