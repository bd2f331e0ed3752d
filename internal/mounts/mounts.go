// Package mounts reads the kernel's list of mounts.
package mounts

import (
	"os"
	"strconv"
	"strings"
)

// Mount is one mount of this process's namespace.
type Mount struct {
	Folder string // path in its own file system
	Place  string // mount point
	Device string // number of the file system, such as 8:1; mounts of the same file system have the same
	Kind   string // type of the file system, such as ext4
}

// Read returns the mounts in the order in which they were made: of two at the same place, the last
// one is visible. It does not ask any of these file systems, some of which may never answer.
func Read() ([]Mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parse(string(text)), nil
}

// parse reads the format of proc_pid_mountinfo(5).
func parse(text string) []Mount {
	var list []Mount
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) > 4 && len(kind) > 0 {
			list = append(list, Mount{Folder: decode(fields[3]), Place: decode(fields[4]), Device: fields[2], Kind: kind[0]})
		}
	}
	return list
}

// decode decodes a path, in which spaces and other characters are octal numbers.
func decode(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		if text[0] == '\\' && len(text) > 3 {
			if code, err := strconv.ParseUint(text[1:4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				text = text[4:]
				continue
			}
		}
		out.WriteByte(text[0])
		text = text[1:]
	}
	return out.String()
}
