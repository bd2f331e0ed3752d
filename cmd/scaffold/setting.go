package scaffold

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// kind is the kind of a setting's value, and decides in which file it is kept.
type kind string

const (
	text     kind = "text"
	list     kind = "list"     // texts
	secret   kind = "secret"   // kept in secrets.yml
	file     kind = "file"     // the content of a file, which bootstrap.yml names
	optional kind = "optional" // a text; without it, its operations file is not used
)

// setting is a variable that differs from person to person.
type setting struct {
	name     string
	kind     kind
	standard string // proposed value; empty: none
	about    string // may be empty: the setting belongs to the previous one
}

// settings returns the settings of the manifest for a provider and a purpose.
func (r *Request) settings() (all []*setting) {
	if r.Purpose == director {
		all = append(all, &setting{"director_name", text, r.Name, "Name of the Director."})
	}
	for _, line := range lines(r.part("settings")) {
		f := fields(line, 5)
		s := &setting{f[0], kind(f[1]), f[2], f[3]}
		if f[4] != "" && f[4] != r.Purpose || s.kind == optional && r.Purpose == director {
			continue
		}
		all = append(all, s)
	}
	return all
}

// proposed returns the proposed value of a setting; empty: none. If another range or
// region is given, an address or a zone has the same position there.
func (r *Request) proposed(s *setting) string {
	of := map[string]string{"internal_gw": "internal_cidr", "internal_ip": "internal_cidr", "az": "region"}[s.name]
	given := r.values[of]
	if r.Provider == "local" && s.isPort() {
		return r.shifted(s.standard)
	}
	if given == "" {
		return s.standard
	}
	for _, other := range r.settings() {
		switch {
		case other.name != of || other.standard == given:
		case s.name != "az":
			return samePlace(s.standard, other.standard, given)
		case strings.HasPrefix(s.standard, other.standard): // us-east-1a of us-east-1
			return given + strings.TrimPrefix(s.standard, other.standard)
		}
	}
	return s.standard
}

// check returns an error if a value should be an address or a range, and is not. Empty
// values and values with variables are not checked.
func (s *setting) check(value string) error {
	if value == "" || strings.Contains(value, "((") {
		return nil
	}
	switch s.name {
	case "internal_cidr":
		if _, err := netip.ParsePrefix(value); err != nil {
			return refuse("%s: %q is not a range such as %s", s.name, value, s.standard)
		}
	case "internal_gw", "internal_ip", "external_ip":
		if _, err := netip.ParseAddr(value); err != nil {
			return refuse("%s: %q is not an IP address", s.name, value)
		}
	}
	return nil
}

// samePlace returns the address in another range at the position of the given address in
// its own range; empty: there is none.
func samePlace(address, in, other string) string {
	at, err := netip.ParseAddr(address)
	from, err2 := netip.ParsePrefix(in)
	to, err3 := netip.ParsePrefix(other)
	if cmp.Or(err, err2, err3) != nil || !to.Addr().Is4() {
		return ""
	}
	a, b, c := at.As4(), from.Masked().Addr().As4(), to.Masked().Addr().As4()
	place := binary.BigEndian.Uint32(a[:]) - binary.BigEndian.Uint32(b[:])
	binary.BigEndian.PutUint32(c[:], binary.BigEndian.Uint32(c[:])+place)
	if found := netip.AddrFrom4(c); to.Contains(found) {
		return found.String()
	}
	return ""
}

// bare matches texts that need no quotes in YAML.
var bare = regexp.MustCompile(`^([A-Za-z/]|[0-9]+\.[0-9]+\.[0-9])[-A-Za-z0-9_./@]*(:[-A-Za-z0-9_./@]+)*( [A-Za-z0-9][-A-Za-z0-9_./@]*)*$`)

// scalar returns a text as YAML.
func scalar(value string) string {
	word := slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, strings.ToLower(value))
	if bare.MatchString(value) && !word {
		return value
	}
	quoted, _ := json.Marshal(value) // A text can always be encoded, and YAML reads JSON's escapes.
	return string(quoted)
}

// yaml returns the value of a setting as YAML. YAML from the person, as for --var, is
// unchanged. A secret is always a text, even if it has only digits.
func (s *setting) yaml(value string) string {
	value = strings.TrimSpace(value)
	switch {
	case s.kind == secret:
		return scalar(value)
	case s.kind == list && !strings.HasPrefix(value, "["):
		items := strings.Split(value, ",")
		for i, item := range items {
			items[i] = scalar(strings.TrimSpace(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case s.kind == list, value == "true", value == "false", plainNumber.MatchString(value):
		return value
	}
	return scalar(value)
}

var plainNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// varsFile returns a file with the values of the settings that are kept in it. A setting
// without a value becomes a comment.
func (r *Request) varsFile(head string, of func(*setting) bool) string {
	var b strings.Builder
	b.WriteString(head)
	for _, s := range r.settings() {
		if !of(s) {
			continue
		}
		if s.about != "" {
			fmt.Fprintf(&b, "\n# %s\n", strings.Join(wrapped(s.about, commentWidth), "\n# "))
		}
		if value := r.values[s.name]; value != "" {
			fmt.Fprintf(&b, "%s: %s\n", s.name, s.yaml(value))
		} else {
			fmt.Fprintf(&b, "# %s:\n", s.name)
		}
	}
	return b.String()
}

// commentWidth is the largest number of characters in a line of a comment, without its
// mark.
const commentWidth = 94

// wrapped returns a text as lines of at most that many characters.
func wrapped(text string, width int) (list []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			list, line = append(list, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(list, line)
}
