package artifact

import (
	"archive/tar"
	"bytes"
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
)

func TestExtractRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries []entry
		refused string // the entry
		reason  string
		lim     Limits
	}{
		"absolute":                 {entries: []entry{file("/etc/passwd", "x")}, refused: "/etc/passwd", reason: "absolute"},
		"parent":                   {entries: []entry{file("../x", "x")}, refused: "../x", reason: "out of the folder"},
		"parent within":            {entries: []entry{file("a/../../x", "x")}, refused: "a/../../x", reason: "out of the folder"},
		"parent folder":            {entries: []entry{dir("../x/")}, refused: "../x/", reason: "out of the folder"},
		"link out":                 {entries: []entry{symlink("a/l", "../../x")}, refused: "a/l", reason: "leads out"},
		"absolute link":            {entries: []entry{symlink("l", "/etc")}, refused: "l", reason: "absolute"},
		"link to nothing":          {entries: []entry{dir("x"), symlink("l", "")}, refused: "l", reason: "nothing"},
		"through a link":           {entries: []entry{dir("d/"), symlink("l", "d"), file("l/x", "x")}, refused: "l/x", reason: `the link "l"`},
		"folder through a link":    {entries: []entry{dir("d/"), symlink("l", "d"), dir("l/x/")}, refused: "l/x/", reason: `the link "l"`},
		"folder over a link":       {entries: []entry{dir("d/"), symlink("l", "d"), dir("l/")}, refused: "l/", reason: "link"},
		"link by links":            {entries: []entry{dir("x/"), symlink("x/d", ".."), symlink("e", "x/d/..")}, refused: "e", reason: "leads out"},
		"link by later links":      {entries: []entry{symlink("e", "x/d/../y"), dir("x/"), symlink("x/d", "..")}, refused: "e", reason: "leads out"},
		"link round":               {entries: []entry{symlink("a", "b"), symlink("b", "a")}, refused: "a", reason: "in a circle"},
		"link over a folder":       {entries: []entry{dir("d/"), symlink("d", ".")}, refused: "d", reason: "folder with that name"},
		"file over a folder":       {entries: []entry{dir("d/"), file("d", "x")}, refused: "d", reason: "folder with that name"},
		"below a file":             {entries: []entry{file("f", "x"), file("f/x", "x")}, refused: "f/x", reason: "not a folder"},
		"hard link out":            {entries: []entry{hardlink("h", "../x")}, refused: "h", reason: "out of the folder"},
		"hard link absolute":       {entries: []entry{hardlink("h", "/etc/passwd")}, refused: "h", reason: "out of the folder"},
		"hard link to nothing":     {entries: []entry{hardlink("h", "later"), file("later", "")}, refused: "h", reason: "not an earlier entry"},
		"hard link to a link":      {entries: []entry{dir("d/"), symlink("d/l", ".."), hardlink("h", "d/l")}, refused: "h", reason: "not a regular file"},
		"hard link through a link": {entries: []entry{dir("d/"), file("d/f", ""), symlink("l", "d"), hardlink("h", "l/f")}, refused: "h", reason: "not a regular file"},
		"device":                   {entries: []entry{special("null", tar.TypeChar)}, refused: "null", reason: "device"},
		"block device":             {entries: []entry{special("sda", tar.TypeBlock)}, refused: "sda", reason: "device"},
		"pipe":                     {entries: []entry{special("p", tar.TypeFifo)}, refused: "p", reason: "pipe"},
		"unknown kind":             {entries: []entry{special("p", 'Z')}, refused: "p", reason: "unknown kind"},
		"too many entries":         {entries: []entry{file("a", ""), file("b", ""), file("c", "")}, refused: "c", reason: "more than 2 entries", lim: Limits{Entries: 2}},
		"too large":                {entries: []entry{file("a", "x"), file("b", strings.Repeat("x", 1<<20))}, refused: "b", reason: "more than 500000 bytes", lim: Limits{Size: 500_000}},
		"link, links elsewhere ok": {entries: []entry{symlink("l", "/etc"), file("l/passwd", "x")}, refused: "l/passwd", reason: "the link", lim: Limits{AnyLinks: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			write(t, []byte("untouched"), base, "x")
			archive := write(t, tgz(t, c.entries...), base, "a.tgz")
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

// outside checks that nothing but archive, x and in/side stands in base.
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
	entries := []entry{
		dir("./"), {name: "./bin/", kind: tar.TypeDir, mode: 0o1555}, {name: "./bin/run", body: "#!", mode: 0o6555},
		file("plain", "1"), file("plain", "2"), symlink("bin/link", "../plain"), symlink("dangling", "bin/none"),
		hardlink("./hard", "./plain"), symlink("over", "plain"), file("over", "a file now"), file("a/b/c", "deep"),
		{name: "private", body: "x", mode: 0}, symlink("self", "."),
	}
	raw := tarOf(t, entries...)
	zw, _ := zstd.NewWriter(nil)
	for name, data := range map[string][]byte{
		"tar": raw, "gzip": gzipped(raw), "zstd": zw.EncodeAll(raw, nil),
		"gzip in two streams": append(gzipped(raw[:700]), gzipped(raw[700:])...),
		"gzip, padded":        append(gzipped(raw), make([]byte, 700)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			to := filepath.Join(base, "to")
			for range 2 { // also over what is there
				if err := Extract(context.Background(), write(t, data, base, "a"), to, Limits{}); err != nil {
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
	good := tgz(t, file("a", strings.Repeat("some text", 1000)), file("b", "x"))
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
		"cut tar":      {tarOf(t, file("a", strings.Repeat("x", 2000)))[:1024], "ends too early"},
		"html":         {[]byte("<html>" + strings.Repeat("x", 2000)), "web page"},
		"xz":           {[]byte("\xfd7zXZ\x00rest of it"), "compressed with xz"},
		"empty tar":    {tarOf(t), "no files"},
		"zstd garbage": {[]byte("\x28\xb5\x2f\xfd" + strings.Repeat("x", 100)), "cannot extract"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			err := Extract(context.Background(), write(t, c.data, base, "a.tgz"), filepath.Join(base, "to"), Limits{})
			mustFail(t, err, "a.tgz", c.words)
		})
	}
	mustFail(t, Extract(context.Background(), "/no/such.tgz", t.TempDir(), Limits{}), "/no/such.tgz", "no such file")
}

func TestExtractEndsWithContext(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("enough")
	cancel(stop)
	err := Extract(ctx, write(t, releaseArchive(t), base, "a.tgz"), filepath.Join(base, "to"), Limits{})
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
	// Frames of zeros behind the head of an entry, as many as it takes.
	head := tarOf(t, entry{name: "packages/bomb.tgz", mode: 0o644})[:512]
	frame := zw.EncodeAll(make([]byte, 64<<20), nil)
	packed := append(zw.EncodeAll(head, nil), bytes.Repeat(frame, 33)...)
	archive := write(t, packed, base, "a.tar.zst")
	// Read without being written: gigabytes on the disk prove nothing more.
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	u, err := unpack(&source{ctx: context.Background(), r: f}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	err = archiveError(archive, "packages/bomb.tgz", drain(u))
	var unsafe *UnsafeError
	if !errors.As(err, &unsafe) {
		t.Fatalf("a bomb of %d bytes: %v", len(packed), err)
	}
	mustFail(t, err, "200 times its size")
}

func TestPackIsStableAndComesBack(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	from := filepath.Join(base, "from")
	archive := write(t, tgz(t, file("bin/run", "x"), file("b", "2"), symlink("l", "bin/run"), dir("empty/")), base, "a.tgz")
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
	if err := Extract(context.Background(), write(t, first, base, "b.tgz"), again, Limits{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, pack(from)) || !bytes.Equal(first, pack(again)) {
		t.Error("the same contents make different archives")
	}
	r := tar.NewReader(mustGunzip(t, first))
	var names []string
	for h, err := r.Next(); err == nil; h, err = r.Next() {
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "./ ./b ./bin/ ./bin/run ./empty/ ./l" {
		t.Errorf("entries are %s", got)
	}
	mustFail(t, Pack(context.Background(), filepath.Join(base, "none"), &bytes.Buffer{}), "none", "no such file")
}
