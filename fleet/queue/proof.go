package queue

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
)

// Key is the secret that coordinators and workers share; it is not in the database.
// Without it, nobody can write a row to the database that a worker obeys.
type Key []byte

// keyFile is the name of the file with the key, in ~/.bosh.
const keyFile = "fleet.key"

// KeyPath returns the path of the file with the key.
func KeyPath(home string) string { return filepath.Join(home, keyFile) }

// ReadKey reads the key in ~/.bosh, and creates it at the first use.
func ReadKey(home string) (Key, error) {
	path := KeyPath(home)
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(home, path); err == nil {
			key, err = readKey(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the key that coordinators and workers share, %s: %w", path, err)
	}
	return key, nil
}

func readKey(path string) (Key, error) {
	f, info, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	_ = f.Close() // closing a file that was only read loses nothing
	if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("other users may read it (mode %04o): chmod 600 %s", info.Mode().Perm(), path)
	}
	data, err := regular.Read(path)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(key) != sha256.Size {
		return nil, errors.New("it is damaged; copy it from a machine where it is valid, or remove it on all machines")
	}
	return key, nil
}

// makeKey creates a key, unless another process creates it first.
func makeKey(home, path string) error {
	if err := atomicfile.MkdirAll(home, 0o700); err != nil {
		return err
	}
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // rand.Read never fails
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := atomicfile.Write(temp, []byte(hex.EncodeToString(key)+"\n")); err != nil {
		return err
	}
	defer os.Remove(temp)
	if err := os.Link(temp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		// The file system has no hard links.
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = f.WriteString(hex.EncodeToString(key) + "\n")
		return errors.Join(err, f.Close())
	}
	return nil
}

// proof returns a proof that the writer of these values has the key.
func (k Key) proof(kind string, id job, values ...any) []byte {
	text, err := json.Marshal([]any{kind, id, values})
	if err != nil || len(k) == 0 {
		return nil // no proof is equal to nil
	}
	h := hmac.New(sha256.New, k)
	h.Write(text)
	return h.Sum(nil)
}

// ofStart returns the coordinator's proof of a start.
func (k Key) ofStart(id job, t taken) []byte {
	return k.proof("start", id, t.Action, t.Watch, t.Logs, t.Waits, append([]string{}, t.Flags...), t.Salt, t.Digest)
}

// ofEnd returns the proof of the outcome of a start.
func (k Key) ofEnd(id job, e ended) []byte {
	e.Proof = nil
	return k.proof("end", id, e)
}

// proven returns e with its proof.
func (k Key) proven(id job, e ended) ended {
	e.Proof = k.ofEnd(id, e)
	return e
}

// holds reports whether a proof is the expected one.
func holds(got, want []byte) bool { return len(want) > 0 && hmac.Equal(got, want) }

// sentFlags are the flags for members that coordinators send and workers obey. No flag
// in the list names a program, a file, a source of values or an environment variable,
// because each worker has its own.
func sentFlags() []string {
	return []string{"yes", "fix", "allow-shrink", "keep-old-disk", "on-failure", "skip-drain", "via", "cpi-timeout", "agent-timeout", "task-timeout", "expiry-warning"}
}

// Sent reports whether coordinators send a flag, --NAME or --NAME=VALUE, to workers.
func Sent(flag string) bool {
	name, found := strings.CutPrefix(flag, "--")
	name, _, _ = strings.Cut(name, "=")
	return found && slices.Contains(sentFlags(), name)
}
