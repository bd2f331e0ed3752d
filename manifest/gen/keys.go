package gen

import (
	"context"
	"crypto"
	"runtime"
	"sync"

	"bootstrap/internal/guard"
)

// Keys makes RSA keys before Generate needs them, one for each processor at the same
// time. Keys of the same kind are interchangeable, so values differ only in their
// randomness. The zero value can be used.
type Keys struct {
	mu      sync.Mutex
	queue   []*comingKey // not begun yet
	workers int
	coming  map[keyShape][]*comingKey // not taken yet
}

// keyShape identifies keys that are interchangeable.
type keyShape struct {
	kind   string
	length int
}

// comingKey is a key that is being made, or will be made.
type comingKey struct {
	options options
	done    chan struct{} // closed when key and err are set
	key     crypto.Signer
	err     error
}

// Expect begins to make the key that Generate will need for the definition, and reports
// whether there is one. Definitions without an RSA key, and wrong ones, need none.
func (k *Keys) Expect(d Definition) bool {
	o, problems := parse(d)
	if len(problems) > 0 || o.keyType != "rsa" {
		return false
	}
	c := &comingKey{options: o, done: make(chan struct{})}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.coming == nil {
		k.coming = map[keyShape][]*comingKey{}
	}
	shape := keyShape{o.keyType, o.keyLength}
	k.coming[shape] = append(k.coming[shape], c)
	k.queue = append(k.queue, c)
	if k.workers < runtime.GOMAXPROCS(0) {
		k.workers++
		guard.Go(context.Background(), k.work)
	}
	return true
}

// work makes keys until none is left in the queue.
func (k *Keys) work() {
	for c := k.next(); c != nil; c = k.next() {
		c.err = guard.Call(func() (err error) {
			c.key, err = newKey(c.options)
			return err
		})
		close(c.done)
	}
}

func (k *Keys) next() *comingKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) == 0 {
		k.workers--
		return nil
	}
	c := k.queue[0]
	k.queue = k.queue[1:]
	return c
}

// Generate returns a new value: a string for a password, else a map of strings:
//
//	certificate: certificate, private_key, ca
//	ssh:         private_key, public_key, public_key_fingerprint
//	rsa:         private_key, public_key
//	user:        username, password, password_hash
//
// The function ca returns the value of the certificate that signs. A key that was
// expected is taken. Errors of the definition are joined *OptionErrors.
func (k *Keys) Generate(d Definition, ca func(name string) (value any, found bool)) (any, error) {
	return generate(d, ca, k)
}

// take returns an expected key and waits until it is made; nil: none of that kind is
// left.
func (k *Keys) take(o options) (crypto.Signer, error) {
	c := k.taken(keyShape{o.keyType, o.keyLength})
	if c == nil {
		return nil, nil
	}
	<-c.done
	return c.key, c.err
}

func (k *Keys) taken(shape keyShape) *comingKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.coming[shape]
	if len(list) == 0 {
		return nil
	}
	k.coming[shape] = list[1:]
	return list[0]
}

// Close discards the keys that were not begun. It does not wait for the others.
func (k *Keys) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue, k.coming = nil, nil
}
