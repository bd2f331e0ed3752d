package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/tunnel"
)

// wholeText is an error about a flag's value that already names the flag; other
// errors are printed after the flag's name and value.
type wholeText string

func (e wholeText) Error() string { return string(e) }

const day = 24 * time.Hour

// timeFlag is a time in Go's notation, such as 90s or 2h, optionally with days
// and weeks before it, such as 30d or 3w.
type timeFlag time.Duration

func (t *timeFlag) Type() string { return "TIME" }

func (t *timeFlag) String() string {
	d := time.Duration(*t)
	switch {
	case d == 0:
		return "0"
	case d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Set reads a time.
func (t *timeFlag) Set(text string) error {
	if _, err := strconv.ParseUint(text, 10, 64); err == nil && strings.Trim(text, "0") != "" {
		return errors.New("say the unit, for example 5m or 30s")
	}
	rest, sum := text, time.Duration(0)
	for _, unit := range []struct {
		letter string
		length time.Duration
	}{{"w", 7 * day}, {"d", day}} {
		number, after, found := strings.Cut(rest, unit.letter)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 63)
		if err != nil {
			return errNoTime
		}
		if n > uint64((math.MaxInt64-sum)/unit.length) {
			return errors.New("it is too long")
		}
		rest, sum = after, sum+time.Duration(n)*unit.length
	}
	if rest != "" || text == "" {
		d, err := time.ParseDuration(rest)
		switch {
		case err != nil || d < 0:
			return errNoTime
		case d > math.MaxInt64-sum:
			return errors.New("it is too long")
		}
		sum += d
	}
	*t = timeFlag(sum)
	return nil
}

var errNoTime = errors.New("a time is written as in 30s, 10m, 2h, 30d or 3w")

// linesFlag is the number of lines of a flag.
type linesFlag int

func (n *linesFlag) Type() string   { return "N" }
func (n *linesFlag) String() string { return strconv.Itoa(int(*n)) }

// Set reads the number.
func (n *linesFlag) Set(text string) error {
	number, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return wholeText(fmt.Sprintf("--tail takes a number of lines, for example --tail 20; %q is not a number", text))
	case number < 0:
		return errors.New("it takes a number of lines, for example --tail 20")
	}
	*n = linesFlag(number)
	return nil
}

// namesFlag contains names of environment variables.
type namesFlag []string

func (v *namesFlag) Type() string   { return "NAME" }
func (v *namesFlag) String() string { return strings.Join(*v, ",") }

// Set adds names separated by commas.
func (v *namesFlag) Set(list string) error {
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if !name.MatchString(one) {
			if before, _, found := strings.Cut(one, "="); found {
				one = before + "=…" // a value may be a secret
			}
			return wholeText(fmt.Sprintf("--pass-env takes names: %q is not the name of an environment variable", one))
		}
		*v = append(*v, one)
	}
	return nil
}

// maxCA limits the size of the CA file that a flag names.
const maxCA = 1 << 20

// fileFlag contains the content of the file that the flag names.
type fileFlag string

func (v *fileFlag) Type() string   { return "FILE" }
func (v *fileFlag) String() string { return "" }

// Set reads the file.
func (v *fileFlag) Set(path string) error {
	data, err := readBounded(path, maxCA, pipeTime)
	*v = fileFlag(data)
	return err
}

// pipeTime limits how long reading a pipe that a flag names may take.
const pipeTime = time.Minute

// readBounded reads a file of at most max bytes. If it is a pipe, it waits at
// most wait for the end; a pipe that no process writes to is empty.
func readBounded(path string, max int64, wait time.Duration) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlocking, 0)
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // the callers name the file
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("it is a folder")
	}
	_ = f.SetReadDeadline(time.Now().Add(wait)) // only pipes have deadlines
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it is a pipe that did not end within %v", wait)
	}
	if err == nil && int64(len(data)) > max {
		err = fmt.Errorf("it is larger than the limit of %d MiB", max>>20)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// pairsFlag contains NAME=VALUE pairs. A text without = may be a secret value,
// so errors do not repeat it.
type pairsFlag struct {
	list *[]string
	flag string // as people write it
	want string
}

func (v pairsFlag) Type() string   { return v.want }
func (v pairsFlag) String() string { return "" }

// Set adds a pair.
func (v pairsFlag) Set(text string) error {
	name, value, found := strings.Cut(text, "=")
	if !found || name == "" || v.want == "NAME=PATH" && value == "" {
		return wholeText(fmt.Sprintf("%s number %d: write it as %s, for example %s", v.flag, len(*v.list)+1, v.want, v.example()))
	}
	*v.list = append(*v.list, text)
	return nil
}

func (v pairsFlag) example() string {
	if v.want == "NAME=PATH" {
		return v.flag + " ca=ca.pem"
	}
	return v.flag + " region=eu-1"
}

// viaValue contains URLs of jumpboxes.
type viaValue []string

func (v *viaValue) Type() string   { return "URL" }
func (v *viaValue) String() string { return "" }

// Set adds URLs separated by commas. Errors do not repeat passwords.
func (v *viaValue) Set(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		if tunnel.IsVia(one) {
			continue
		}
		shown := ""
		if !strings.ContainsAny(one, "@?") {
			shown = fmt.Sprintf(" %q", strings.TrimSpace(one))
		}
		return wholeText(fmt.Sprintf("--via%s: expected ssh://user@host[:port][?private-key=PATH], several with commas between them", shown))
	}
	*v = append(*v, text)
	return nil
}

// databaseFlag is where the ledger of addresses is: an absolute path or a
// postgres:// URL, perhaps with a password.
type databaseFlag string

func (v *databaseFlag) Type() string   { return "PATH" }
func (v *databaseFlag) String() string { return "" }

// Set takes the path or the URL.
func (v *databaseFlag) Set(text string) error {
	scheme, _, isURL := strings.Cut(text, "://")
	switch {
	case scheme == "postgres" || scheme == "postgresql":
	case isURL:
		return wholeText("--database: expected a path, or postgres://user@host/database")
	case text != "":
		path, err := filepath.Abs(text)
		if err != nil {
			return err
		}
		text = path
	}
	*v = databaseFlag(text)
	return nil
}

// mbusFlag is the URL of an agent, with its password.
type mbusFlag string

func (v *mbusFlag) Type() string   { return "URL" }
func (v *mbusFlag) String() string { return "" }

// Set takes the URL.
func (v *mbusFlag) Set(text string) error {
	if u, err := url.Parse(text); text != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "") {
		return wholeText("--old-mbus: expected https://USER:PASSWORD@HOST:PORT")
	}
	*v = mbusFlag(text)
	return nil
}

// varsFilesFlag contains paths of variables files. For the path - it reads
// standard input.
type varsFilesFlag struct {
	inputs *document.Options
	stdin  io.Reader
}

// maxVars limits the size of variables on standard input.
const maxVars = 64 << 20

func (v *varsFilesFlag) Type() string   { return "FILE" }
func (v *varsFilesFlag) String() string { return "" }

// Set adds a path.
func (v *varsFilesFlag) Set(path string) error {
	if path == "-" {
		if slices.Contains(v.inputs.VarsFiles, path) {
			return wholeText("-l - can be given once: standard input is read only once")
		}
		data, err := io.ReadAll(io.LimitReader(v.stdin, maxVars+1))
		switch {
		case err != nil:
			return wholeText(fmt.Sprintf("-l -: cannot read standard input: %v", document.Cause(err)))
		case len(data) > maxVars:
			return wholeText(fmt.Sprintf("-l -: standard input is larger than the limit of %d MiB", maxVars>>20))
		}
		v.inputs.Piped = data
	}
	v.inputs.VarsFiles = append(v.inputs.VarsFiles, path)
	return nil
}

// watchFlag is a range of times in milliseconds.
type watchFlag struct{ to **manifest.WatchTime }

func (v watchFlag) Type() string   { return "RANGE" }
func (v watchFlag) String() string { return "" }

// Set takes the range.
func (v watchFlag) Set(text string) error {
	watch, err := manifest.ParseWatchTime(text)
	if err != nil {
		return wholeText(fmt.Sprintf("--update-watch-time: %q %v; write two times in milliseconds, such as 30000-300000", text, err))
	}
	*v.to = &watch
	return nil
}
