// Package values has the types of flags. Each parses the text of the command line, and
// its errors do not repeat secrets.
package values

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bootstrap/internal/number"
	"bootstrap/internal/sealed"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/manifest/source"
)

// Refusal is an error about a flag's value that already names the flag; other
// errors are printed after the flag's name and value.
type Refusal string

// Error returns the text.
func (e Refusal) Error() string { return string(e) }

// Lines is the number of lines of a flag.
type Lines int

// mostLines is the largest number of lines.
const mostLines = 1_000_000

// Type returns the word for the value in help texts.
func (n *Lines) Type() string { return "N" }

// String returns the default for help texts.
func (n *Lines) String() string { return strconv.Itoa(int(*n)) }

// Set reads the number.
func (n *Lines) Set(text string) error {
	if digits := strings.TrimLeft(text, "+-"); digits == "" || strings.Trim(digits, "0123456789") != "" {
		return Refusal(fmt.Sprintf("--tail takes a number of lines, for example --tail 20; %q is not a number", text))
	}
	lines, err := number.Bound{Most: mostLines}.Text(text)
	if err != nil {
		return fmt.Errorf("it takes a number of lines of at most %d, for example --tail 20", mostLines)
	}
	*n = Lines(lines)
	return nil
}

// Whole is a whole number within a bound.
type Whole struct {
	To    *int
	Bound number.Bound
}

// Type returns the word for the value in help texts.
func (Whole) Type() string { return "N" }

// String returns the default for help texts.
func (w Whole) String() string {
	if w.To == nil { // pflag calls it on an empty value
		return "0"
	}
	return strconv.Itoa(*w.To)
}

// Set reads the number.
func (w Whole) Set(text string) error {
	n, err := w.Bound.Text(text)
	if err != nil {
		return fmt.Errorf("it must be a whole number %s", w.Bound)
	}
	*w.To = n
	return nil
}

// Group is the name of a group of deployments.
type Group string

// longestGroup limits the name of a group.
const longestGroup = 100

// Type returns the word for the value in help texts.
func (g *Group) Type() string { return "NAME" }

// String returns the default for help texts.
func (g *Group) String() string { return string(*g) }

// Set checks the name.
func (g *Group) Set(text string) error {
	if len(text) > longestGroup || !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`).MatchString(text) {
		return errors.New("a name begins with a letter or a digit, and has only letters, digits, dots, hyphens and underscores, 100 at most")
	}
	*g = Group(text)
	return nil
}

// Compile says where packages are compiled: local, or local=SOURCE with the stemcell.
type Compile string

// Type returns the word for the value in help texts.
func (c *Compile) Type() string { return "PLACE" }

// String returns the default for help texts.
func (c *Compile) String() string { return string(*c) }

// Set checks the place.
func (c *Compile) Set(text string) error {
	if place, source, given := strings.Cut(text, "="); place != "local" || given && source == "" {
		return errors.New("want local, or local=SOURCE with a stemcell for warden: a file, a folder, an index or a URL")
	}
	*c = Compile(text)
	return nil
}

// Names contains names of environment variables.
type Names []string

// Type returns the word for the value in help texts.
func (v *Names) Type() string { return "NAME" }

// String returns the default for help texts.
func (v *Names) String() string { return strings.Join(*v, ",") }

// Set adds names separated by commas.
func (v *Names) Set(list string) error {
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if !name.MatchString(one) {
			if before, _, found := strings.Cut(one, "="); found {
				one = before + "=…" // a value may be a secret
			}
			return Refusal(fmt.Sprintf("--pass-env takes names: %q is not the name of an environment variable", one))
		}
		*v = append(*v, one)
	}
	return nil
}

// Instances are names of instances and groups, separated by commas.
type Instances string

// Type returns the word for the value in help texts.
func (v *Instances) Type() string { return "INSTANCE" }

// String returns the default for help texts.
func (v *Instances) String() string { return string(*v) }

// Set adds names separated by commas.
func (v *Instances) Set(list string) error {
	for one := range strings.SplitSeq(list, ",") {
		group, which, slash := strings.Cut(one, "/")
		if group == "" || slash && which == "" || strings.Contains(which, "/") {
			return Refusal(fmt.Sprintf("--instance %s: expected GROUP, GROUP/INDEX or GROUP/ID", list))
		}
	}
	if *v != "" {
		list = string(*v) + "," + list
	}
	*v = Instances(list)
	return nil
}

// Recipients is a list of public keys, to which files are encrypted.
type Recipients struct {
	To   *[]string
	Flag string
}

// Type returns the word for the value in help texts.
func (v Recipients) Type() string { return "RECIPIENT" }

// String returns the default for help texts.
func (v Recipients) String() string { return "" }

// Set adds a recipient, or those in a file.
func (v Recipients) Set(word string) error {
	if expanded, err := document.ExpandHome(word); err == nil {
		word = expanded
	}
	list, err := sealed.Recipients(word)
	if err != nil {
		return Refusal(v.Flag + ": " + err.Error())
	}
	*v.To = append(*v.To, list...)
	return nil
}

// Sources contains sources of values, as package source reads them.
type Sources []string

// Type returns the word for the value in help texts.
func (v *Sources) Type() string { return "SOURCE" }

// String returns the default for help texts.
func (v *Sources) String() string { return strings.Join(*v, ",") }

// Set adds a source.
func (v *Sources) Set(text string) error {
	if err := source.Check(text); err != nil {
		return Refusal("--var-source: " + err.Error()) // without the text, which may have a password
	}
	*v = append(*v, text)
	return nil
}

// Pairs contains NAME=VALUE pairs. A text without = may be a secret value,
// so errors do not repeat it.
type Pairs struct {
	List *[]string
	Flag string // the flag as people write it
	Want string // NAME=VALUE, NAME=PATH, NAME=SOURCE, NAME=URL or OS=SOURCE
}

// Type returns the word for the value in help texts.
func (v Pairs) Type() string { return v.Want }

// String returns the default for help texts.
func (v Pairs) String() string { return "" }

// Set adds a pair.
func (v Pairs) Set(text string) error {
	name, value, found := strings.Cut(text, "=")
	if !found || name == "" || v.Want != "NAME=VALUE" && value == "" {
		return Refusal(fmt.Sprintf("%s number %d: write it as %s, for example %s", v.Flag, len(*v.List)+1, v.Want, v.example()))
	}
	*v.List = append(*v.List, text)
	return nil
}

func (v Pairs) example() string {
	if v.Want == "NAME=PATH" {
		return v.Flag + " ca=ca.pem"
	}
	if v.Want == "NAME=SOURCE" {
		return v.Flag + " zookeeper=../releases"
	}
	if v.Want == "NAME=URL" {
		return v.Flag + " data=s3://team-states/data"
	}
	if v.Want == "OS=SOURCE" {
		return v.Flag + " ubuntu-jammy=../stemcells"
	}
	return v.Flag + " region=eu-1"
}

// MBus is the URL of an agent, with its password.
type MBus string

// Type returns the word for the value in help texts.
func (v *MBus) Type() string { return "URL" }

// String returns the default for help texts.
func (v *MBus) String() string { return "" }

// Set reads the URL.
func (v *MBus) Set(text string) error {
	if u, err := url.Parse(text); text != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "") {
		return Refusal("--old-mbus: expected https://USER:PASSWORD@HOST:PORT")
	}
	*v = MBus(text)
	return nil
}

// VarsFiles contains paths of variables files. For the path - it reads
// standard input.
type VarsFiles struct {
	Inputs *document.Options
	Stdin  io.Reader
}

// maxVars limits the size of variables on standard input.
const maxVars = 64 << 20

// Type returns the word for the value in help texts.
func (v *VarsFiles) Type() string { return "FILE" }

// String returns the default for help texts.
func (v *VarsFiles) String() string { return "" }

// Set adds a path.
func (v *VarsFiles) Set(path string) error {
	if path == "-" {
		if slices.Contains(v.Inputs.VarsFiles, path) {
			return Refusal("-l - can be given once: standard input is read only once")
		}
		data, err := io.ReadAll(io.LimitReader(v.Stdin, maxVars+1))
		switch {
		case err != nil:
			return Refusal(fmt.Sprintf("-l -: cannot read standard input: %v", document.Cause(err)))
		case len(bytes.TrimSpace(data)) == 0: // the writer was killed, or wrote nothing
			return Refusal("-l -: standard input is empty; write {} if there are no variables")
		case len(data) > maxVars:
			return Refusal(fmt.Sprintf("-l -: standard input is larger than the limit of %d MiB", maxVars>>20))
		}
		v.Inputs.Piped = data
	}
	v.Inputs.VarsFiles = append(v.Inputs.VarsFiles, path)
	return nil
}

// Watch is a range of times in milliseconds.
type Watch struct{ To **manifest.WatchTime }

// Type returns the word for the value in help texts.
func (v Watch) Type() string { return "RANGE" }

// String returns the default for help texts.
func (v Watch) String() string { return "" }

// Set reads the range.
func (v Watch) Set(text string) error {
	watch, err := manifest.ParseWatchTime(text)
	if err != nil {
		return Refusal(fmt.Sprintf("--update-watch-time: %q %v; write two times in milliseconds, such as 30000-300000", text, err))
	}
	*v.To = &watch
	return nil
}

// Choice is one of some words.
type Choice struct {
	To *string
	Of []string // the first is the default
}

// Type returns the word for the value in help texts.
func (Choice) Type() string { return "WORD" }

// String returns the word, or the default.
func (c Choice) String() string {
	if c.To == nil { // pflag calls it on an empty value
		return ""
	}
	return cmp.Or(*c.To, c.Of[0])
}

// Set accepts one of the words.
func (c Choice) Set(text string) error {
	if !slices.Contains(c.Of, text) {
		last := len(c.Of) - 1
		return fmt.Errorf("expected %s or %s", strings.Join(c.Of[:last], ", "), c.Of[last])
	}
	*c.To = text
	return nil
}

// Share is a number of instances or a percentage of them, such as 2 or 50%.
type Share struct{ To *string }

// Type returns the word for the value in help texts.
func (Share) Type() string { return "NUMBER" }

// String returns the text as it was given.
func (s Share) String() string {
	if s.To == nil { // pflag calls it on an empty value
		return ""
	}
	return *s.To
}

// Set accepts a whole number, or a percentage up to 100%.
func (s Share) Set(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || percent && n > 100 || strings.HasPrefix(number, "+") {
		return errors.New("expected a number of instances or a percentage up to 100%, such as 2 or 50%")
	}
	*s.To = text
	return nil
}
