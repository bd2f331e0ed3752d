package sealed

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
	"golang.org/x/crypto/ssh"
)

const secret = "admin_password: s3cr3t-of-the-test\n"

// write writes a file with mode 0600 and returns its path.
func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// native makes an identity of age: its file and its recipient.
func native(t *testing.T) (path, recipient string) {
	t.Helper()
	file, recipient, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "identity.txt", file), recipient
}

// aKey makes an RSA key once for all tests, because that takes long.
var aKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// ofSSH makes a key pair of SSH, with a passphrase unless it is empty.
func ofSSH(t *testing.T, kind, phrase string) (path, recipient string) {
	t.Helper()
	var private any = aKey()
	var public any = aKey().Public()
	switch kind {
	case "ed25519":
		pub, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		private, public = key, pub
	case "ecdsa":
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		private, public = key, key.Public()
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if phrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(phrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "id_"+kind, pem.EncodeToMemory(block)), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub)))
}

// says returns a function that answers questions with the words, and then fails.
func says(words ...string) func(context.Context, string, bool) (string, error) {
	return func(context.Context, string, bool) (string, error) {
		if len(words) == 0 {
			return "", errors.New("asked too often")
		}
		word := words[0]
		words = words[1:]
		return word, nil
	}
}

func seal(t *testing.T, k *Keys, text string, to ...string) []byte {
	t.Helper()
	data, err := k.Seal(t.Context(), "creds.yml.age", []byte(text), to)
	if err != nil {
		t.Fatal(err)
	}
	if !IsSealed(data) || bytes.Contains(data, []byte("s3cr3t")) {
		t.Fatalf("not encrypted: %s", data)
	}
	return data
}

func TestEachKindOfKeyOpensWhatWasSealedToIt(t *testing.T) {
	t.Parallel()
	type pair struct{ path, recipient string }
	pairs := map[string]pair{}
	add := func(name string, path, recipient string) { pairs[name] = pair{path, recipient} }
	path, recipient := native(t)
	add("age", path, recipient)
	path, recipient = ofSSH(t, "ed25519", "")
	add("ed25519", path, recipient)
	path, recipient = ofSSH(t, "rsa", "")
	add("rsa", path, recipient)
	path, recipient = ofSSH(t, "ed25519", "of the key")
	add("ed25519 with passphrase", path, recipient)

	var all []string
	for _, p := range pairs {
		all = append(all, p.recipient+" somebody@somewhere")
	}
	together := seal(t, nil, secret, all...)
	for name, p := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &Keys{Identities: []string{p.path}, Passphrase: says("wrong", "of the key")}
			for _, data := range [][]byte{together, seal(t, nil, secret, p.recipient)} {
				if strings.Contains(name, "passphrase") && !bytes.Equal(data, together) {
					continue // each attempt takes as long as a passphrase is meant to take
				}
				text, to, err := k.Open(t.Context(), "creds.yml.age", data)
				if err != nil || string(text) != secret {
					t.Fatalf("got %q, %v", text, err)
				}
				if len(to) == len(all) && !slices.Equal(to, all) {
					t.Errorf("the recipients are %q, not %q", to, all)
				}
				// Whoever can read the file can encrypt it for the same recipients again.
				again, err := k.Seal(t.Context(), "creds.yml.age", text, to)
				if err != nil {
					t.Fatal(err)
				}
				if text, back, err := k.Open(t.Context(), "creds.yml.age", again); err != nil || string(text) != secret || !slices.Equal(back, to) {
					t.Fatalf("again: %q, %q, %v", text, back, err)
				}
			}
			own, err := (&Keys{}).Own(t.Context(), p.path)
			if err != nil || len(own) != 1 || !Same(own[0], p.recipient) {
				t.Errorf("the public key is %q, not %q: %v", own, p.recipient, err)
			}
		})
	}
}

// The older format of encrypted private keys contains no public key.
func TestPrivateKeyOfTheOlderFormat(t *testing.T) {
	t.Parallel()
	//lint:ignore SA1019 such keys are still in use
	block, err := x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(aKey()), []byte("of the key"), x509.PEMCipherAES256)
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, "id_rsa", pem.EncodeToMemory(block))
	_, recipient := ofSSH(t, "rsa", "")
	data := seal(t, nil, secret, recipient)
	k := &Keys{Identities: []string{path}, Passphrase: says("of the key")}
	if _, _, err := k.Open(t.Context(), "creds.yml.age", data); err == nil || !strings.Contains(err.Error(), path+".pub cannot be read") {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".pub", []byte(recipient), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, _, err := k.Open(t.Context(), "creds.yml.age", data); err != nil || string(text) != secret {
		t.Fatal(err)
	}
}

func TestPassphrase(t *testing.T) {
	t.Parallel()
	k := &Keys{workFactor: 10, Passphrase: says("of the file")}
	data := seal(t, k, secret, WithPassphrase)
	other := &Keys{workFactor: 10, Passphrase: says("wrong", "of the file")}
	text, to, err := other.Open(t.Context(), "creds.yml.age", data)
	if err != nil || string(text) != secret || !slices.Equal(to, []string{WithPassphrase}) {
		t.Fatalf("%q, %q, %v", text, to, err)
	}
	// The file gets the same passphrase again, without a question.
	again := seal(t, other, secret, to...)
	if _, _, err := (&Keys{Passphrase: says("of the file")}).Open(t.Context(), "creds.yml.age", again); err != nil {
		t.Fatal(err)
	}
	for want, k := range map[string]*Keys{
		"nobody to ask":           {},
		"the passphrase is wrong": {Passphrase: says("wrong", "wrong")}, // as if the passphrase comes from the environment
		"asked too often":         {Passphrase: says()},
		"is empty":                {Passphrase: says("")},
	} {
		if _, _, err := k.Open(t.Context(), "creds.yml.age", data); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "creds.yml.age") && want != "asked too often" {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := k.Seal(t.Context(), "creds.yml.age", nil, []string{WithPassphrase, "age1"}); err == nil {
		t.Error("a passphrase and a recipient")
	}
}

// A file with a passphrase that would need gigabytes of memory is refused before the
// passphrase is asked for.
func TestTooMuchWork(t *testing.T) {
	t.Parallel()
	armored := seal(t, &Keys{workFactor: 10, Passphrase: says("of the file")}, secret, WithPassphrase)
	data, err := io.ReadAll(armor.NewReader(bytes.NewReader(armored)))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^(-> scrypt \S+) 10$`)
	if !line.Match(data) {
		t.Fatalf("the file has no line of scrypt: %.80q", data)
	}
	data = line.ReplaceAll(data, []byte("$1 22"))
	const want = "its passphrase needs more time and memory than this program spends (work factor of scrypt): 22, and at most 19 is accepted"
	if _, _, err := (&Keys{Passphrase: says()}).Open(t.Context(), "creds.yml.age", data); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the vars store: %v", err)
	}
	if _, err := (&Keys{Passphrase: says("of the file")}).Own(t.Context(), write(t, "identity.age", data)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the identity: %v", err)
	}
}

// A file of identities may itself be encrypted with a passphrase, which is asked for only
// if no other identity fits.
func TestEncryptedIdentity(t *testing.T) {
	t.Parallel()
	file, recipient, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	locked := write(t, "identity.age", seal(t, &Keys{workFactor: 10, Passphrase: says("of the identity")}, string(file), WithPassphrase))
	other, otherRecipient := native(t)
	data := seal(t, nil, secret, recipient, otherRecipient)
	if _, _, err := (&Keys{Usual: []string{locked, other}, Passphrase: says()}).Open(t.Context(), "creds.yml.age", data); err != nil {
		t.Errorf("asked, and another identity would have done: %v", err)
	}
	if text, _, err := (&Keys{Usual: []string{locked}, Passphrase: says("wrong", "of the identity")}).Open(t.Context(), "creds.yml.age", data); err != nil || string(text) != secret {
		t.Error(err)
	}
	if own, err := (&Keys{Passphrase: says("of the identity")}).Own(t.Context(), locked); err != nil || !slices.Equal(own, []string{recipient}) {
		t.Errorf("%q, %v", own, err)
	}
}

func TestIdentityInTheEnvironment(t *testing.T) {
	t.Parallel()
	file, recipient, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	line := string(file[bytes.Index(file, []byte(inText)):])
	k := &Keys{Identities: []string{strings.TrimSpace(line)}}
	if _, _, err := k.Open(t.Context(), "creds.yml.age", seal(t, nil, secret, recipient)); err != nil {
		t.Error(err)
	}
	wrong := line[:len(line)-8]
	_, _, err = (&Keys{Identities: []string{wrong}}).Open(t.Context(), "creds.yml.age", seal(t, nil, secret, recipient))
	if err == nil || strings.Contains(err.Error(), wrong[20:40]) {
		t.Errorf("%v", err)
	}
}

func TestErrorsSayWhatWasTried(t *testing.T) {
	t.Parallel()
	mine, _ := native(t)
	_, theirs := native(t)
	ecdsa, _ := ofSSH(t, "ecdsa", "")
	elsewhere := filepath.Join(t.TempDir(), "none")
	data := seal(t, nil, secret, theirs)
	plugin := write(t, "keys.txt", []byte("AGE-PLUGIN-YUBIKEY-1QQQ\n"))
	text := write(t, "notes.txt", []byte("hunter2-is-my-password\n"))
	for _, test := range []struct {
		k    *Keys
		want []string
	}{
		{nil, []string{"cannot decrypt creds.yml.age: there is no identity on this machine", "--identity FILE or $BOOTSTRAP_IDENTITY"}},
		{&Keys{Usual: []string{elsewhere}}, []string{"no identity on this machine"}},
		{&Keys{Identities: []string{mine}}, []string{"not encrypted to any of these identities: " + mine, "secrets rekey"}},
		{&Keys{Usual: []string{mine, ecdsa, elsewhere}}, []string{mine + ", " + ecdsa + " ("}},
		{&Keys{Identities: []string{elsewhere}}, []string{"cannot read the identity " + elsewhere}},
		{&Keys{Identities: []string{plugin}}, []string{plugin, "identities of plugins"}},
		{&Keys{Identities: []string{text}}, []string{"line 1 is no identity of age"}},
		{&Keys{Identities: []string{filepath.Dir(text)}}, []string{"is not a regular file"}},
	} {
		_, _, err := test.k.Open(t.Context(), "creds.yml.age", data)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if strings.Count(err.Error(), "cannot decrypt") > 1 {
			t.Error(err)
		}
	}
	if _, _, err := (&Keys{Identities: []string{elsewhere}}).Open(t.Context(), "f", data); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestInterruptedQuestion(t *testing.T) {
	t.Parallel()
	path, recipient := ofSSH(t, "ed25519", "of the key")
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	k := &Keys{Identities: []string{path}, Passphrase: func(ctx context.Context, _ string, _ bool) (string, error) {
		cancel(stopped)
		return "", context.Cause(ctx)
	}}
	if _, _, err := k.Open(ctx, "creds.yml.age", seal(t, nil, secret, recipient)); !errors.Is(err, stopped) {
		t.Error(err)
	}
}

func TestWarnsOfOpenIdentities(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes")
	}
	path, recipient := native(t)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	var warnings []string
	k := &Keys{Identities: []string{path}, Warn: func(m string) { warnings = append(warnings, m) }}
	for range 2 {
		if _, _, err := k.Open(t.Context(), "creds.yml.age", seal(t, nil, secret, recipient)); err != nil {
			t.Fatal(err)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "chmod 600 "+path) || !strings.Contains(warnings[0], "0644") {
		t.Errorf("%q", warnings)
	}
}

func TestWrongRecipients(t *testing.T) {
	t.Parallel()
	file, good, _ := NewIdentity()
	private := string(file[bytes.Index(file, []byte(inText)):])
	_, ecdsa := ofSSH(t, "ecdsa", "")
	for _, to := range [][]string{
		nil, {""}, {"somebody"}, {good[:20]}, {strings.TrimSpace(private)}, {private}, {ecdsa}, {"ssh-rsa AAAA"},
		{good + "\n# recipient: " + good}, {good, "age1pq1xxx"},
	} {
		_, err := (*Keys)(nil).Seal(t.Context(), "creds.yml.age", []byte(secret), to)
		if err == nil || strings.Contains(err.Error(), private[20:40]) || !strings.Contains(err.Error(), "cannot encrypt creds.yml.age") {
			t.Errorf("%q: %v", to, err)
		}
	}
}

func TestRecipientsOfFiles(t *testing.T) {
	t.Parallel()
	_, one := native(t)
	_, two := ofSSH(t, "ed25519", "")
	path := write(t, "team.txt", []byte("# the team\n"+one+"\tanna\n\n"+two+" bert@lab\n"))
	list, err := Recipients(path)
	if err != nil || !slices.Equal(list, []string{one + " anna", two + " bert@lab"}) {
		t.Errorf("%q, %v", list, err)
	}
	if list, err = Recipients("  " + one); err != nil || !slices.Equal(list, []string{one}) {
		t.Errorf("%q, %v", list, err)
	}
	identity, _ := native(t)
	for word, want := range map[string]string{
		identity:                         "private key",
		write(t, "empty", nil):           "contains no recipients",
		filepath.Join(t.TempDir(), "no"): "begins with age1",
		one[:30]:                         "is not complete",
	} {
		if _, err := Recipients(word); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if !Same(two, two+" bert") || Same(one, two) || Same("", one) {
		t.Error("Same is wrong")
	}
}

// Files that age itself wrote, in binary form and as text, can be read. If a text
// contains lines that name recipients in the middle, they stay.
func TestFilesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	path, recipient := native(t)
	to, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		t.Fatal(err)
	}
	const text = "a: 1\n# recipient: nobody\n"
	var binary bytes.Buffer
	w, err := age.Encrypt(&binary, to)
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	a := armor.NewWriter(&lines)
	if _, err = a.Write(binary.Bytes()); err != nil || a.Close() != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{binary.Bytes(), lines.Bytes(), append([]byte("\n\n"), lines.Bytes()...)} {
		got, to, err := (&Keys{Identities: []string{path}}).Open(t.Context(), "f", data)
		if !IsSealed(data) || err != nil || string(got) != text || len(to) > 0 {
			t.Errorf("%q, %q, %v", got, to, err)
		}
	}
	for _, data := range []string{"", "a: 1", "-----BEGIN", "---\n"} {
		if IsSealed([]byte(data)) {
			t.Errorf("%q is not encrypted", data)
		}
	}
}

func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	path, recipient := native(t)
	data := seal(t, nil, strings.Repeat(secret, 100), recipient)
	broken := map[string][]byte{"more behind": append(bytes.Clone(data), "more"...)}
	for _, n := range []int{40, 60, 100, 200, len(data) / 2, len(data) - 40, len(data) - 10} {
		broken["shortened"+string(rune('a'+len(broken)))] = data[:n]
	}
	for i := 60; i < len(data)-40; i += 97 {
		b := bytes.Clone(data)
		if b[i] == '\n' {
			continue
		}
		if b[i]++; b[i] == 'z'+1 {
			b[i] = 'A'
		}
		broken["changed"+string(rune('a'+len(broken)))] = b
	}
	for name, b := range broken {
		text, _, err := (&Keys{Identities: []string{path}}).Open(t.Context(), "creds.yml.age", b)
		if err == nil || text != nil || !strings.Contains(err.Error(), "cannot decrypt creds.yml.age") {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}

func TestLargeFile(t *testing.T) {
	t.Parallel()
	size := 1 << 20
	if os.Getenv("CRASH") == "all" { // make full
		size = 64 << 20
	}
	path, recipient := native(t)
	large := make([]byte, size)
	_, _ = rand.Read(large[:1<<20])
	data, err := (*Keys)(nil).Seal(t.Context(), "f", large, []string{recipient})
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := (&Keys{Identities: []string{path}}).Open(t.Context(), "f", data)
	if err != nil || !bytes.Equal(text, large) {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
}

func TestUsual(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HOME": "/home/anna"}
	list := Usual(func(name string) string { return env[name] })
	want := []string{"/home/anna/.config/bootstrap/identity.txt", "/home/anna/.config/sops/age/keys.txt", "/home/anna/.ssh/id_ed25519", "/home/anna/.ssh/id_rsa"}
	if !slices.EqualFunc(list, want, func(a, b string) bool { return filepath.ToSlash(a) == b }) {
		t.Errorf("%q", list)
	}
	env["XDG_CONFIG_HOME"] = "/etc/anna"
	if list = Usual(func(name string) string { return env[name] }); filepath.ToSlash(list[0]) != "/etc/anna/bootstrap/identity.txt" {
		t.Errorf("%q", list)
	}
	if list = Usual(func(string) string { return "" }); len(list) > 0 {
		t.Errorf("%q", list)
	}
}

// No input may crash Open, or make it return a text that nobody encrypted.
func FuzzOpen(f *testing.F) {
	file, recipient, err := NewIdentity()
	if err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(f.TempDir(), "identity.txt")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		f.Fatal(err)
	}
	good, err := (*Keys)(nil).Seal(context.Background(), "f", []byte(secret), []string{recipient})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(magic + "v1\n-> X25519 x\n"))
	f.Add([]byte(armor.Header + "\nAAAA\n" + armor.Footer))
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("scrypt")) {
			t.Skip("takes long")
		}
		text, _, err := (&Keys{Identities: []string{path}}).Open(t.Context(), "f", data)
		if err == nil && string(text) != secret {
			t.Errorf("%q", text)
		}
	})
}
