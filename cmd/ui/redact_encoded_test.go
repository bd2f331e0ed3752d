package ui

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

// Templates encode passwords and keys.
func TestEncodedSecrets(t *testing.T) {
	r := &Redactor{}
	key := strings.Repeat("line of a key?~\n", 40)
	r.Add("pass>word?123", key, "short")
	for _, text := range []string{
		base64.StdEncoding.EncodeToString([]byte("pass>word?123")), base64.URLEncoding.EncodeToString([]byte("pass>word?123")),
		base64.StdEncoding.EncodeToString([]byte("pass>word?123\n")), hex.EncodeToString([]byte("pass>word?123")),
		base64.StdEncoding.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString([]byte(strings.TrimSuffix(key, "\n"))),
	} {
		if got := strings.TrimRight(r.String("a "+text+" b"), "="); strings.Trim(strings.ReplaceAll(got, Redacted, ""), "ab =") != "" {
			t.Errorf("%s: %s", text, got)
		}
	}
	if text := base64.StdEncoding.EncodeToString([]byte("short")); r.String(text) != text {
		t.Error("the encoding of a short word is replaced")
	}
}
