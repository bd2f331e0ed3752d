package team

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
)

// openS3 returns a bucket of S3 or of a clone. It is used like an HTTPS server, with
// signed requests. Credentials come from the sources that the programs of AWS use:
// variables, the profiles of ~/.aws with their programs, roles and single sign-on, a web
// identity, and the roles of containers and machines.
func openS3(ctx context.Context, u *url.URL, cfg Config) (Documents, error) {
	bucket, query := u.Host, u.Query()
	if bucket == "" || u.User != nil {
		return nil, errors.New("want s3://BUCKET/PREFIX; credentials come from the environment, as for the AWS CLI")
	}
	if err := refuseUnknown(query, "region", "endpoint"); err != nil {
		return nil, err
	}
	settings, err := awsSettings(ctx, query.Get("region"))
	if err != nil {
		return nil, &RefusedError{fmt.Errorf("cannot read the profiles of AWS: %w", err)}
	}
	region, assumed := settings.Region, query.Get("region") == "" && !namesRegion(settings)
	base := &url.URL{Scheme: "https", Host: fmt.Sprintf("%s.s3.%s.amazonaws.com", bucket, region)}
	if strings.Contains(bucket, ".") { // the server's certificate is valid for only one level of names
		base = &url.URL{Scheme: "https", Host: fmt.Sprintf("s3.%s.amazonaws.com", region), Path: "/" + bucket}
	}
	if endpoint := cmp.Or(query.Get("endpoint"), cfg.Getenv("AWS_ENDPOINT_URL_S3"), cfg.Getenv("AWS_ENDPOINT_URL")); endpoint != "" {
		if !strings.Contains(endpoint, "://") {
			endpoint = "https://" + endpoint
		}
		at, err := url.Parse(endpoint)
		if err != nil || at.Host == "" || at.User != nil {
			return nil, errors.New("its endpoint is not the URL of a server, such as https://minio.example.com:9000")
		}
		if at.Scheme != "https" && !loopback(at.Hostname()) {
			return nil, errors.New("its endpoint is not https://: the state would be sent unencrypted")
		}
		base, assumed = at.JoinPath(bucket), false
	}
	signed := &signing{region: region, credentials: settings.Credentials}
	dressed := client(func(below http.RoundTripper) http.RoundTripper {
		signed.below = below
		return signed
	})
	if _, err := signed.keys(ctx); err != nil {
		return nil, err
	}
	server := openWeb(base.JoinPath(u.Path), dressed, nil)
	server.bucket = true
	if assumed {
		server.advice = "no region is set, so " + region + " was asked: give the region of the bucket, ?region=REGION, or set AWS_REGION"
	}
	return server, nil
}

// namesRegion reports whether the environment or a profile has a region.
func namesRegion(settings aws.Config) bool {
	for _, source := range settings.ConfigSources {
		switch from := source.(type) {
		case config.EnvConfig:
			if from.Region != "" {
				return true
			}
		case config.SharedConfig:
			if from.Region != "" {
				return true
			}
		}
	}
	return false
}

// awsSettings reads the variables and profiles of AWS. A given region takes precedence.
func awsSettings(ctx context.Context, region string) (aws.Config, error) {
	brief := awshttp.NewBuildableClient().WithTimeout(requestTime) // A source of credentials that does not exist here must not delay the run.
	return config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithDefaultRegion("us-east-1"), config.WithHTTPClient(brief),
		config.WithAssumeRoleCredentialOptions(func(o *stscreds.AssumeRoleOptions) {
			o.RoleSessionName = cmp.Or(o.RoleSessionName, "bootstrap")
			o.TokenProvider = func() (string, error) {
				return "", errors.New("mfa_serial wants a code that a person types: name a profile with a credential_process, or set the variables of a session, such as AWS_SESSION_TOKEN")
			}
		}),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) {
			o.Client = imds.New(imds.Options{}) // The default client finds out within seconds that this machine does not belong to AWS.
		}))
}

// signing signs requests with AWS signature version 4.
type signing struct {
	below       http.RoundTripper
	region      string
	credentials aws.CredentialsProvider
	ahead       atomic.Int64 // how far the server's clock is ahead of this machine's
}

func (s *signing) keys(ctx context.Context) (aws.Credentials, error) {
	keys, err := s.credentials.Retrieve(ctx)
	switch {
	case err == nil:
		return keys, nil
	case aws.IsCredentialsProvider(s.credentials, (*ec2rolecreds.Provider)(nil)): // the last source that is tried
		return keys, &RefusedError{errors.New("there are no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of ~/.aws, or log in with the AWS CLI")}
	}
	return keys, &RefusedError{fmt.Errorf("cannot find credentials for S3: %w", err)}
}

// maxSkew is the largest difference of clocks that S3 accepts.
const maxSkew = 5 * time.Minute

func (s *signing) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	answer, err := s.send(request, body)
	if err != nil || answer.StatusCode != http.StatusForbidden {
		return answer, err
	}
	// The server refuses a request that is too old or too new by its clock.
	there, err := http.ParseTime(answer.Header.Get("Date"))
	ahead := time.Until(there)
	if err != nil || (ahead-time.Duration(s.ahead.Load())).Abs() < maxSkew {
		return answer, nil
	}
	_ = answer.Body.Close()
	s.ahead.Store(int64(ahead))
	return s.send(request, body)
}

func (s *signing) send(request *http.Request, body []byte) (*http.Response, error) {
	keys, err := s.keys(request.Context())
	if err != nil {
		return nil, err
	}
	signed := request.Clone(request.Context())
	signed.Body, signed.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	digest := sha256.Sum256(body)
	payload := hex.EncodeToString(digest[:])
	signed.Header.Set("X-Amz-Content-Sha256", payload)
	now := time.Now().Add(time.Duration(s.ahead.Load()))
	err = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(request.Context(), keys, signed, payload, "s3", s.region, now)
	if err != nil {
		return nil, fmt.Errorf("cannot sign a request to S3: %w", err)
	}
	return s.below.RoundTrip(signed)
}
