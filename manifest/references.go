package manifest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bootstrap/internal/spelling"
	"bootstrap/manifest/document"
)

// plainName is a name that needs no quotes in a message.
var plainName = regexp.MustCompile(`^[-_0-9A-Za-z]+$`)

// names collects the names that other parts of the manifest may refer to.
type names struct {
	list []string
	open bool // some names are unknown, because they contain variables
}

// add adds the name that was read from c.
func (n *names) add(c document.Value, name string, ok bool) {
	if ok {
		n.list = append(n.list, name)
	}
	n.open = n.open || c.Pending()
}

// check reports a reference to an unknown name. what is the kind of the named object,
// with an article; where is the list of these objects.
func (n *names) check(c document.Value, name, what, where string) {
	n.checkAs(c, name, what, where, "")
}

// checkAs is check with the Director's name of the error.
func (n *names) checkAs(c document.Value, name, what, where, kind string) {
	if n.open || slices.Contains(n.list, name) {
		return
	}
	known := ", which is empty"
	if len(n.list) > 0 {
		shown := make([]string, len(n.list))
		for i, option := range n.list {
			shown[i] = option
			if !plainName.MatchString(option) {
				shown[i] = strconv.Quote(option)
			}
		}
		known = ": " + strings.Join(shown, ", ")
	}
	if kind != "" {
		kind = " (" + kind + ")"
	}
	c.Fail("must be the name of %s in %s%s, but is %q%s%s", what, where, known, name, spelling.Suggest(name, n.list), document.Literal(kind))
}
