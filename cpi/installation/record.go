package installation

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
)

// recordFormat is the first line of a record. A record with another first line is
// ignored.
const recordFormat = "bootstrap compiled package 1"

// record writes the list of all files of a compiled package to file, atomically.
func record(file, dir string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%q\n", recordFormat, dir)
	count := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if strings.ContainsAny(rel, "\n\r") {
			return fmt.Errorf("the name %q has a line break", rel)
		}
		count++
		fmt.Fprintf(&b, "%s %s\n", facts(info), rel)
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "end %d\n", count)
	atomicfile.RemoveStale(file) // the installation is locked
	return atomicfile.Replace(file, b.Bytes())
}

// facts returns the properties of a file that must not change. New files in a folder are
// allowed, because programs write caches beside their files.
func facts(info fs.FileInfo) string {
	if info.IsDir() {
		return info.Mode().Type().String()
	}
	// A Go or a Ruby has tens of thousands of files: fmt is too slow.
	b := append(make([]byte, 0, 64), info.Mode().String()...)
	b = strconv.AppendInt(append(b, '/'), info.Size(), 10)
	b = strconv.AppendInt(append(b, '/'), info.ModTime().UnixNano(), 10)
	return string(b)
}

// intact reports whether dir still contains all files that file lists.
func intact(file, dir string) bool {
	f, _, err := regular.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for _, want := range []string{recordFormat, fmt.Sprintf("%q", dir)} {
		if !lines.Scan() || lines.Text() != want {
			return false
		}
	}
	for count := 0; lines.Scan(); count++ {
		want, rel, _ := strings.Cut(lines.Text(), " ")
		if want == "end" {
			return rel == fmt.Sprint(count) && !lines.Scan()
		}
		info, err := os.Lstat(dir + string(filepath.Separator) + rel)
		if err != nil || facts(info) != want {
			return false
		}
	}
	return false
}
