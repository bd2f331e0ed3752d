package team

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestProfiles signs requests to S3 with the credentials of a profile's role, which STS
// returns for the credentials of its source profile.
func TestProfiles(t *testing.T) {
	var mu sync.Mutex
	var asked, signed []string // the requests to STS, and the key and region of requests to S3
	key := func(r *http.Request) string {
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		parts := strings.Split(rest, "/") // key, date, region, service
		if len(parts) < 4 {
			return "unsigned"
		}
		return parts[0] + " " + parts[2] + " " + parts[3]
	}
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		_ = r.ParseForm()
		arn := r.Form.Get("RoleArn")
		asked = append(asked, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", key(r), r.Header.Get("X-Amz-Security-Token"), arn, r.Form.Get("ExternalId"), r.Form.Get("DurationSeconds"))))
		if strings.HasSuffix(arn, "/forbidden") {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>`)
			return
		}
		_, name, _ := strings.Cut(arn, "/")
		fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials><AccessKeyId>ASIA%s</AccessKeyId><SecretAccessKey>s</SecretAccessKey>
<SessionToken>token-%[1]s</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`, name, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer sts.Close()
	s3 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		signed = append(signed, key(r)+" "+r.Header.Get("X-Amz-Security-Token"))
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `<Error><Code>NoSuchKey</Code></Error>`)
	}))
	defer s3.Close()

	home := t.TempDir()
	for name, text := range map[string]string{
		"config": `[default]
region = eu-central-1
[profile keys]
region = eu-west-3
[profile team]
role_arn = arn:aws:iam::1:role/deployer
source_profile = keys
external_id = blue
duration_seconds = 900
[profile chained]
role_arn = arn:aws:iam::2:role/second
source_profile = team
[profile own]
role_arn = arn:aws:iam::1:role/own
source_profile = own
[profile variables]
role_arn = arn:aws:iam::1:role/env
credential_source = Environment
[profile circle]
role_arn = arn:aws:iam::1:role/circle
source_profile = elcric
[profile elcric]
role_arn = arn:aws:iam::1:role/elcric
source_profile = circle
[profile mfa]
role_arn = arn:aws:iam::1:role/mfa
source_profile = keys
mfa_serial = arn:aws:iam::1:mfa/ann
[profile forbidden]
role_arn = arn:aws:iam::1:role/forbidden
source_profile = keys
`,
		"credentials": "[keys]\naws_access_key_id = AKIAKEYS\naws_secret_access_key = k\n[own]\naws_access_key_id = AKIAOWN\naws_secret_access_key = o\n",
	} {
		if err := os.MkdirAll(filepath.Join(home, ".aws"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, ".aws", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(home, ".aws", "config")) // HOME is read when the program starts
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(home, ".aws", "credentials"))
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)
	for _, c := range []struct {
		profile, asked, signed, fails string
	}{
		{"keys", "", "AKIAKEYS eu-west-3 s3 ", ""},
		{"team", "AKIAKEYS us-east-1 sts  arn:aws:iam::1:role/deployer blue 900", "ASIAdeployer us-east-1 s3 token-deployer", ""},
		{"chained", "AKIAKEYS us-east-1 sts  arn:aws:iam::1:role/deployer blue 900\nASIAdeployer us-east-1 sts token-deployer arn:aws:iam::2:role/second  900", "ASIAsecond us-east-1 s3 token-second", ""},
		{"own", "AKIAOWN us-east-1 sts  arn:aws:iam::1:role/own  900", "ASIAown us-east-1 s3 token-own", ""},
		{"circle", "", "", "cannot read the profiles of AWS: failed to load assume role arn:aws:iam::1:role/elcric, of profile circle"},
		{"mfa", "", "", "mfa_serial wants a code that a person types"},
		{"forbidden", "AKIAKEYS us-east-1 sts  arn:aws:iam::1:role/forbidden  900", "", "AccessDenied: not you"},
		{"none", "", "", "cannot read the profiles of AWS: failed to get shared config profile, none"},
	} {
		t.Run(c.profile, func(t *testing.T) {
			asked, signed = nil, nil
			t.Setenv("AWS_PROFILE", c.profile)
			u, _ := url.Parse("s3://bucket/env?endpoint=" + s3.URL)
			d, err := openS3(t.Context(), u, Config{Getenv: os.Getenv})
			if err == nil {
				if _, err = d.Get(t.Context(), "state.json"); errors.Is(err, fs.ErrNotExist) {
					err = nil
				}
				d.Close()
			}
			switch {
			case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("it ends with %v, not with %q", err, c.fails)
			case c.fails == "" && err != nil:
				t.Error(err)
			}
			if got := strings.Join(asked, "\n"); got != c.asked {
				t.Errorf("STS is asked\n%s\nwant\n%s", got, c.asked)
			}
			if c.signed != "" && (len(signed) == 0 || signed[0] != c.signed) {
				t.Errorf("S3 is asked with %q, want %q", signed, c.signed)
			}
		})
	}
}
