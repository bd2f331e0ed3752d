package team

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/regular"
	"bootstrap/internal/wait"
)

// pin has the key of a store and the newest documents that this machine has seen there,
// so that forged and old ones are refused. It is a file in ~/.bosh/state-keys, 0600.
type pin struct {
	Place string `json:"place"`
	Key   string `json:"key"` // the key as text
	// Former is the previous key, while some documents are not yet signed with the new
	// one.
	Former string `json:"former,omitempty"`
	// Shared is true if the store has the key, encrypted for the team.
	Shared bool `json:"shared,omitempty"`
	// Seen contains the generations of the documents that this machine has read or
	// written.
	Seen map[string]uint64 `json:"seen,omitempty"`
}

// pinPath returns the path of the pin of a store.
func pinPath(home, place string) string {
	digest := sha256.Sum256([]byte(place))
	return filepath.Join(home, "state-keys", hex.EncodeToString(digest[:10])+".json")
}

// Trusts reports whether a machine with the folder ~/.bosh trusts a key for the store at an
// address.
func Trusts(home, address string) bool {
	_, err := os.Stat(pinPath(home, Place(address)))
	return err == nil
}

// readPin reads a pin; the zero value if there is none. A damaged pin is an error,
// because without a pin this machine would trust any content of the store.
func readPin(path string) (p pin, err error) {
	if path == "" {
		return p, nil
	}
	data, err := regular.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p, nil
	case err != nil:
		return p, fmt.Errorf("cannot read the state key that this machine trusts: %w", err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("cannot read the state key that this machine trusts: %s is damaged; without that file, `bootstrap state trust` asks again", path)
	}
	return p, nil
}

// pinLockTime limits the wait for another process that changes a pin.
const pinLockTime = 30 * time.Second

// changePin changes the pin at a path, which need not exist.
func changePin(ctx context.Context, path string, change func(*pin)) (p pin, err error) {
	failed := func(err error) (pin, error) {
		return pin{}, fmt.Errorf("cannot record the state key that this machine trusts: %w", err)
	}
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pinLockTime)
	defer cancel()
	var lock *lockfile.Lock
	err = wait.Poll(ctx, 10*time.Millisecond, func() (_ bool, err error) {
		lock, err = lockfile.Try(path + ".lock")
		return lock != nil, err
	})
	if err != nil {
		return failed(err)
	}
	defer lock.Close()
	if p, err = readPin(path); err != nil {
		return p, err
	}
	change(&p)
	data, err := json.MarshalIndent(p, "", "    ")
	if err == nil {
		atomicfile.RemoveStale(path)
		err = atomicfile.Replace(path, append(data, '\n'))
	}
	if err != nil {
		return failed(err)
	}
	return p, nil
}

// saw records the generation of a document.
func (p *pin) saw(name string, generation uint64) {
	if p.Seen == nil {
		p.Seen = map[string]uint64{}
	}
	p.Seen[name] = max(p.Seen[name], generation)
}

// remembered reports whether the pin contains the generation of a document.
func remembered(name string) bool { return !kindOf(name).fixed }
