package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"bootstrap/internal/regular"
)

// vault is a key-value engine of Vault or OpenBao.
type vault struct {
	config Config
	at     string
	web    *web
	base   *url.URL // URL without a path
	token  string
	mount  []string // the path of the engine
	prefix []string // path below the engine
	two    *bool    // whether the engine has version 2; nil: unknown
}

// getenv returns the value of a variable; the name is without its prefix. Like OpenBao's
// own client, it prefers OpenBao's variable.
func (v *vault) getenv(name string) string {
	return cmp.Or(v.config.Getenv("BAO_"+name), v.config.Getenv("VAULT_"+name))
}

func (v *vault) open(ctx context.Context) (err error) {
	if v.base, err = server("vault", v.at, "VAULT_ADDR", v.getenv("ADDR")); err != nil {
		return err
	}
	path := pieces(v.base.Path)
	v.base.Path = ""
	ca := "VAULT_CACERT"
	if v.config.Getenv("BAO_CACERT") != "" {
		ca = "BAO_CACERT"
	}
	if v.web, err = newWeb(v.config, ca); err != nil {
		return err
	}
	if v.token, err = v.findToken(); err != nil {
		return err
	}
	v.config.secret(v.token)
	return v.findMount(ctx, path)
}

// server returns the address of a server, or the address in the environment with the
// server's path.
func server(kind, at, variable, env string) (*url.URL, error) {
	u, err := address(kind, at)
	if err != nil || u.Host != "" {
		return u, err
	}
	base, err := url.Parse(env)
	switch {
	case env == "":
		return nil, fmt.Errorf("the address of the server is missing: write it in front of the path, or set $%s", variable)
	case err != nil || base.Host == "" || base.User != nil:
		return nil, fmt.Errorf("$%s is not a URL such as https://host:port", variable)
	case !safe(base):
		return nil, fmt.Errorf("$%s must begin with https://, because the token and the values must not be read on the way", variable)
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: u.Path}, nil
}

// findToken returns the token of the environment or of the client's file.
func (v *vault) findToken() (string, error) {
	if token := v.getenv("TOKEN"); token != "" {
		return token, nil
	}
	file := filepath.Join(v.config.Getenv("HOME"), ".vault-token")
	data, err := regular.Read(file)
	token := strings.TrimSpace(string(data))
	if err != nil || token == "" {
		return "", errors.New("there is no token: set $VAULT_TOKEN or $BAO_TOKEN, or run vault login or bao login, which keep it in ~/.vault-token")
	}
	return token, nil
}

// findMount finds out which part of a path is the engine, and its version. If the server
// refuses to answer that, values are requested in both ways.
func (v *vault) findMount(ctx context.Context, path []string) error {
	r, err := v.get(ctx, append([]string{"sys", "internal", "ui", "mounts"}, path...)...)
	if err != nil {
		return err
	}
	v.mount, v.prefix = path[:1], path[1:]
	if r.code == http.StatusForbidden || r.code == http.StatusNotFound {
		return nil
	}
	if err := r.refused(); err != nil {
		return err
	}
	mount := r.text("data.path")
	if kind := r.text("data.type"); kind != "kv" && kind != "generic" {
		return fmt.Errorf("%s is a mount of the type %s, not a key-value engine", brief(mount), brief(kind))
	}
	if n := len(pieces(mount)); n > 0 && n <= len(path) {
		v.mount, v.prefix = path[:n], path[n:]
	}
	two := r.text("data.options.version") == "2"
	v.two = &two
	return nil
}

func (v *vault) find(ctx context.Context, name string) (any, error) {
	path := pieces(name)
	if !strings.HasPrefix(name, "/") {
		path = append(v.prefix[:len(v.prefix):len(v.prefix)], path...)
	}
	if len(path) == 0 {
		return nil, nil
	}
	for _, piece := range path {
		if piece == "." || piece == ".." {
			return nil, nil // No secret can have this name, and a server might take it for a folder.
		}
	}
	if v.two != nil {
		value, _, err := v.read(ctx, *v.two, path)
		return value, err
	}
	value, missing, err := v.read(ctx, true, path)
	if err == nil && !missing {
		return value, nil
	}
	other, missing, again := v.read(ctx, false, path)
	switch {
	case again == nil && !missing:
		return other, nil
	case err != nil && again != nil:
		return nil, err
	}
	return nil, nil
}

// read reads a secret of an engine of version 2 or 1.
func (v *vault) read(ctx context.Context, two bool, path []string) (value any, missing bool, err error) {
	at := append([]string{}, v.mount...)
	if two {
		at = append(at, "data")
	}
	r, err := v.get(ctx, append(at, path...)...)
	if err != nil {
		return nil, true, err
	}
	if why := r.explanation(); r.code == http.StatusNotFound && why == "" {
		return nil, true, nil // if the answer contains an explanation, the engine does not exist
	}
	if err := r.refused(); err != nil {
		return nil, true, err
	}
	found := r.get("data")
	if two {
		found = r.get("data.data")
	}
	data, ok := found.(map[string]any)
	switch {
	case !ok && two && r.get("data") != nil:
		return nil, true, nil // the secret was deleted, or it is a secret of version 1
	case !ok:
		return nil, true, errNoData
	}
	if one, ok := data["value"]; ok && len(data) == 1 {
		return one, false, nil
	}
	return data, false, nil
}

func (v *vault) get(ctx context.Context, path ...string) (reply, error) {
	header := http.Header{"X-Vault-Token": {v.token}, "X-Vault-Request": {"true"}}
	if namespace := v.getenv("NAMESPACE"); namespace != "" {
		header.Set("X-Vault-Namespace", namespace)
	}
	return v.web.send(ctx, http.MethodGet, v.base.JoinPath("v1").JoinPath(escaped(path)...), header, nil)
}

// refused returns why an answer contains no secret; nil: it contains one.
func (r reply) refused() error {
	switch r.code {
	case http.StatusOK:
		return nil
	case http.StatusForbidden:
		return fmt.Errorf("%w; is the token valid, and does a policy of it allow to read this?", r.err())
	}
	return r.err()
}

var errNoData = errors.New("the answer has no data")

// pieces returns the parts of a path that are not empty.
func pieces(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}

func escaped(path []string) []string {
	list := make([]string, len(path))
	for i, piece := range path {
		list[i] = url.PathEscape(piece)
	}
	return list
}
