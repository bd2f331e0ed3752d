package manifest

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"bootstrap/internal/number"
	"bootstrap/manifest/document"
	"bootstrap/manifest/gen"
)

// readInstallation reads cloud_provider.
func (r *reader) readInstallation(c document.Value) {
	r.manifest.CPI = Installation{Pos: c.Position(), Properties: map[string]any{}}
	if c.IsNull() {
		without := ""
		if r.shared != nil {
			without = "; a Director has a CPI of its own, and its manifests have no cloud_provider: name a file with one with --cloud-provider FILE, or add it here, for example with an operations file"
		}
		c.Fail("must be provided: a map with the CPI (template), its properties, and the agent's URL (mbus)%s", document.Literal(without))
		return
	}
	if !sections.Map(c, "cloud_provider") {
		return
	}
	r.manifest.CPI.Templates = r.readTemplates(c)
	r.manifest.CPI.Properties = settings(c.Get("properties"))
	r.manifest.CPI.MBus, r.manifest.CPI.MBusURL = readMBus(c.Get("mbus"))
	r.manifest.CPI.MBusPending = c.Get("mbus").Pending()
	r.manifest.CPI.CA = readCert(c.Get("cert"))
	r.manifest.CPI.CAPending = c.Get("cert").Get("ca").Pending()
	r.manifest.CPI.SSHTunnel = r.readTunnel(c.Get("ssh_tunnel"))
	r.manifest.CPI.Registry = readRegistry(c.Get("registry"), r.manifest.CPI.SSHTunnel != nil)
}

// readTemplates reads templates, or template if there are none.
func (r *reader) readTemplates(c document.Value) []JobRef {
	single, list := c.Get("template"), c.Get("templates")
	items := list.Items()
	if len(items) == 0 {
		switch {
		case list.Pending() || !list.IsNull() && !list.IsList():
		case single.IsNull():
			single.Fail("must be provided: a map with the name of the CPI's job and its release")
		case sections.Map(single, "cloud_provider.template"):
			return []JobRef{r.readJobRef(single)}
		}
		return nil
	}
	if !single.IsNull() {
		single.Warn("is not used, since templates is given")
	}
	var refs []JobRef
	seen := map[string]bool{}
	for _, item := range items {
		if !item.IsNull() && !sections.Map(item, "cloud_provider.template") {
			continue
		}
		ref := r.readJobRef(item)
		if seen[ref.Name] && ref.Name != "" {
			item.Get("name").Fail("must be unique, but there is another template %q", document.Literal(ref.Name))
		}
		seen[ref.Name] = true
		refs = append(refs, ref)
	}
	return refs
}

// readMBus reads the URL of the agent. Messages never quote it, because of its
// password.
func readMBus(c document.Value) (string, *url.URL) {
	const form = "https://USER:PASSWORD@HOST:PORT"
	text, ok := c.Required("the URL of the agent, " + form)
	if c.Pending() {
		// The host is known before the password is generated. The placeholder for the
		// password is a common word, too short to be hidden as a secret.
		written := document.ReplaceVariables(c.Scalar(), "new")
		if u, err := url.Parse(written); err == nil && u.Hostname() != "" {
			return written, u
		}
	}
	if !ok {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil {
		c.Fail("is not a valid URL; expected %s, with characters such as / # ? @ %% in the password written as %%2F %%23 %%3F %%40 %%25", form)
		return "", nil
	}
	var wrong []string
	if u.Scheme != "https" {
		wrong = append(wrong, "must begin with https://")
	}
	if u.Hostname() == "" {
		wrong = append(wrong, "must have a host")
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
		wrong = append(wrong, "must have a port from 1 to 65535")
	}
	if u.User.Username() == "" {
		wrong = append(wrong, "must have a user")
	}
	if password, _ := u.User.Password(); password == "" {
		wrong = append(wrong, "must have a password")
	}
	switch {
	case len(wrong) > 0:
		c.Fail("%s; expected %s", strings.Join(wrong, ", "), form)
		return text, nil
	case u.Port() == "":
		c.Warn("has no port, so 443 is used; agents usually listen on 6868")
	}
	return text, u
}

// readCert reads the CA of the agent's certificate.
func readCert(c document.Value) string {
	if c.IsNull() || c.Pending() {
		return ""
	}
	if !c.IsMap() {
		c.Fail("must be a map with the key ca (the CA certificate in PEM), not %s", c.Describe())
		return ""
	}
	sections.Map(c, "cloud_provider.cert")
	place := c.Get("ca")
	text, ok := place.Text()
	if !ok || text == "" {
		return ""
	}
	if _, wrong := parseChain(text); wrong != "" {
		place.Fail("%s", wrong)
		return ""
	}
	return text
}

// readTunnel reads ssh_tunnel. It returns nil if all values in it are empty.
func (r *reader) readTunnel(c document.Value) *SSHTunnel {
	if !sections.Map(c, "cloud_provider.ssh_tunnel") {
		return nil
	}
	empty := true
	for _, key := range []string{"user", "host", "port", "password", "private_key"} {
		v := c.Get(key)
		empty = empty && (v.IsNull() || v.IsScalar() && v.Scalar() == "" || !v.IsText() && v.Scalar() == "0")
	}
	if empty {
		return nil
	}
	t := &SSHTunnel{
		Port:           22,
		ConnectTimeout: c.Get("connection_refused_timeout").Seconds(),
		AuthTimeout:    c.Get("auth_failure_timeout").Seconds(),
	}
	t.User, _ = c.Get("user").Required("the user to log in as on the VM")
	t.Host, _ = c.Get("host").Required("the host name or address of the VM's SSH server")
	t.Password, _ = c.Get("password").Text()
	if port := c.Get("port"); !port.IsNull() {
		t.Port = readPort(port, 1)
	}
	t.PrivateKey = r.readPrivateKey(c.Get("private_key"))
	return t
}

// readPort reads a TCP port; least is the lowest allowed one.
func readPort(c document.Value, least int) int {
	port, _ := c.Whole(number.Bound{Least: least, Most: maxPort, About: "a port"})
	return port
}

// readPrivateKey reads a private key, given as text in PEM or as a path.
func (r *reader) readPrivateKey(c document.Value) string {
	text, ok := c.Text()
	if !ok || strings.TrimSpace(text) == "" {
		return ""
	}
	if begins := strings.TrimSpace(text); strings.HasPrefix(begins, "----") || strings.Contains(begins, "\n") {
		if wrong := checkPrivateKey([]byte(text)); wrong != "" {
			c.Fail("%s", wrong)
		}
		return text
	}
	for _, prefix := range []string{"ssh-", "ecdsa-", "sk-"} {
		if strings.HasPrefix(text, prefix) && strings.Contains(text, " ") {
			c.Fail("is a public key; expected a private key in PEM, or the path of a file with one")
			return ""
		}
	}
	path := r.localPath(c, strings.TrimPrefix(text, "file://"))
	data, err := readKeyFile(path)
	if err != nil {
		c.Fail("cannot read the private key %s: %v", path, err)
		return ""
	}
	if wrong := checkPrivateKey(data); wrong != "" {
		c.Fail("the file %s: %s", path, wrong)
	}
	return string(data)
}

// readKeyFile reads a small regular file. Its errors do not name the file.
func readKeyFile(path string) ([]byte, error) {
	const limit = 64 << 10
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, document.Cause(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > limit:
		return nil, errors.New("it is too large to be a key")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, document.Cause(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit))
	return data, document.Cause(err)
}

// checkPrivateKey returns what is wrong with a private key in PEM, or "".
func checkPrivateKey(data []byte) string {
	block, _ := pem.Decode(data)
	switch {
	case block == nil:
		return "is not a private key in PEM (lines from \"-----BEGIN ... PRIVATE KEY-----\" to its END); check that all lines are there, and their indentation"
	case !strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return fmt.Sprintf("contains a %s, but a private key is expected", strings.ToLower(block.Type))
	}
	if err := gen.CheckSSHKey(string(data)); err != nil {
		return err.Error()
	}
	return ""
}

// readRegistry reads registry. With a tunnel, the default is a registry.
func readRegistry(c document.Value, tunnel bool) *Registry {
	if !sections.Map(c, "cloud_provider.registry") && !tunnel {
		return nil
	}
	reg := &Registry{
		Host:     "127.0.0.1",
		Port:     6901,
		Username: "registry",
		OpenGet:  c.Get("unauthenticated_get").Flag(true),
	}
	if host, ok := c.Get("host").Text(); ok && host != "" {
		reg.Host = host
	}
	if port := c.Get("port"); !port.IsNull() {
		reg.Port = readPort(port, 0)
	}
	if name, ok := c.Get("username").Text(); ok && name != "" {
		reg.Username = name
		if strings.Contains(name, ":") {
			c.Get("username").Fail(`must not contain ":"`)
		}
	}
	reg.Password, _ = c.Get("password").Text()
	return reg
}
