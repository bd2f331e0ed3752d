//go:build unix

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// unpack FOLDER replaces the deployment in the script's folder with one that an earlier
// version left, from a folder of testdata/takeover. The release that its manifest names
// is the quickstart's.
func unpack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: unpack FOLDER")
	}
	source, target := args[0], ts.MkAbs(".")
	home := ts.MkAbs("home/.bosh")
	entries, err := os.ReadDir(home)
	ts.Check(err)
	for _, e := range entries {
		if e.Name() != "cache" {
			ts.Check(os.RemoveAll(filepath.Join(home, e.Name())))
		}
	}
	for _, name := range []string{"state", "page-release"} {
		ts.Check(os.RemoveAll(ts.MkAbs(name)))
	}
	ts.Check(os.CopyFS(ts.MkAbs("page-release"), os.DirFS(filepath.Join(ts.Getenv("TESTDATA"), "quickstart", "page-release"))))
	ts.Check(filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		to := filepath.Join(target, rel)
		switch {
		case rel == "local.tar.gz":
			return extract(path, home, target)
		case d.IsDir():
			return os.MkdirAll(to, 0o700)
		case d.Type() == fs.ModeSymlink:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(placed(link, target), to)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return place(to, data, info.Mode()&0o100|0o600, target)
	}))
	holdPorts(ts)
}

// holdPorts waits until no other run of these tests uses the ports of the manifest, which
// are the same for all runs. To exclude others, a run listens on a port near them.
func holdPorts(ts *testscript.TestScript) {
	port := regexp.MustCompile(`mbus: https://.*:(\d+)`).FindStringSubmatch(ts.ReadFile("page.yml"))
	if port == nil {
		ts.Fatalf("page.yml names no port of the agent")
	}
	held := "HELD_" + port[1]
	if ts.Getenv(held) != "" {
		return // the script itself holds the port
	}
	n, err := strconv.Atoi(port[1])
	ts.Check(err)
	for deadline := time.Now().Add(5 * time.Minute); ; <-time.After(100 * time.Millisecond) {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n-1000)))
		if err == nil {
			ts.Setenv(held, "yes")
			ts.Defer(func() { l.Close() })
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("another run has the ports: %v", err)
		}
	}
}

// extract unpacks the machines of the embedded CPI.
func extract(archive, to, target string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(to, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o700)
		case tar.TypeSymlink:
			err = os.Symlink(placed(h.Linkname, target), path)
		case tar.TypeReg:
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = place(path, data, h.FileInfo().Mode(), target)
			}
		}
		if err != nil {
			return err
		}
	}
}

// placed replaces the placeholder for the folder that contains the files.
func placed[T string | []byte](text T, target string) T {
	return T(bytes.ReplaceAll([]byte(text), []byte("{DIR}"), []byte(target)))
}

func place(path string, data []byte, mode fs.FileMode, target string) error {
	if err := os.WriteFile(path, placed(data, target), mode); err != nil {
		return err
	}
	return os.Chmod(path, mode) // an existing file keeps its mode
}
