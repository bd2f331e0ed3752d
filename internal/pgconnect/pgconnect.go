// Package pgconnect says which connections to PostgreSQL are safe, and why a server
// refuses one.
package pgconnect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"bootstrap/internal/failure"
)

// Check refuses a server on another machine if the connection might not be encrypted
// although the user did not allow that: without sslmode, PostgreSQL's programs connect in
// this way. The address is the one from which config was made.
func Check(address string, config *pgconn.Config) error {
	if strings.Contains(address, "sslmode=") || os.Getenv("PGSSLMODE") != "" {
		return nil
	}
	unsafe := ""
	if config.TLSConfig == nil && !isLocal(config.Host) {
		unsafe = config.Host
	}
	for _, other := range config.Fallbacks {
		if other.TLSConfig == nil && !isLocal(other.Host) {
			unsafe = other.Host
		}
	}
	if unsafe == "" {
		return nil
	}
	return failure.Named("database-encryption", fmt.Errorf("the server %s is on another machine, and without sslmode the password and the data could be sent unencrypted: add sslmode=verify-full to the address (with sslrootcert=FILE if its CA is not one of this machine's), or sslmode=require, which does not check who answers, or sslmode=disable if the network is safe; PGSSLMODE does the same", unsafe))
}

// isLocal reports whether a host is this machine, or the folder of a socket.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || ip != nil && ip.IsLoopback()
}

// Refused returns a sentence if a server did not accept the password; nil: the error is
// another one.
func Refused(err error, config *pgconn.Config) error {
	server, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || server.Code != "28P01" {
		return nil
	}
	why := "it was not given a password"
	if config.Password != "" {
		why = "the password is wrong"
	}
	return failure.Named("database-password", fmt.Errorf("the server %s does not let the user %s in (%s): %s; give the password as PGPASSWORD, or in ~/.pgpass as HOST:PORT:DATABASE:USER:PASSWORD", hostOf(config), config.User, server.Message, why))
}

// Unreachable returns a sentence if no connection to the server could be made; nil: the
// error is another one. The driver's own error has a line for each attempt.
func Unreachable(err error, config *pgconn.Config) error {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok {
		return nil
	}
	if _, answered := errors.AsType[*pgconn.PgError](err); answered {
		return nil
	}
	why := ""
	var name *net.DNSError
	var network *net.OpError
	var system syscall.Errno
	switch {
	case errors.As(err, &name):
		why = "the name of the host is not known"
	case errors.As(err, &system):
		why = system.Error()
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		why = "it does not answer"
	default:
		return nil
	}
	return fmt.Errorf("cannot connect to the server %s: %s", hostOf(config), why)
}

func hostOf(config *pgconn.Config) string {
	if config.Host == "" || strings.HasPrefix(config.Host, "/") {
		return "of this machine"
	}
	return net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
}
