package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// credhub is a CredHub server, which trusts the tokens of a UAA server.
type credhub struct {
	config Config
	at     string
	web    *web
	base   *url.URL // URL without a path
	prefix string   // prefix for names that do not begin with a slash; empty, or begins with a slash
	token  string
}

func (c *credhub) open(ctx context.Context) (err error) {
	if c.base, err = server("credhub", c.at, "CREDHUB_SERVER", c.config.Getenv("CREDHUB_SERVER")); err != nil {
		return err
	}
	if list := pieces(c.base.Path); len(list) > 0 {
		c.prefix = "/" + strings.Join(list, "/")
	}
	c.base.Path = ""
	client, secret := c.config.Getenv("CREDHUB_CLIENT"), c.config.Getenv("CREDHUB_SECRET")
	if client == "" || secret == "" {
		return errors.New("set $CREDHUB_CLIENT and $CREDHUB_SECRET, as for the program credhub")
	}
	c.config.secret(secret)
	if c.web, err = newWeb(c.config, "CREDHUB_CA_CERT"); err != nil {
		return err
	}
	auth, err := c.findAuth(ctx)
	if err != nil {
		return err
	}
	r, err := c.web.send(ctx, http.MethodPost, auth.JoinPath("oauth", "token"), http.Header{"Accept": {"application/json"}}, url.Values{
		"grant_type": {"client_credentials"}, "response_type": {"token"}, "client_id": {client}, "client_secret": {secret},
	})
	if err != nil {
		return fmt.Errorf("cannot log in at %s: %w", auth.Host, err)
	}
	c.token = r.text("access_token")
	switch {
	case r.code != http.StatusOK:
		return fmt.Errorf("cannot log in at %s as the client %s of $CREDHUB_CLIENT: %w", auth.Host, client, r.err())
	case c.token == "":
		return fmt.Errorf("cannot log in at %s: the answer has no token", auth.Host)
	}
	c.config.secret(c.token)
	return nil
}

// findAuth asks the server which UAA server it trusts.
func (c *credhub) findAuth(ctx context.Context) (*url.URL, error) {
	r, err := c.web.send(ctx, http.MethodGet, c.base.JoinPath("info"), http.Header{}, nil)
	switch {
	case err != nil:
		return nil, err
	case r.code != http.StatusOK:
		return nil, r.err()
	}
	auth, err := url.Parse(r.text("auth-server.url"))
	if err != nil || auth.Host == "" || auth.User != nil || !safe(auth) {
		return nil, errors.New("its /info names no https:// address of a UAA server; is that a CredHub server?")
	}
	return auth, nil
}

func (c *credhub) find(ctx context.Context, name string) (any, error) {
	if !strings.HasPrefix(name, "/") {
		name = c.prefix + "/" + name
	}
	at := c.base.JoinPath("api", "v1", "data")
	at.RawQuery = url.Values{"name": {name}, "current": {"true"}}.Encode()
	r, err := c.web.send(ctx, http.MethodGet, at, http.Header{"Authorization": {"Bearer " + c.token}}, nil)
	switch {
	case err != nil:
		return nil, err
	case r.code == http.StatusNotFound:
		return nil, nil
	case r.code != http.StatusOK:
		return nil, r.err()
	}
	list, ok := r.get("data").([]any)
	if !ok {
		return nil, errNoData
	}
	if len(list) == 0 {
		return nil, nil
	}
	first, _ := list[0].(map[string]any)
	return first["value"], nil
}
