// S3server is the S3 server of the tests: versitygw, which keeps buckets as folders.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// Its arguments are a folder and the address to listen at; the keys are in the
// environment. It ends when its standard input is closed.
func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder, address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		stop()
	}()
	buckets, attributes := filepath.Join(folder, "buckets"), filepath.Join(folder, "attributes")
	for _, dir := range []string{filepath.Join(buckets, "team"), attributes} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	store, err := meta.NewSideCar(attributes)
	if err != nil {
		return err
	}
	backend, err := posix.New(buckets, store, posix.PosixOpts{SideCarDir: attributes})
	if err != nil {
		return err
	}
	return embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess:    os.Getenv("AWS_ACCESS_KEY_ID"),
		RootUserSecret:    os.Getenv("AWS_SECRET_ACCESS_KEY"),
		Ports:             []string{address},
		MaxConnections:    1000,
		MaxRequests:       1000,
		MultipartMaxParts: 10000,
		KeepAlive:         true,
		Quiet:             true,
	})
}
