package manifest

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"bootstrap/manifest/gen"
)

// readInstallation reads cloud_provider.
func (r *reader) readInstallation(c cursor) {
	r.CPI = Installation{Pos: c.pos, Properties: map[string]any{}}
	if c.node == nil {
		c.fail("must be provided: a map with the CPI (template), its properties, and the agent's URL (mbus)")
		return
	}
	if !c.section("cloud_provider") {
		return
	}
	r.CPI.Templates = r.readTemplates(c)
	r.CPI.Properties = c.get("properties").propertiesOrEmpty()
	r.CPI.MBus, r.CPI.MBusURL = readMBus(c.get("mbus"))
	r.CPI.CA = readCert(c.get("cert"))
	r.CPI.SSHTunnel = r.readTunnel(c.get("ssh_tunnel"))
	r.CPI.Registry = readRegistry(c.get("registry"), r.CPI.SSHTunnel != nil)
}

// readTemplates reads templates, or template if there are none.
func (r *reader) readTemplates(c cursor) []JobRef {
	single, list := c.get("template"), c.get("templates")
	items := list.items()
	if len(items) == 0 {
		switch {
		case list.unsettled() || list.node != nil && list.node.kind != listKind:
		case single.node == nil:
			single.fail("must be provided: a map with the name of the CPI's job and the release that holds it")
		case single.section("cloud_provider.template"):
			return []JobRef{r.readJobRef(single)}
		}
		return nil
	}
	if single.node != nil {
		single.warn("is not used, since templates is given, too")
	}
	var refs []JobRef
	seen := map[string]bool{}
	for _, item := range items {
		if item.node != nil && !item.section("cloud_provider.template") {
			continue
		}
		ref := r.readJobRef(item)
		if seen[ref.Name] && ref.Name != "" {
			item.get("name").fail("must be unique, but another template is called %q, too", literal(ref.Name))
		}
		seen[ref.Name] = true
		refs = append(refs, ref)
	}
	return refs
}

// readMBus reads the URL of the agent. No message quotes it, for its password.
func readMBus(c cursor) (string, *url.URL) {
	const form = "https://USER:PASSWORD@HOST:PORT"
	text, ok := c.need("the URL of the agent, " + form)
	if c.unsettled() {
		// The host is known before the password is generated.
		written, _ := c.node.value.(string)
		written = settled(written, "generated")
		if u, err := url.Parse(written); err == nil && u.Hostname() != "" {
			return written, u
		}
	}
	if !ok {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil {
		c.fail("is not a valid URL; expected %s, with characters such as / # ? @ %% in the password written as %%2F %%23 %%3F %%40 %%25", form)
		return "", nil
	}
	var wrong []string
	if u.Scheme != "https" {
		wrong = append(wrong, "does not begin with https://")
	}
	if u.Hostname() == "" {
		wrong = append(wrong, "lacks the host")
	}
	if u.User.Username() == "" {
		wrong = append(wrong, "lacks the user")
	}
	if password, _ := u.User.Password(); password == "" {
		wrong = append(wrong, "lacks the password")
	}
	switch {
	case len(wrong) > 0:
		c.fail("%s; expected %s", strings.Join(wrong, ", "), form)
		return text, nil
	case u.Port() == "":
		c.warn("names no port, which means 443; agents usually listen on 6868")
	}
	return text, u
}

// readCert reads the CA of the agent's certificate.
func readCert(c cursor) string {
	if c.node == nil || c.unsettled() {
		return ""
	}
	if c.node.kind != mapKind {
		c.fail("must be a map with the key ca, which holds the CA certificate in PEM, not %s", c.node.describe())
		return ""
	}
	c.section("cloud_provider.cert")
	place := c.get("ca")
	text, ok := place.text()
	if !ok || text == "" {
		return ""
	}
	if _, wrong := parseChain(text); wrong != "" {
		place.fail("%s", wrong)
		return ""
	}
	return text
}

// readTunnel reads ssh_tunnel. A map in which everything is empty is none.
func (r *reader) readTunnel(c cursor) *SSHTunnel {
	if !c.section("cloud_provider.ssh_tunnel") {
		return nil
	}
	empty := true
	for _, key := range []string{"user", "host", "port", "password", "private_key"} {
		if n := c.get(key).node; n != nil && n.value != "" && n.value != 0 {
			empty = false
		}
	}
	if empty {
		return nil
	}
	t := &SSHTunnel{
		Port:           22,
		ConnectTimeout: c.get("connection_refused_timeout").seconds(),
		AuthTimeout:    c.get("auth_failure_timeout").seconds(),
	}
	t.User, _ = c.get("user").need("the user to log in as on the VM")
	t.Host, _ = c.get("host").need("the host name or address of the VM's SSH server")
	t.Password, _ = c.get("password").text()
	if port := c.get("port"); port.node != nil {
		t.Port = readPort(port, 1)
	}
	t.PrivateKey = r.readPrivateKey(c.get("private_key"))
	return t
}

// readPort reads a TCP port, least the lowest that is allowed.
func readPort(c cursor, least int) int {
	port, ok := c.whole()
	if ok && (port < least || port > 65535) {
		c.fail("must be a port between %d and 65535, but is %d", least, port)
	}
	return port
}

// readPrivateKey reads a private key, given as text in PEM or as a path.
func (r *reader) readPrivateKey(c cursor) string {
	text, ok := c.text()
	if !ok || strings.TrimSpace(text) == "" {
		return ""
	}
	if begins := strings.TrimSpace(text); strings.HasPrefix(begins, "----") || strings.Contains(begins, "\n") {
		if wrong := checkPrivateKey([]byte(text)); wrong != "" {
			c.fail("%s", wrong)
		}
		return text
	}
	for _, prefix := range []string{"ssh-", "ecdsa-", "sk-"} {
		if strings.HasPrefix(text, prefix) && strings.Contains(text, " ") {
			c.fail("is a public key; expected a private key in PEM, or the path of a file with one")
			return ""
		}
	}
	path := r.localPath(c, strings.TrimPrefix(text, "file://"))
	data, err := readKeyFile(path)
	if err != nil {
		c.fail("cannot read the private key %s: %v", path, err)
		return ""
	}
	if wrong := checkPrivateKey(data); wrong != "" {
		c.fail("the file %s: %s", path, wrong)
	}
	return string(data)
}

// readKeyFile reads a small regular file. Its errors do not name the file.
func readKeyFile(path string) ([]byte, error) {
	const limit = 64 << 10
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, cause(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > limit:
		return nil, errors.New("it is too large to be a key")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, cause(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit))
	return data, cause(err)
}

// cause drops the call and the path from an error of package os.
func cause(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// checkPrivateKey says what is wrong with a private key in PEM, or "".
func checkPrivateKey(data []byte) string {
	block, _ := pem.Decode(data)
	switch {
	case block == nil:
		return "is not a private key in PEM (lines from \"-----BEGIN ... PRIVATE KEY-----\" to its END); check that all lines are there, and their indentation"
	case !strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return fmt.Sprintf("holds a %s where a private key is expected", strings.ToLower(block.Type))
	}
	if err := gen.CheckSSHKey(string(data)); err != nil {
		return err.Error()
	}
	return ""
}

// readRegistry reads registry. With a tunnel there is one by default.
func readRegistry(c cursor, tunnel bool) *Registry {
	if !c.section("cloud_provider.registry") && !tunnel {
		return nil
	}
	reg := &Registry{
		Host:     "127.0.0.1",
		Port:     6901,
		Username: "registry",
		OpenGet:  c.get("unauthenticated_get").flag(true),
	}
	if host, ok := c.get("host").text(); ok && host != "" {
		reg.Host = host
	}
	if port := c.get("port"); port.node != nil {
		reg.Port = readPort(port, 0)
	}
	if name, ok := c.get("username").text(); ok && name != "" {
		reg.Username = name
		if strings.Contains(name, ":") {
			c.get("username").fail(`must not contain ":"`)
		}
	}
	reg.Password, _ = c.get("password").text()
	return reg
}
