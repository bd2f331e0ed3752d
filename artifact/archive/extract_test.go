package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"bootstrap/artifact/tartest"
)

func TestExtractRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries []tartest.Entry
		refused string // the refused entry; empty: none
		reason  string
		lim     Limits
	}{
		"absolute":                 {entries: []tartest.Entry{tartest.File("/etc/passwd", "x")}, refused: "/etc/passwd", reason: "absolute"},
		"parent":                   {entries: []tartest.Entry{tartest.File("../x", "x")}, refused: "../x", reason: "out of the folder"},
		"parent within":            {entries: []tartest.Entry{tartest.File("a/../../x", "x")}, refused: "a/../../x", reason: "out of the folder"},
		"parent folder":            {entries: []tartest.Entry{tartest.Dir("../x/")}, refused: "../x/", reason: "out of the folder"},
		"link out":                 {entries: []tartest.Entry{tartest.Symlink("a/l", "../../x")}, refused: "a/l", reason: "leads out"},
		"absolute link":            {entries: []tartest.Entry{tartest.Symlink("l", "/etc")}, refused: "l", reason: "absolute"},
		"link to nothing":          {entries: []tartest.Entry{tartest.Dir("x"), tartest.Symlink("l", "")}, refused: "l", reason: "nothing"},
		"through a link":           {entries: []tartest.Entry{tartest.Dir("d/"), tartest.Symlink("l", "d"), tartest.File("l/x", "x")}, refused: "l/x", reason: `the link "l"`},
		"folder through a link":    {entries: []tartest.Entry{tartest.Dir("d/"), tartest.Symlink("l", "d"), tartest.Dir("l/x/")}, refused: "l/x/", reason: `the link "l"`},
		"folder over a link":       {entries: []tartest.Entry{tartest.Dir("d/"), tartest.Symlink("l", "d"), tartest.Dir("l/")}, refused: "l/", reason: "link"},
		"link by links":            {entries: []tartest.Entry{tartest.Dir("x/"), tartest.Symlink("x/d", ".."), tartest.Symlink("e", "x/d/..")}, refused: "e", reason: "leads out"},
		"link by later links":      {entries: []tartest.Entry{tartest.Symlink("e", "x/d/../y"), tartest.Dir("x/"), tartest.Symlink("x/d", "..")}, refused: "e", reason: "leads out"},
		"link round":               {entries: []tartest.Entry{tartest.Symlink("a", "b"), tartest.Symlink("b", "a")}, refused: "a", reason: "in a circle"},
		"link over a folder":       {entries: []tartest.Entry{tartest.Dir("d/"), tartest.Symlink("d", ".")}, refused: "d", reason: "folder with that name"},
		"file over a folder":       {entries: []tartest.Entry{tartest.Dir("d/"), tartest.File("d", "x")}, refused: "d", reason: "folder with that name"},
		"below a file":             {entries: []tartest.Entry{tartest.File("f", "x"), tartest.File("f/x", "x")}, refused: "f/x", reason: "not a folder"},
		"hard link out":            {entries: []tartest.Entry{tartest.Hardlink("h", "../x")}, refused: "h", reason: "out of the folder"},
		"hard link absolute":       {entries: []tartest.Entry{tartest.Hardlink("h", "/etc/passwd")}, refused: "h", reason: "out of the folder"},
		"hard link to nothing":     {entries: []tartest.Entry{tartest.Hardlink("h", "later"), tartest.File("later", "")}, refused: "h", reason: "not an earlier entry"},
		"hard link to a link":      {entries: []tartest.Entry{tartest.Dir("d/"), tartest.Symlink("d/l", ".."), tartest.Hardlink("h", "d/l")}, refused: "h", reason: "not a regular file"},
		"hard link through a link": {entries: []tartest.Entry{tartest.Dir("d/"), tartest.File("d/f", ""), tartest.Symlink("l", "d"), tartest.Hardlink("h", "l/f")}, refused: "h", reason: "not a regular file"},
		"device":                   {entries: []tartest.Entry{tartest.Special("null", tar.TypeChar)}, refused: "null", reason: "device"},
		"block device":             {entries: []tartest.Entry{tartest.Special("sda", tar.TypeBlock)}, refused: "sda", reason: "device"},
		"pipe":                     {entries: []tartest.Entry{tartest.Special("p", tar.TypeFifo)}, refused: "p", reason: "pipe"},
		"unknown kind":             {entries: []tartest.Entry{tartest.Special("p", 'Z')}, refused: "p", reason: "unknown kind"},
		"too many entries":         {entries: []tartest.Entry{tartest.File("a", ""), tartest.File("b", ""), tartest.File("c", "")}, refused: "c", reason: "more than 2 entries", lim: Limits{Entries: 2}},
		"too large":                {entries: []tartest.Entry{tartest.File("a", "x"), tartest.File("b", strings.Repeat("x", 1<<20))}, refused: "b", reason: "more than 500000 bytes", lim: Limits{Size: 500_000}},
		"link, links elsewhere ok": {entries: []tartest.Entry{tartest.Symlink("l", "/etc"), tartest.File("l/passwd", "x")}, refused: "l/passwd", reason: "the link", lim: Limits{AnyLinks: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			tartest.Write(t, []byte("untouched"), base, "x")
			archive := tartest.Write(t, tartest.Tgz(t, c.entries...), base, "a.tgz")
			err := Extract(context.Background(), archive, filepath.Join(base, "in", "side"), c.lim)
			var unsafe *UnsafeError
			if !errors.As(err, &unsafe) {
				t.Fatalf("Extract: %v", err)
			}
			if unsafe.Entry != c.refused || !strings.Contains(unsafe.Reason, c.reason) || unsafe.Archive != archive {
				t.Errorf("refused %+v", unsafe)
			}
			outside(t, base)
		})
	}
}

// outside checks that base contains only archive, x and in/side.
func outside(t *testing.T, base string) {
	t.Helper()
	for _, d := range []string{base, filepath.Join(base, "in")} {
		found, err := os.ReadDir(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			switch e.Name() {
			case "a.tgz", "x", "in", "side":
			default:
				t.Errorf("%s was made in %s", e.Name(), d)
			}
		}
	}
	if data, _ := os.ReadFile(filepath.Join(base, "x")); string(data) != "untouched" {
		t.Errorf("x was changed to %q", data)
	}
}

func TestExtractKeepsWhatIsSafe(t *testing.T) {
	t.Parallel()
	entries := []tartest.Entry{
		tartest.Dir("./"), {Name: "./bin/", Kind: tar.TypeDir, Mode: 0o1555}, {Name: "./bin/run", Body: "#!", Mode: 0o6555},
		tartest.File("plain", "1"), tartest.File("plain", "2"), tartest.Symlink("bin/link", "../plain"), tartest.Symlink("dangling", "bin/none"),
		tartest.Hardlink("./hard", "./plain"), tartest.Symlink("over", "plain"), tartest.File("over", "a file now"), tartest.File("a/b/c", "deep"),
		{Name: "private", Body: "x", Mode: 0}, tartest.Symlink("self", "."),
	}
	raw := tartest.Tar(t, entries...)
	zw, _ := zstd.NewWriter(nil)
	for name, data := range map[string][]byte{
		"tar": raw, "gzip": tartest.Gzip(raw), "zstd": zw.EncodeAll(raw, nil),
		"gzip in two streams": append(tartest.Gzip(raw[:700]), tartest.Gzip(raw[700:])...),
		"gzip, padded":        append(tartest.Gzip(raw), make([]byte, 700)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			to := filepath.Join(base, "to")
			for range 2 { // the second time, an existing file is replaced
				if err := Extract(context.Background(), tartest.Write(t, data, base, "a"), to, Limits{}); err != nil {
					t.Fatal(err)
				}
			}
			for file, want := range map[string]string{"plain": "2", "hard": "2", "bin/link": "2", "over": "a file now", "a/b/c": "deep", "bin/run": "#!"} {
				if got, err := os.ReadFile(filepath.Join(to, file)); err != nil || string(got) != want {
					t.Errorf("%s is %q, %v", file, got, err)
				}
			}
			if runtime.GOOS == "windows" {
				return
			}
			for file, want := range map[string]fs.FileMode{"bin/run": 0o755, "private": 0o200, "bin": fs.ModeDir | 0o755, "plain": 0o644} {
				info, err := os.Lstat(filepath.Join(to, file))
				if err != nil || info.Mode() != want {
					t.Errorf("mode of %s is %v, %v", file, info.Mode(), err)
				}
				if !info.ModTime().Equal(time.Unix(1_000_000_000, 0)) {
					t.Errorf("time of %s is %v", file, info.ModTime())
				}
			}
		})
	}
}

func TestExtractBroken(t *testing.T) {
	t.Parallel()
	good := tartest.Tgz(t, tartest.File("a", strings.Repeat("some text", 1000)), tartest.File("b", "x"))
	wrongSum := bytes.Clone(good)
	wrongSum[len(wrongSum)-6] ^= 1
	for name, c := range map[string]struct {
		data  []byte
		words string
	}{
		"nothing":      {nil, "empty"},
		"cut gzip":     {good[:len(good)/2], "ends too early"},
		"cut tail":     {good[:len(good)-4], "ends too early"},
		"wrong sum":    {wrongSum, "checksum"},
		"cut tar":      {tartest.Tar(t, tartest.File("a", strings.Repeat("x", 2000)))[:1024], "ends too early"},
		"html":         {[]byte("<html>" + strings.Repeat("x", 2000)), "web page"},
		"xz":           {[]byte("\xfd7zXZ\x00rest of it"), "compressed with xz"},
		"empty tar":    {tartest.Tar(t), "no files"},
		"zstd garbage": {[]byte("\x28\xb5\x2f\xfd" + strings.Repeat("x", 100)), "cannot extract"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			err := Extract(context.Background(), tartest.Write(t, c.data, base, "a.tgz"), filepath.Join(base, "to"), Limits{})
			tartest.MustFail(t, err, "a.tgz", c.words)
		})
	}
	tartest.MustFail(t, Extract(context.Background(), "/no/such.tgz", t.TempDir(), Limits{}), "/no/such.tgz", "no such file")
}

func TestExtractEndsWithContext(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("enough")
	cancel(stop)
	err := Extract(ctx, tartest.Write(t, tartest.Tgz(t, tartest.File("a", string(tartest.Body(1<<20)))), base, "a.tgz"), filepath.Join(base, "to"), Limits{})
	if !errors.Is(err, stop) {
		t.Errorf("Extract: %v", err)
	}
}

func TestExtractBomb(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	zw, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	// After the header of an entry, the archive has as many frames of zeros as needed.
	head := tartest.Tar(t, tartest.Entry{Name: "packages/bomb.tgz", Mode: 0o644})[:512]
	frame := zw.EncodeAll(make([]byte, 64<<20), nil)
	packed := append(zw.EncodeAll(head, nil), bytes.Repeat(frame, 33)...)
	archive := tartest.Write(t, packed, base, "a.tar.zst")
	// The test reads the archive without extracting it: writing gigabytes to the disk
	// would show nothing more.
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	u, err := Unpack(&Input{Ctx: context.Background(), R: f}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	err = archiveError(archive, "packages/bomb.tgz", Drain(u))
	var unsafe *UnsafeError
	if !errors.As(err, &unsafe) {
		t.Fatalf("a bomb of %d bytes: %v", len(packed), err)
	}
	tartest.MustFail(t, err, "200 times its size")
}

func TestPackIsStableAndComesBack(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	from := filepath.Join(base, "from")
	archive := tartest.Write(t, tartest.Tgz(t, tartest.File("bin/run", "x"), tartest.File("b", "2"), tartest.Symlink("l", "bin/run"), tartest.Dir("empty/")), base, "a.tgz")
	if err := Extract(context.Background(), archive, from, Limits{}); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(from, "bin/run"), 0o755)
	pack := func(dir string) []byte {
		var buf bytes.Buffer
		if err := Pack(context.Background(), dir, &buf); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	first := pack(from)
	os.Chtimes(filepath.Join(from, "b"), time.Now(), time.Now())
	again := filepath.Join(base, "again")
	if err := Extract(context.Background(), tartest.Write(t, first, base, "b.tgz"), again, Limits{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, pack(from)) || !bytes.Equal(first, pack(again)) {
		t.Error("the same contents make different archives")
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(unzipped)
	var names []string
	for h, err := r.Next(); err == nil; h, err = r.Next() {
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "./ ./b ./bin/ ./bin/run ./empty/ ./l" {
		t.Errorf("entries are %s", got)
	}
	tartest.MustFail(t, Pack(context.Background(), filepath.Join(base, "none"), &bytes.Buffer{}), "none", "no such file")
}
