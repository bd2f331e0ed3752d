package team

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"gopkg.in/ini.v1"
)

// profiles are the profiles of the programs of AWS, from ~/.aws/config and
// ~/.aws/credentials. https://docs.aws.amazon.com/cli/latest/topic/config-vars.html
type profiles struct {
	getenv              func(string) string
	config, credentials *ini.File
}

// readProfiles reads the files; those that do not exist are empty.
func readProfiles(getenv func(string) string) (*profiles, error) {
	folder := filepath.Join(cmp.Or(getenv("HOME"), getenv("USERPROFILE")), ".aws")
	p := &profiles{getenv: getenv}
	var errs [2]error
	loose := ini.LoadOptions{Loose: true, SkipUnrecognizableLines: true}
	p.config, errs[0] = ini.LoadSources(loose, cmp.Or(getenv("AWS_CONFIG_FILE"), filepath.Join(folder, "config")))
	p.credentials, errs[1] = ini.LoadSources(loose, cmp.Or(getenv("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(folder, "credentials")))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, &RefusedError{fmt.Errorf("cannot read the profiles of AWS: %w", err)}
	}
	return p, nil
}

// chosen returns the name of the profile that the environment names.
func (p *profiles) chosen() string {
	return cmp.Or(p.getenv("AWS_PROFILE"), p.getenv("AWS_DEFAULT_PROFILE"), "default")
}

// get returns what a profile says of a key; empty: nothing.
func (p *profiles) get(profile, key string) string {
	section := "profile " + profile
	if profile == "default" {
		section = profile
	}
	return strings.TrimSpace(cmp.Or(p.credentials.Section(profile).Key(key).String(), p.config.Section(section).Key(key).String()))
}

// mostRoles is how many profiles may name each other as their source.
const mostRoles = 5

// role returns the credentials of the role of a profile, for at most so many profiles that
// are its sources; nil: the profile has no role. STS gives them to who may assume the role.
func (p *profiles) role(profile, region string, most int) (credentials.Provider, error) {
	arn := p.get(profile, "role_arn")
	if arn == "" || p.get(profile, "web_identity_token_file") != "" {
		return nil, nil
	}
	refuse := func(format string, args ...any) (credentials.Provider, error) {
		return nil, &RefusedError{fmt.Errorf("the profile %s of AWS: "+format, append([]any{profile}, args...)...)}
	}
	if most == 0 {
		return refuse("too many profiles are the source of each other")
	}
	if p.get(profile, "mfa_serial") != "" {
		return refuse("mfa_serial wants a code that a person types: name a profile with a credential_process, or set the variables of a session, such as AWS_SESSION_TOKEN")
	}
	role := &assumed{STSAssumeRole: credentials.STSAssumeRole{
		STSEndpoint: cmp.Or(p.getenv("AWS_ENDPOINT_URL_STS"), p.getenv("AWS_ENDPOINT_URL"), fmt.Sprintf("https://sts.%s.amazonaws.com", region)),
		Options: credentials.STSAssumeRoleOptions{
			Location:        region,
			RoleARN:         arn,
			RoleSessionName: cmp.Or(p.getenv("AWS_ROLE_SESSION_NAME"), p.get(profile, "role_session_name"), "bootstrap"),
			ExternalID:      p.get(profile, "external_id"),
		},
	}}
	if text := p.get(profile, "duration_seconds"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds <= 0 {
			return refuse("duration_seconds is %q, not a number of seconds", text)
		}
		role.Options.DurationSeconds = seconds
	}
	source, kind := p.get(profile, "source_profile"), p.get(profile, "credential_source")
	switch {
	case source != "" && source != profile:
		first, err := p.role(source, region, most-1)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = &credentials.FileAWSCredentials{Profile: source}
		}
		role.source = credentials.New(first)
	case source != "": // keys of its own
		role.source = credentials.New(&credentials.FileAWSCredentials{Profile: source})
	case kind == "Environment":
		role.source = credentials.New(&credentials.EnvAWS{})
	case kind == "Ec2InstanceMetadata", kind == "EcsContainer":
		role.source = credentials.New(&credentials.IAM{Region: region})
	default:
		return refuse("role_arn wants a source_profile, or a credential_source: Environment, Ec2InstanceMetadata or EcsContainer; it has %q", kind)
	}
	return role, nil
}

// assumed are the credentials of a role, which STS gives to those of a source.
type assumed struct {
	credentials.STSAssumeRole
	source *credentials.Credentials
}

// RetrieveWithCredContext asks for new credentials.
func (a *assumed) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	from, err := a.source.GetWithContext(cc)
	if err != nil {
		return credentials.Value{}, err
	}
	o := &a.Options
	o.AccessKey, o.SecretKey, o.SessionToken = from.AccessKeyID, from.SecretAccessKey, from.SessionToken
	value, err := a.STSAssumeRole.RetrieveWithCredContext(cc)
	if err != nil {
		return value, fmt.Errorf("cannot assume the role %s: %w", o.RoleARN, err)
	}
	return value, nil
}

// Retrieve asks for new credentials.
func (a *assumed) Retrieve() (credentials.Value, error) { return a.RetrieveWithCredContext(nil) }
