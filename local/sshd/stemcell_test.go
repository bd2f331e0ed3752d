package sshd

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Users in a VM of a stemcell log in with the keys in their homes.
func TestUserOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home := filepath.Join(dir, "bosh_1")
	if err := os.MkdirAll(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public())
	if err != nil {
		t.Fatal(err)
	}
	keys := append([]byte("# a comment\n\n"), ssh.MarshalAuthorizedKey(key)...)
	keys = append(keys, "garbage\n"...)
	passwd := filepath.Join(dir, "passwd")
	users := fmt.Sprintf("root:x:0:0:root:%s:/bin/bash\nbosh_1:x:1001:1001::%s:/bin/bash\nshort:x\n", filepath.Join(dir, "root"), home)
	for name, text := range map[string][]byte{passwd: []byte(users), filepath.Join(home, keysFile): keys} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := userOf(passwd, "bosh_1"); err != nil || a.home != home || len(a.keys) != 1 || !bytes.Equal(a.keys[0], key.Marshal()) {
		t.Errorf("got %+v, %v", a, err)
	}
	if a, err := userOf(passwd, "root"); err != nil || len(a.keys) != 0 {
		t.Errorf("root: %+v, %v", a, err)
	}
	for _, name := range []string{"bosh_2", "short", ""} {
		if a, err := userOf(passwd, name); err == nil {
			t.Errorf("%q: %+v", name, a)
		}
	}
}
