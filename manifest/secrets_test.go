package manifest

import (
	"slices"
	"testing"
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
