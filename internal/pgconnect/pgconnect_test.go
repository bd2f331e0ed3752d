package pgconnect

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Without sslmode, only a server on this machine is accepted.
func TestCheck(t *testing.T) {
	t.Setenv("PGSSLMODE", "")
	for address, safe := range map[string]bool{
		"postgres://u@db.example/d":                                false,
		"postgres://u@10.0.0.9:5433/d":                             false,
		"postgres://u@localhost,db.example/d":                      false,
		"postgres://u@/d?host=10.0.0.9":                            false,
		"postgres://u@db.example/d?sslmode=verify-full":            true,
		"postgres://u@db.example/d?sslmode=require":                true,
		"postgres://u@db.example/d?sslmode=disable":                true,
		"postgres://u@localhost/d":                                 true,
		"postgres://u@127.0.0.1:5433/d":                            true,
		"postgres://u@[::1]/d":                                     true,
		"postgres://u@/d?host=/var/run/postgresql":                 true,
		"postgres://u@/d?host=/var/run/postgresql&sslmode=disable": true,
	} {
		config, err := pgx.ParseConfig(address)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(address, &config.Config); (err == nil) != safe || err != nil && !strings.Contains(err.Error(), "sslmode=verify-full") {
			t.Errorf("%s: %v", address, err)
		}
	}
	t.Setenv("PGSSLMODE", "require")
	config, err := pgx.ParseConfig("postgres://u@db.example/d")
	if err != nil {
		t.Fatal(err)
	}
	if err := Check("postgres://u@db.example/d", &config.Config); err != nil {
		t.Error(err)
	}
}

// The error for a wrong or a missing password is one sentence.
func TestRefused(t *testing.T) {
	wrong := fmt.Errorf("two\n\tlines: %w", &pgconn.PgError{Code: "28P01", Message: `password authentication failed for user "u"`})
	config := &pgconn.Config{Host: "db.example", Port: 5432, User: "u"}
	if got := Refused(wrong, config); got == nil || strings.Contains(got.Error(), "\n") || !strings.Contains(got.Error(), "it was not given a password; give the password as PGPASSWORD, or in ~/.pgpass") {
		t.Errorf("%v", got)
	}
	config.Password = "s3cret"
	if got := Refused(wrong, config); got == nil || !strings.Contains(got.Error(), "the password is wrong") || strings.Contains(got.Error(), "s3cret") {
		t.Errorf("%v", got)
	}
	if got := Refused(errors.New("refused"), config); got != nil {
		t.Errorf("%v", got)
	}
}
