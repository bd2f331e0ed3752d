package team

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"bootstrap/internal/process"
)

// IsAddress reports whether the place of a state is a store, not a file.
func IsAddress(text string) bool { return strings.Contains(text, "://") }

// Schemes of addresses, with an example of each.
func forms() []string {
	return []string{
		"s3://BUCKET/PREFIX?region=REGION&endpoint=URL",
		// This example has no user, because messages hide users.
		"postgres://HOST/DATABASE?" + EnvironmentParameter + "=NAME",
		"https://HOST/PATH",
	}
}

// Place returns an address without secrets. It is the same for all users of the store.
func Place(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		scheme, _, _ := strings.Cut(address, "://")
		return scheme + "://…"
	}
	u.User = nil
	query := u.Query()
	for name := range query {
		if !slices.Contains([]string{EnvironmentParameter, "endpoint", "region", "host"}, name) {
			query.Del(name)
		}
	}
	u.RawQuery, u.Fragment = strings.NewReplacer("%3A", ":", "%2F", "/").Replace(query.Encode()), ""
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u.String()
}

// argument returns an address for a command that another person can paste: without
// passwords, but for PostgreSQL with the user, which every login needs.
func argument(u *url.URL) string {
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return Place(u.String())
	}
	of, query := *u, u.Query()
	if of.User = nil; u.User.Username() != "" {
		of.User = url.User(u.User.Username())
	}
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Del(name)
		}
	}
	of.RawQuery = query.Encode()
	return of.String()
}

// Secrets returns the parts of an address that messages must not contain.
func Secrets(address string) []string {
	u, err := url.Parse(address)
	if err != nil {
		return []string{address}
	}
	var list []string
	if password, ok := u.User.Password(); ok && password != "" {
		list = append(list, password, url.QueryEscape(password), url.PathEscape(password))
	}
	for name, values := range u.Query() {
		if strings.Contains(strings.ToLower(name), "password") {
			list = append(list, values...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Open connects to the store at an address: s3://, postgres:// or https://.
func Open(ctx context.Context, address string, cfg Config) (*Store, error) {
	cfg.Holder.Run, cfg.Holder.Machine, cfg.Holder.Born = uuid.NewString(), process.Realm(), process.Birth(cfg.Holder.PID)
	s := &Store{place: Place(address), cfg: cfg}
	s.trust = &trust{store: s}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("cannot use the deployment state %s: it is not a URL such as %s", s.place, strings.Join(forms(), ", "))
	}
	s.argument = argument(u)
	ctx, cancel := context.WithTimeout(ctx, 2*requestTime)
	defer cancel()
	if s.docs, err = connect(ctx, u, Secrets(address), cfg); err != nil {
		return nil, fmt.Errorf("cannot use the deployment state %s: %w", s.place, err)
	}
	return s, nil
}

func connect(ctx context.Context, u *url.URL, secrets []string, cfg Config) (Documents, error) {
	switch u.Scheme {
	case "postgres", "postgresql":
		return openDatabase(ctx, u, secrets)
	case "s3":
		return openS3(ctx, u, cfg)
	case "http":
		if !loopback(u.Hostname()) {
			return nil, errors.New("http:// would send its content and the password unencrypted: use https://")
		}
		fallthrough
	case "https":
		if err := refuseUnknown(u.Query()); err != nil {
			return nil, err
		}
		server := openWeb(u, client(nil), secrets)
		server.locks = true
		return server, nil
	}
	return nil, fmt.Errorf("its scheme %s:// is unknown; want a path, or one of %s", u.Scheme, strings.Join(forms(), ", "))
}

// refuseUnknown returns an error if an address has parameters other than these.
func refuseUnknown(query url.Values, names ...string) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case slices.Contains(names, name):
		case len(names) == 0:
			return fmt.Errorf("it has the parameter %s; an address of this kind has none", name)
		default:
			return fmt.Errorf("it has the unknown parameter %s; known are %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// client returns an HTTP client. dress changes each request; may be nil.
func client(dress func(http.RoundTripper) http.RoundTripper) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	var trip http.RoundTripper = transport
	if dress != nil {
		trip = dress(transport)
	}
	// A redirect would send the conditions of a write to another server.
	return &http.Client{Transport: trip, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// probe writes a document three times. The conditions of the second and third write are
// not fulfilled, so the server must refuse them.
func (s *Store) probe(ctx context.Context) (err error) {
	probe := "probe-" + uuid.NewString()
	name := s.full(probe)
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	version, err := s.docs.Put(ctx, name, []byte("one"), "")
	if err != nil {
		return fmt.Errorf("cannot write to %s: %w", s.place, err)
	}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx), probe)) }()
	_, again := s.docs.Put(ctx, name, []byte("two"), "")
	if errors.Is(again, ErrChanged) {
		var other string
		if other, again = s.docs.Put(ctx, name, []byte("three"), version); again == nil {
			_, again = s.docs.Put(ctx, name, []byte("four"), version)
			if errors.Is(again, ErrChanged) && other != version {
				return nil
			}
		}
	}
	if again != nil && !errors.Is(again, ErrChanged) {
		return fmt.Errorf("cannot write to %s: %w", s.place, again)
	}
	return fmt.Errorf("cannot keep the deployment state in %s: it ignores the conditions of a write (If-None-Match, If-Match), so two people could overwrite each other's; use another server, or a newer version of this one", s.place)
}
