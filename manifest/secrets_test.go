package manifest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"bootstrap/manifest/document"
)

func TestSecrets(t *testing.T) {
	t.Parallel()
	text := replaced(t, "cloud_provider:", `properties:
  db: {password: db-password, user: not-secret-user, password_policy: not-secret-policy}
  aws: {access_key_id: not-secret-id, secret_access_key: aws-secret, session_token: aws-token}
  azure: {client_secret: azure-secret, clientSecret: camel-secret, subscription_id: not-secret-sub}
  short: {password: abc}
  star: {password: '*'}
  number: {password: 123456, token: true}
  list: {passwords: [list-one, list-two], secrets: {any: not-looked-into, deep_secrets: {x: y}}}
  url: {uri: "postgres://user:ur%21l-pass@db/x", plain: "https://not-secret-host/x"}
  file: {private_key: ~/not-secret-path, api-key: dashed-key}
  key:
    odd: |
      -----BEGIN EC PRIVATE KEY-----
      QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=
      -----END EC PRIVATE KEY-----
    certificate: |
      -----BEGIN CERTIFICATE-----
      not-secret-certificate
      -----END CERTIFICATE-----
cloud_provider:`)
	m := mustLoad(t, text)
	want := []string{
		"-----BEGIN EC PRIVATE KEY-----\nQUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=\n-----END EC PRIVATE KEY-----",
		"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=",
		"azure-secret", "camel-secret", "db-password", "ur%21l-pass", "aws-secret", "dashed-key", "aws-token", "ur!l-pass", "list-one", "list-two", "123456", "sesame",
	}
	if !slices.Equal(m.Secrets, want) {
		t.Errorf("got\n%q\nwant\n%q", m.Secrets, want)
	}
}

// The value of a variable is secret if it is generated or stored, or if its name says so.
func TestSecretsOfVariables(t *testing.T) {
	t.Parallel()
	text := replaced(t, "cloud_provider:", `properties:
  all: [((odd)), ((my_password)), ((region)), ((cidr)), ((url)), ((link)), ((flag)), ((small)), ((number)), ((pin_secret)),
    ((path)), ((plain)), ((user)), ((map)), ((creds)), "x-((embedded))", ((stored.cert)), ((typed)), ((long_token)),
    ((token_url)), ((ssh_key)), ((key)), ((public_key)), ((key_name)), ((dbPass)), ((bypass)), ((from_file)), ((region_file.name))]
variables: [{name: typed, type: password}]
cloud_provider:`)
	dir := t.TempDir()
	store := dir + "/store.yml"
	if err := os.WriteFile(store, []byte("stored: {cert: stored-certificate, username: stored-name}\nunused: unused-stored\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"one": "text-of-a-file", "two": "text-of-a-region"} {
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Load(t.Context(), write(t, text), document.Options{VarsStore: store, VarFiles: []string{"from_file=" + dir + "/one", "region_file.name=" + dir + "/two"}, Vars: []string{
		"odd=odd-value", "my_password=given", "region=eu-central-1", "cidr=10.0.0.0/24", "url=https://host.example/x", "link=https://u:in-url@host/",
		"flag=true", "small=abc", "number=123456", "pin_secret=123456", "path=/var/vcap/x", "plain=default", "user=admin",
		"map={token: in-map, host_name: not-secret, any: [in-list]}", "creds={credentials: {user: not-secret, any: [in-credentials]}}",
		"embedded=embedded-value", "typed=typed-value", "unused=unused-value", "long_token=" + strings.Repeat("long", 2000),
		"token_url=https://not-secret?x", "ssh_key=the-ssh-key", "key=the-key", "public_key=not-secret-key", "key_name=not-secret-name",
		"dbPass=camel-pass", "bypass=not-secret-bypass",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"given", "in-url", "123456", "in-map", "in-credentials", "text-of-a-file", "the-ssh-key", "the-key", "camel-pass",
		"stored-certificate", "typed-value", "sesame", strings.Repeat("long", 2000)[:4096], strings.Repeat("long", 2000)[4096:],
	}
	slices.Sort(want)
	got := slices.Sorted(slices.Values(m.Secrets))
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
