package scaffold

import (
	"embed"
	"strings"
	"text/template"
)

//go:embed templates/*.txt
var templates embed.FS

// sections are the parts of a template, by the name on the line before them: "-- NAME
// --".
type sections map[string]string

// read returns the parts of a template; none if there is no such template.
func read(name string) sections {
	text, err := templates.ReadFile("templates/" + name + ".txt")
	if err != nil {
		return nil
	}
	found, name := sections{}, ""
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(rest, " --\n") {
			name = strings.TrimSuffix(rest, " --\n")
			found[name] = ""
			continue
		}
		found[name] += line
	}
	return found
}

// part returns a part: the provider's for the purpose, or the provider's, or the
// purpose's, or the common template's.
func (r *Request) part(name string) string {
	provider := read(r.Provider)
	for _, in := range []struct {
		sections
		name string
	}{{provider, name + " " + r.Purpose}, {provider, name}, {read(r.Purpose), name}, {read("machine"), name}} {
		if text, ok := in.sections[in.name]; ok {
			return text
		}
	}
	return ""
}

// filled fills in a part of a template with text/template.
func filled(text string, functions template.FuncMap, data any) (string, error) {
	t, err := template.New("").Funcs(functions).Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, data)
	return b.String(), err
}

// lines returns the lines of a part, without empty ones.
func lines(text string) (list []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// fields returns the parts of a line between its bars.
func fields(line string, n int) []string {
	list := strings.SplitN(line, "|", n)
	for len(list) < n {
		list = append(list, "")
	}
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}
