package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"bootstrap/internal/guard"
)

// ServeKey is an ssh-agent with one private key, given as PEM, on a Unix socket at
// path, so that the key is never in a file. end stops it and removes the socket.
func ServeKey(ctx context.Context, key, path string) (end func(), err error) {
	raw, err := ssh.ParseRawPrivateKey([]byte(key))
	if err != nil {
		return nil, errors.New("cannot serve the key: it is not a private key")
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: raw}); err != nil {
		return nil, fmt.Errorf("cannot serve the key: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot serve the key: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, fmt.Errorf("cannot serve the key: %w", err)
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{} // nil after the end
	group.Go(guard.Part(ctx, func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if open == nil {
				conn.Close()
			} else {
				open[conn] = true
				group.Go(guard.Part(ctx, func() {
					defer func() {
						conn.Close()
						mu.Lock()
						defer mu.Unlock()
						delete(open, conn)
					}()
					_ = agent.ServeAgent(ring, conn) // until the program closes the connection
				}))
			}
			mu.Unlock()
		}
	}))
	return func() {
		listener.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		open = nil
		mu.Unlock()
		group.Wait()
	}, nil
}
