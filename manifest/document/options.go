package document

import (
	"context"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/sealed"
)

// Options are the inputs of an evaluation besides the document: operations,
// which are applied first, and variables. Paths may begin with ~.
type Options struct {
	Ops []string // operations files, in their order
	// CloudConfigs are the files of the cloud config, which replace those that the
	// manifest names; together they are one cloud config.
	CloudConfigs []string
	// CloudProvider is a file with the section cloud_provider for a manifest without one,
	// and with the releases, variables and settings of agents for it; empty: none.
	CloudProvider string
	// RuntimeConfigs are files with addons, and with releases, variables and tags, which
	// are added to the manifest in this order.
	RuntimeConfigs []string
	Vars           []string // NAME=VALUE
	VarFiles       []string // NAME=PATH of a file with the value
	VarsFiles      []string // YAML files of names and values
	VarsEnv        []string // prefixes of environment variables: PREFIX_name=VALUE
	Environ        []string // the environment, as KEY=VALUE
	VarsStore      string   // file with generated values; empty: none
	// Keys decrypt the vars store, and have the recipients for a new one; nil: no keys.
	Keys *sealed.Keys
	// SaveStore keeps the vars store in place of writing the file, always encrypted.
	// It is called before the new values are used; nil: the file is written.
	SaveStore  func(ctx context.Context, sealed []byte) error
	StoreName  string // the vars store in messages; empty: VarsStore
	StoreState string // the store of a team in the form of --state, for SaveStore
	// FlagsFile is a file with the flags of an environment; only its variables are read
	// here, and Vars replace them. Empty: none.
	FlagsFile  string
	Generate   Mode     // what to do with variables without a value
	VarSources []string // sources of values, as package manifest/source reads them
	PassEnv    []string // names of environment variables that are passed to programs
	// Ask asks the sources for variables that have no value otherwise; nil: there are
	// no sources. Its error names the source that failed.
	Ask func(ctx context.Context, names []string) (Answers, error)
	// Sources are where releases and stemcells without a URL are looked for, as package
	// catalog reads them.
	Sources Sources
	// Find gives them their URLs, after variables are filled in; nil: nothing does. It
	// reports problems in the document; its error ends the evaluation. If look is false,
	// the document is wrong already: Find looks for nothing, and URLs that it would have
	// looked for become pending.
	Find func(ctx context.Context, top Value, look bool) error
	// StemcellOS returns the operating system that the archive of a stemcell on this machine
	// names; empty: unknown. nil: archives are not read.
	StemcellOS func(ctx context.Context, path string) string
	// Recorded is evaluated in place of the document at the path: operations, configs and
	// given values of these options are not used. nil: there is none.
	Recorded *Recorded
	// Kind is what Read reads, FleetKind; empty: a manifest.
	Kind string
	// Several is true if the document describes instances of a deployment with several,
	// even if it has only one: variables with scope: instance have no value before
	// Document.For. Documents with several instances are recognized without it.
	Several bool
	// LinkNames returns the names of links that certificates consume, in the order of the
	// wishes; nil: they are unknown, and such certificates are not generated. It may read
	// the document again with the mode Plan and without LinkNames.
	LinkNames func(ctx context.Context, wishes []LinkWish) ([]LinkNames, error)
	// CheckLinks also compares stored certificates with the names of their links.
	CheckLinks bool
	// Instances are the instances of the deployment, for Variables and Rotate.
	Instances []Instance
	// ExpiryWarning is how long before its expiry a stored certificate gets a
	// warning; 0 means 30 days.
	ExpiryWarning time.Duration
	// Lenient is for commands that create no VM: wrong certificates of the agent are
	// warnings, not errors.
	Lenient bool
	Stdin   io.Reader
	Piped   []byte // content of standard input, for the variables file -
	// PipedLast makes the values of standard input replace all other ones.
	PipedLast bool
	// Pipes keeps the contents of pipes and of Stdin for further evaluations with the same
	// files; nil: there are none.
	Pipes *Pipes
	// Generating is called before variables get generated values, or are planned to. It
	// gets their names, and whether the vars store exists. Its error ends the evaluation,
	// and nothing is written; may be nil.
	Generating func(ctx context.Context, names []string, exists bool) error
	// Waiting is called before the evaluation waits for keys of variables. It gets the
	// document with variables that are not filled in; may be nil.
	Waiting func(top Value)
}

// Pipe returns the first of the document at path and the files of the options that is a
// pipe, which can be read only once; empty: none of them is.
func (o Options) Pipe(path string) string {
	files := slices.Concat([]string{path, o.CloudProvider}, o.Ops, o.CloudConfigs, o.RuntimeConfigs, o.VarsFiles)
	for _, arg := range o.VarFiles {
		_, file, _ := strings.Cut(arg, "=")
		files = append(files, file)
	}
	for _, file := range files {
		expanded, err := ExpandHome(file)
		if err != nil {
			continue
		}
		if info, err := os.Stat(expanded); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
			return file
		}
	}
	return ""
}

// Sources are the places of releases and stemcells, NAME=SOURCE each, and the lock file,
// which keeps the versions that were found; empty: the one beside the manifest.
type Sources struct {
	Releases, Stemcells []string
	// Links are the stores of deployments whose links are used, NAME=ADDRESS each, with
	// #FINGERPRINT of its state key.
	Links    []string
	LockFile string
}
