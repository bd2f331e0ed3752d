//go:build unix

package secrets

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/cmd/cli"
	"bootstrap/internal/sealed"
)

// person is somebody with a home and a folder of their own.
type person struct {
	home, dir string
	asked     []string // passphrases that were requested
}

func newPerson(t *testing.T) *person {
	t.Helper()
	dir := t.TempDir()
	p := &person{home: filepath.Join(dir, "home"), dir: filepath.Join(dir, "work")}
	for _, folder := range []string{p.home, p.dir} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// keys returns the keys of the person for a new process.
func (p *person) keys(recipients ...string) *sealed.Keys {
	return &sealed.Keys{
		Recipients: recipients, Usual: []string{filepath.Join(p.home, ".config", "bootstrap", "identity.txt")},
		Passphrase: func(_ context.Context, what string, confirm bool) (string, error) {
			line := what
			if confirm {
				line += ", twice"
			}
			p.asked = append(p.asked, line)
			return "correct horse", nil
		},
	}
}

func (p *person) path(name string) string { return filepath.Join(p.dir, name) }

func (p *person) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// files returns the content of the files in the person's folder, without locks.
func (p *person) files(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".lock") {
			continue
		}
		data, _ := os.ReadFile(p.path(e.Name()))
		files[e.Name()] = string(data)
	}
	return files
}

func (p *person) names(t *testing.T) string {
	t.Helper()
	return strings.Join(slices.Sorted(maps.Keys(p.files(t))), " ")
}

// private fails the test unless only the owner can read the file.
func private(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
		t.Errorf("%s: %v, %v", path, info, err)
	}
}

func (p *person) decrypted(t *testing.T, name string) string {
	t.Helper()
	text, err := Decrypt(t.Context(), Place{Path: p.path(name)}, p.keys())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (p *person) init(t *testing.T, name string, recipients ...string) *Result {
	t.Helper()
	r, err := Init{Store: p.path(name), Keys: p.keys(recipients...)}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Init makes an identity and an encrypted vars store, which only their owner can read.
// The identity is made only once.
func TestInit(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	r := p.init(t, "creds.yml")
	identity := filepath.Join(p.home, ".config", "bootstrap", "identity.txt")
	private(t, identity, 0o600)
	private(t, filepath.Dir(identity), 0o700)
	private(t, p.path("creds.yml.age"), 0o600)
	if p.names(t) != "creds.yml.age" || p.decrypted(t, "creds.yml.age") != empty {
		t.Errorf("files %s", p.names(t))
	}
	if r.Store != p.path("creds.yml.age") || r.Identity != identity || !strings.HasPrefix(r.Recipient, "age1") || !slices.Equal(r.Recipients, []string{r.Recipient}) || !r.Changed {
		t.Errorf("result %+v", r)
	}
	if text := r.Text(); !strings.Contains(text, "Made the identity "+identity) || !strings.Contains(text, "encrypted for 1 recipient\n") || strings.Contains(text, "AGE-SECRET-KEY") {
		t.Errorf("printed %s", text)
	}
	again := p.init(t, "other.yml.age")
	if again.Recipient != r.Recipient || !strings.Contains(again.Text(), "Using the identity "+identity) || p.names(t) != "creds.yml.age other.yml.age" {
		t.Errorf("the second time: %+v; files %s", again, p.names(t))
	}
	if only, err := (Init{Keys: p.keys()}).Run(t.Context()); err != nil || only.Changed || only.Store != "" || only.Recipient != r.Recipient {
		t.Errorf("without a vars store: %+v, %v", only, err)
	}
}

// An existing vars store is encrypted; then it and its copy are removed, and the
// bootstrap.yml beside it names the new file.
func TestInitEncrypts(t *testing.T) {
	t.Parallel()
	p, anna := newPerson(t), newPerson(t)
	theirs := anna.init(t, "x.yml").Recipient
	p.write(t, "creds.yml", "password: hush-hush\n")
	p.write(t, "creds.yml.previous", "password: old\n")
	p.write(t, "bootstrap.yml", "vars_store: creds.yml # ours\nvars: {a: b}\n")
	r := p.init(t, "creds.yml", theirs+" anna")
	private(t, p.path("creds.yml.age"), 0o600)
	if p.names(t) != "bootstrap.yml creds.yml.age" || p.decrypted(t, "creds.yml.age") != "password: hush-hush\n" {
		t.Errorf("files %s", p.names(t))
	}
	if got := p.files(t)["bootstrap.yml"]; got != "vars_store: creds.yml.age # ours\nvars: {a: b}\n" {
		t.Errorf("bootstrap.yml: %s", got)
	}
	if text := r.Text(); !strings.Contains(text, "for 2 recipients") || !strings.Contains(text, "Removed "+p.path("creds.yml")+" and "+p.path("creds.yml.previous")) || strings.Contains(text, "hush-hush") {
		t.Errorf("printed %s", text)
	}
	if text, err := Decrypt(t.Context(), Place{Path: p.path("creds.yml.age")}, anna.keys()); err != nil || string(text) != "password: hush-hush\n" {
		t.Errorf("anna reads %s, %v", text, err)
	}
}

// After a kill before the plain file was removed, the same command finishes the work, for
// the recipients of the file.
func TestInitAfterKill(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	const text = "password: hush-hush\n"
	p.write(t, "creds.yml", text)
	before := p.init(t, "creds.yml")
	p.write(t, "creds.yml", text)
	p.write(t, "bootstrap.yml", "vars_store: creds.yml\n")
	r := p.init(t, "creds.yml", newPerson(t).init(t, "x.yml").Recipient)
	if p.names(t) != "bootstrap.yml creds.yml.age" || p.files(t)["bootstrap.yml"] != "vars_store: creds.yml.age\n" || !slices.Equal(r.Recipients, before.Recipients) {
		t.Errorf("files %v, recipients %v", p.names(t), r.Recipients)
	}
}

// If init refuses to work, nothing is changed.
func TestInitRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(*testing.T, *person, *Init)
		err     string
	}{
		"no values":                 {func(t *testing.T, p *person, _ *Init) { p.write(t, "creds.yml", "- a\n") }, "creds.yml"},
		"no YAML":                   {func(t *testing.T, p *person, _ *Init) { p.write(t, "creds.yml", "a: [b\n") }, "creds.yml"},
		"encrypted already":         {func(t *testing.T, p *person, _ *Init) { p.init(t, "creds.yml") }, "is encrypted already; change who can read it with: bootstrap secrets rekey"},
		"encrypted under that name": {func(t *testing.T, p *person, i *Init) { p.init(t, "creds.yml"); i.Store += ".age" }, "is encrypted already"},
		"other values": {func(t *testing.T, p *person, _ *Init) {
			p.init(t, "creds.yml")
			p.write(t, "creds.yml", "a: b\n")
		}, "exists already, with other values; remove or rename one of the two files"},
		"a plain file in the way": {func(t *testing.T, p *person, _ *Init) { p.write(t, "creds.yml.age", "a: b\n") }, "exists already, and is not encrypted; remove or rename it"},
		"an unknown identity":     {func(_ *testing.T, p *person, i *Init) { i.Keys.Identities = []string{p.path("absent")} }, "absent"},
		"no home":                 {func(_ *testing.T, _ *person, i *Init) { i.Keys.Usual = nil }, "cannot make an identity: HOME is not set"},
		"a damaged identity": {func(t *testing.T, p *person, i *Init) {
			p.write(t, "id", "not a key\n")
			i.Keys.Usual = []string{p.path("id")}
		}, "id"},
		"an odd bootstrap.yml": {func(t *testing.T, p *person, _ *Init) {
			p.write(t, "creds.yml", "a: b\n")
			p.write(t, "bootstrap.yml", "vars_store:\n  creds.yml\n")
		}, "cannot change vars_store"},
		"a recipient that is none": {func(_ *testing.T, _ *person, i *Init) { i.Keys.Recipients = []string{"anna"} }, "a recipient begins with age1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t)
			i := Init{Store: p.path("creds.yml"), Keys: p.keys()}
			c.arrange(t, p, &i)
			before := p.files(t)
			_, err := i.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %s", err, c.err)
			}
			if after := p.files(t); !maps.Equal(after, before) {
				t.Errorf("files %v, before %v", after, before)
			}
		})
	}
}

// With a passphrase no identity is made; the passphrase is requested twice, and then once
// to read the file.
func TestPassphrase(t *testing.T) {
	if testing.Short() {
		t.Skip("passphrases take seconds on purpose")
	}
	t.Parallel()
	p := newPerson(t)
	r, err := Init{Store: p.path("creds.yml"), Passphrase: true, Keys: p.keys()}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name := p.path("creds.yml.age")
	if !slices.Equal(p.asked, []string{name + ", twice"}) || r.Identity != "" || !strings.Contains(r.Text(), "encrypted for those who know the passphrase") {
		t.Errorf("asked %q; %s", p.asked, r.Text())
	}
	private(t, name, 0o600)
	p.asked = nil
	if p.decrypted(t, "creds.yml.age") != empty || !slices.Equal(p.asked, []string{name}) {
		t.Errorf("asked %q", p.asked)
	}
}

// Decrypt refuses a file that is not an encrypted vars store, and an identity that others
// can read.
func TestDecryptRefuses(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.write(t, "creds.yml", "password: hush-hush\n")
	p.init(t, "mine.yml")
	for name, want := range map[string]string{"absent.age": "cannot read the vars store", "creds.yml": "is not encrypted; encrypt it with: bootstrap secrets init --vars-store"} {
		if _, err := Decrypt(t.Context(), Place{Path: p.path(name)}, p.keys()); err == nil || !strings.Contains(err.Error(), want) || name == "absent.age" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := newPerson(t)
	other.init(t, "x.yml")
	if _, err := Decrypt(t.Context(), Place{Path: p.path("mine.yml.age")}, other.keys()); err == nil {
		t.Error("somebody else can read it")
	}
}

// Rekey lists, adds and removes recipients. Nobody can lock themselves out.
func TestRekey(t *testing.T) {
	t.Parallel()
	p, anna, bert := newPerson(t), newPerson(t), newPerson(t)
	mine, annas, berts := p.init(t, "creds.yml").Recipient, anna.init(t, "x.yml").Recipient, bert.init(t, "x.yml").Recipient
	name := p.path("creds.yml.age")
	rekey := func(add, remove []string) (*Result, error) {
		return Rekey{Store: Place{Path: name}, Add: add, Remove: remove, Keys: p.keys()}.Run(t.Context())
	}
	reads := func(who *person) bool {
		_, err := Decrypt(t.Context(), Place{Path: name}, who.keys())
		return err == nil
	}
	before := p.files(t)["creds.yml.age"]
	r, err := rekey(nil, nil)
	if err != nil || r.Changed || r.Text() != name+" is encrypted for 1 recipient:\n  "+mine+"\n" || p.files(t)["creds.yml.age"] != before {
		t.Errorf("listed %+v, %v", r, err)
	}
	if r, err = rekey([]string{annas + " anna@laptop", berts, berts}, nil); err != nil || len(r.Recipients) != 3 || !reads(anna) || !reads(bert) || !reads(p) {
		t.Errorf("added: %+v, %v", r, err)
	}
	private(t, name, 0o600)
	private(t, name+".previous", 0o600)
	before = p.files(t)["creds.yml.age"]
	for want, c := range map[string][2][]string{
		"is not encrypted to nobody; it is encrypted to: " + mine: {nil, {"nobody"}},
		"you could not read":                    {nil, {mine}},
		"to nobody: add a recipient with --add": {nil, {mine, annas, berts}},
	} {
		if _, err := rekey(c[0], c[1]); err == nil || !strings.Contains(err.Error(), want) || p.files(t)["creds.yml.age"] != before {
			t.Errorf("%v, want %s", err, want)
		}
	}
	r, err = rekey(nil, []string{"anna@laptop", berts})
	if err != nil || !slices.Equal(r.Recipients, []string{mine}) || reads(anna) || reads(bert) || !reads(p) || !strings.Contains(r.Text(), "can still read old copies, such as "+name+".previous") {
		t.Errorf("removed: %+v, %v", r, err)
	}
	if p.decrypted(t, "creds.yml.age") != empty {
		t.Error("the values have changed")
	}
}

// The commands refuse a line that names no vars store, or two.
func TestArguments(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"edit a.age --state s3://b/c":                    "a vars store and --state cannot be used together",
		"rekey a.age b.age":                              "",
		"init --passphrase --recipient " + keyOfNobody:   "--passphrase and --recipient cannot be used together",
		"decrypt " + filepath.Join(t.TempDir(), "a.age"): "cannot read the vars store",
	} {
		var out bytes.Buffer
		cmd := New(cli.New(cli.Process{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Env: []string{"HOME=" + t.TempDir()}}))
		cmd.SetArgs(strings.Fields(line))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

const keyOfNobody = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
